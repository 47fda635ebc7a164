#include "ferrite/examples/common/loss_guard.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/nn/norm.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"

using namespace ferrite;
using examples::LossGuard;

namespace {

double check(LossGuard& guard, double loss) {
  return guard.check(tensor(loss, {.dtype = kFloat32})).item<double>();
}

}  // namespace

TEST_CASE(
    "a loss guard skips losses that are not finite and, after some steps, losses that explode") {
  nn::BatchNorm2d norm(2);
  LossGuard guard(norm, Device(), 10);
  CHECK(guard.check(tensor(1.0, {.dtype = kFloat32})).dtype() == kFloat32);
  CHECK(check(guard, 1000) == 0);  // too early to tell
  CHECK(check(guard, NAN) == 1);
  for (int i = 0; i < 8; ++i) CHECK(check(guard, 1) == 0);
  const double mean = 1009 / 10.0;
  CHECK(guard.skipped().mean == doctest::Approx(mean));
  CHECK(check(guard, 10.01 * mean) == 1);
  CHECK(check(guard, INFINITY) == 1);
  CHECK(check(guard, -INFINITY) == 0);  // no lower limit is known
  LossGuard finite(norm, Device(), 0);
  for (int i = 0; i < 20; ++i) CHECK(check(finite, i) == 0);
  CHECK(check(finite, 1e30) == 0);
  CHECK(check(finite, NAN) == 1);
}

TEST_CASE("a loss guard counts skipped losses, and resumes from a checkpoint") {
  nn::BatchNorm2d norm(2);
  LossGuard guard(norm, Device(), 2);
  for (int i = 0; i < 12; ++i) check(guard, 4);
  for (const double bad : {9.0, double(INFINITY), 8.5}) CHECK(check(guard, bad) == 1);
  LossGuard::Skipped skipped = guard.skipped();
  CHECK(skipped.steps == 3);
  CHECK(skipped.in_a_row == 3);
  CHECK(skipped.loss == 8.5);
  CHECK(skipped.mean == 4);
  LossGuard resumed(norm, Device(), 2);
  resumed.load_state_dict(guard.state_dict());
  for (LossGuard* g : {&guard, &resumed}) {
    CHECK(check(*g, 7.9) == 0);
    CHECK(check(*g, 9) == 1);
    skipped = g->skipped();
    CHECK(skipped.steps == 4);
    CHECK(skipped.in_a_row == 1);
    CHECK(skipped.mean == doctest::Approx(4 + 3.9 / 13));
  }
  // The mean is exponential: after hundreds of losses of 1, earlier values no longer count.
  for (int i = 0; i < 400; ++i) check(guard, 1);
  CHECK(guard.skipped().mean < 1.01);
  CHECK_THROWS_AS(guard.load_state_dict({{"state", zeros({3})}}), ShapeError);
  CHECK_THROWS_AS(guard.load_state_dict({}), IndexError);
}

TEST_CASE("a loss guard restores running statistics") {
  nn::BatchNorm2d norm(2);
  LossGuard guard(norm, Device(), 10);
  const auto step = [&](const Tensor& input, double loss) {
    guard.begin();
    norm(input);
    guard.end(guard.check(tensor(loss, {.dtype = kFloat32})));
  };
  step(randn({3, 2, 4, 4}), 1);
  const auto mean = norm.running_mean.to_vector<float>(), var = norm.running_var.to_vector<float>();
  CHECK(mean != std::vector<float>{0, 0});
  step(full({3, 2, 4, 4}, NAN), NAN);
  CHECK(norm.running_mean.to_vector<float>() == mean);
  CHECK(norm.running_var.to_vector<float>() == var);
  CHECK(norm.num_batches_tracked.item<std::int64_t>() == 1);
  step(randn({3, 2, 4, 4}), 2);
  CHECK(norm.running_mean.to_vector<float>() != mean);
  CHECK(norm.num_batches_tracked.item<std::int64_t>() == 2);
}
