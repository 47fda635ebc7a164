#include "ferrite/ops/resize.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

constexpr InterpolateMode kBilinear = InterpolateMode::bilinear;

// The lists of tests/golden/record_interpolate.py.
const std::vector<Pair> kSizes{{10, 8}, {3, 9}, {21, 12}, {6, 2}, {4, 1}, {1, 1}, {13, 7}};
const std::vector<ScaleFactor> kFactors{{2, 2},   {1.7, 0.6},  {2.4, 1},
                                        {0.5, 3}, {1.15, 1.3}, {0.34, 0.2}};

struct Mode {
  const char* name;
  InterpolateOptions options;
  bool sizes;
};
const std::vector<Mode> kModes{
    {"nearest", {}, true},
    {"bilinear", {.mode = kBilinear}, true},
    {"corners", {.mode = kBilinear, .align_corners = true}, true},
    {"recomputed", {.mode = kBilinear, .recompute_scale_factor = true}, false},
    {"nearest_recomputed", {.recompute_scale_factor = true}, false},
};

void check_golden(const test::Golden& golden, const std::string& name,
                  const InterpolateOptions& options) {
  CAPTURE(name);
  for (const MemoryFormat format : {kContiguous, kChannelsLast})
    for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
      CAPTURE(dtype);
      const double rtol = test::rounding_of(dtype);
      const Tensor x =
          golden.get(name, "x").to(dtype).contiguous(format).detach().set_requires_grad();
      const Tensor y = interpolate(x, options);
      CHECK(y.dtype() == dtype);
      CHECK(y.is_contiguous(format));
      check_close(y, golden.get(name, "y"), 2 * rtol, 3 * rtol);
      y.backward(golden.get(name, "grad").to(dtype));
      CHECK(x.grad().is_contiguous(format));
      // Up to 36 gradients of the size of 1 a cell.
      check_close(x.grad(), golden.get(name, "dx"), 2 * rtol, 10 * rtol);
    }
}

}  // namespace

TEST_CASE("interpolate agrees with PyTorch") {
  const test::Golden golden("interpolate");
  check_golden(golden, "bilinear_same", {.scale_factor = {1.05, 1.2}, .mode = kBilinear});
  for (const Mode& mode : kModes) {
    for (std::size_t i = 0; i < kFactors.size(); ++i) {
      InterpolateOptions options = mode.options;
      options.scale_factor = kFactors[i];
      check_golden(golden, fmt::format("{}_factor{}", mode.name, i), options);
    }
    if (!mode.sizes) continue;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      InterpolateOptions options = mode.options;
      options.size = kSizes[i];
      check_golden(golden, fmt::format("{}_size{}", mode.name, i), options);
    }
  }
}

TEST_CASE("interpolate: gradients by gradcheck, to the second order") {
  Generator generator(3);
  for (const MemoryFormat format : {kContiguous, kChannelsLast})
    for (const Mode& mode : kModes) {
      CAPTURE(mode.name);
      InterpolateOptions options = mode.options;
      options.scale_factor = {1.6, 0.7};
      const Tensor x =
          randn({2, 2, 3, 4}, {.dtype = kFloat64}, &generator).contiguous(format).detach();
      x.set_requires_grad();
      CHECK(autograd::gradcheck(
          [&](const std::vector<Tensor>& in) { return interpolate(in[0] * in[0], options); }, {x},
          {.second_order = true}));
    }
}

