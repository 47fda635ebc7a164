#include <doctest/doctest.h>

#include "ferrite/tests/optim/killed_training.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("a training that is killed 20 times ends with the bits of one that was not") {
  check_killed_training("cpu", /*steps=*/160, /*kills=*/20);
}
