#include "ferrite/optim/lr_scaling.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ferrite/core/error.h"

using namespace ferrite;
using optim::LRScaling;
using optim::scale_lr;

TEST_CASE("scale_lr") {
  CHECK(scale_lr(0.1, 256, 8192) == doctest::Approx(3.2));  // Goyal et al.
  CHECK(scale_lr(0.1, 256, 128) == doctest::Approx(0.05));
  CHECK(scale_lr(0.1, 128, 1024, LRScaling::sqrt) == doctest::Approx(0.1 * std::sqrt(8.0)));
  CHECK(scale_lr(0.1, 128, 1024, LRScaling::none) == 0.1);
  CHECK(scale_lr(0.1, 7, 7, LRScaling::sqrt) == 0.1);
  CHECK(scale_lr(0, 1, 2) == 0);
  CHECK(optim::lr_scaling("none") == LRScaling::none);
  CHECK(optim::lr_scaling("linear") == LRScaling::linear);
  CHECK(optim::lr_scaling("sqrt") == LRScaling::sqrt);
  CHECK_THROWS_AS(optim::lr_scaling("Linear"), ValueError);
  CHECK_THROWS_AS(scale_lr(0.1, 0, 8), ValueError);
  CHECK_THROWS_AS(scale_lr(0.1, 8, 0), ValueError);
  CHECK_THROWS_AS(scale_lr(-0.1, 8, 8), ValueError);
  CHECK_THROWS_AS(scale_lr(std::numeric_limits<double>::infinity(), 8, 8), ValueError);
}