TEST_CASE("interpolate: views, empty batches, one cell, threads") {
  Generator generator(4);
  const Tensor wide = randn({2, 6, 5, 4}, {}, &generator).set_requires_grad();
  const Tensor view = wide.permute({0, 3, 2, 1}).slice(3, 1, 5);
  const InterpolateOptions options{.size = {9, 3}, .mode = kBilinear};
  check_equal(interpolate(view, options), interpolate(view.detach().contiguous(), options));
  interpolate(view, options).backward(ones({1, 1, 1, 1}).expand({2, 4, 9, 3}));
  CHECK(wide.grad().shape() == wide.shape());
  CHECK(wide.grad().sum().item<double>() == doctest::Approx(2 * 4 * 9 * 3).epsilon(1e-5));

  const Tensor none = zeros({0, 3, 2, 2}).set_requires_grad();
  const Tensor out = interpolate(none, {.scale_factor = 1.5});
  CHECK(out.shape() == Shape{0, 3, 3, 3});
  out.sum().backward();
  CHECK(none.grad().shape() == none.shape());

  const Tensor cell = full({1, 1, 1, 1}, 3);
  for (const Mode& mode : kModes) {
    if (!mode.sizes) continue;
    InterpolateOptions to = mode.options;
    to.size = {4, 7};
    check_equal(interpolate(cell, to), full({1, 1, 4, 7}, 3));
  }

  const Tensor gray = randn({2, 1, 5, 6}, {}, &generator);
  const InterpolateOptions twice{.scale_factor = 2, .mode = kBilinear};
  const Tensor named = interpolate(gray.to(kChannelsLast), twice);
  CHECK(named.suggest_memory_format() == kChannelsLast);
  check_equal(named, interpolate(gray, twice));

  const int before = num_threads();
  const Tensor large = randn({2, 5, 60, 70}, {}, &generator).set_requires_grad();
  std::vector<Tensor> results;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
      large.set_grad({});
      const Tensor y =
          interpolate(large.contiguous(format), {.scale_factor = 1.9, .mode = kBilinear});
      y.backward(y.detach());
      results.insert(results.end(), {y.detach(), large.grad()});
    }
  }
  set_num_threads(before);
  for (std::size_t i = 0; i < 4; ++i) check_equal(results[i], results[i + 4]);
}

TEST_CASE("interpolate takes a size by position, and modes by name") {
  const Tensor x = arange(6, kFloat32).view(1, 1, 2, 3);
  check_equal(interpolate(x, 2), interpolate(x, {.size = 2}));
  check_equal(interpolate(x, {4, 5}), interpolate(x, {.size = {4, 5}}));
  const InterpolateOptions bilinear{.size = {4, 5}, .mode = InterpolateMode::bilinear};
  check_equal(interpolate(x, {4, 5}, "bilinear"), interpolate(x, bilinear));
  check_equal(interpolate(x, {.size = {4, 5}, .mode = "bilinear"}), interpolate(x, bilinear));
  check_equal(interpolate(x, {4, 5}, kBilinear, true),
              interpolate(x, {.size = {4, 5}, .mode = kBilinear, .align_corners = true}));
  CHECK_THROWS_WITH_AS(interpolate(x, 2, "cubic"),
                       "[interpolate] expected one of \"nearest\", \"nearest-exact\", \"linear\", "
                       "\"bilinear\", \"bicubic\", \"trilinear\", \"area\", got \"cubic\"",
                       ValueError);
}

TEST_CASE("interpolate refuses what it cannot do") {
  const Tensor x = ones({1, 2, 3, 4});
  CHECK_THROWS_WITH_AS(interpolate(x, {}), "[interpolate] expected one of size and scale_factor",
                       ValueError);
  CHECK_THROWS_AS(interpolate(x, {.size = 3, .scale_factor = 2}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.size = 3, .align_corners = true}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.size = 3, .recompute_scale_factor = true}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = {2, -1}}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = {2, 0}}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = INFINITY}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = 0.2}), ShapeError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = 1e12}), ShapeError);
  CHECK_THROWS_AS(interpolate(x, {.size = {3, 0}}), ShapeError);
  CHECK_THROWS_AS(interpolate(x, {.size = -1}), ShapeError);
  CHECK_THROWS_AS(interpolate(ones({3, 4}), {.size = 3}), ShapeError);
  CHECK_THROWS_AS(interpolate(ones({2, 0, 3, 4}), {.size = 3}), ShapeError);
  CHECK_THROWS_AS(interpolate(ones({2, 3, 0, 4}), {.size = 3}), ShapeError);
  CHECK_THROWS_AS(interpolate(x.to(kInt64), {.size = 3}), DTypeError);
  CHECK_THROWS_AS(interpolate(Tensor(), {.size = 3}), ValueError);
}
