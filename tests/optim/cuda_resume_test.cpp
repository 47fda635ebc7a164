#include <doctest/doctest.h>

#include "ferrite/tests/optim/killed_training.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("a training on a CUDA device that is killed ends with the bits of one that was not") {
  REQUIRE_CUDA(1);
  check_killed_training("cuda:0", /*steps=*/50, /*kills=*/5);
}
