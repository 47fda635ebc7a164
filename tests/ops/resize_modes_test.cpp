// The modes of interpolate() besides nearest and bilinear of images, which are in resize_test.cpp.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/resize.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

// The lists of tests/golden/record_interpolate.py.
const std::vector<InterpolateOptions> kOthers{
    {.size = 11, .mode = "nearest"},
    {.scale_factor = 2.3, .mode = "nearest"},
    {.size = {5, 4, 3}, .mode = "nearest"},
    {.scale_factor = 2, .mode = "nearest"},
    {.size = 3, .mode = "nearest-exact"},
    {.scale_factor = 1.7, .mode = "nearest-exact"},
    {.size = {8, 4}, .mode = "nearest-exact"},
    {.scale_factor = {0.6, 2.4}, .mode = "nearest-exact"},
    {.scale_factor = {1.4, 2, 0.8}, .mode = "nearest-exact"},
    {.size = 12, .mode = "linear"},
    {.scale_factor = 0.7, .mode = "linear"},
    {.size = 9, .mode = "linear", .align_corners = true},
    {.size = {5, 3, 4}, .mode = "trilinear"},
    {.scale_factor = 2, .mode = "trilinear"},
    {.size = {5, 4, 2}, .mode = "trilinear", .align_corners = true},
    {.size = {2, 5, 3}, .mode = "trilinear"},
    {.size = {9, 7}, .mode = "bicubic"},
    {.size = {3, 4}, .mode = "bicubic"},
    {.size = {7, 5}, .mode = "bicubic", .align_corners = true},
    {.scale_factor = {1.7, 1.05}, .mode = "bicubic"},
    {.scale_factor = {3, 2.5}, .mode = "bicubic", .recompute_scale_factor = true},
    {.size = 3, .mode = "area"},
    {.size = {7, 4}, .mode = "area"},
    {.scale_factor = {0.7, 1.3, 0.5}, .mode = "area"},
    {.size = {4, 7}, .mode = "bilinear", .antialias = true},
    {.scale_factor = {0.4, 0.3}, .mode = "bilinear", .antialias = true},
    {.size = {3, 4}, .mode = "bilinear", .align_corners = true, .antialias = true},
    {.size = {5, 4}, .mode = "bicubic", .antialias = true},
    {.scale_factor = {0.45, 1.15}, .mode = "bicubic", .antialias = true},
    {.size = {9, 3}, .mode = "bicubic", .align_corners = true, .antialias = true},
};

struct Bytes {
  const char* mode;
  bool antialias;
  Pair size;
};
const std::vector<Bytes> kBytes{{"nearest", false, {7, 9}},  {"nearest-exact", false, {4, 11}},
                                {"bilinear", false, {9, 4}}, {"bicubic", false, {9, 13}},
                                {"bilinear", true, {3, 4}},  {"bicubic", true, {4, 9}}};

/// Both memory formats where there are two.
std::vector<MemoryFormat> formats_of(const Tensor& x) {
  if (x.dim() == 4) return {kContiguous, kChannelsLast};
  return {kContiguous};
}

/// An input of case i in float64, with a batch of two.
Tensor input_of(std::size_t i, const test::Golden& golden, Generator& generator) {
  Shape shape = golden.get(fmt::format("other{}", i), "x").shape();
  shape[0] = 2;
  return randn(shape, {.dtype = kFloat64}, &generator);
}

}  // namespace

TEST_CASE("interpolate: all modes agree with PyTorch, in every dtype and format") {
  const test::Golden golden("interpolate_modes");
  for (std::size_t i = 0; i < kOthers.size(); ++i) {
    const std::string name = fmt::format("other{}", i);
    CAPTURE(name);
    const Tensor x64 = golden.get(name, "x");
    for (const MemoryFormat format : formats_of(x64))
      for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
        CAPTURE(dtype);
        const double rtol = test::rounding_of(dtype);
        const Tensor x = x64.to(dtype).contiguous(format).detach().set_requires_grad();
        const Tensor y = interpolate(x, kOthers[i]);
        CHECK(y.dtype() == dtype);
        CHECK(y.is_contiguous(format));
        // Cubic weights add up to almost 2 in size, for each dimension.
        check_close(y, golden.get(name, "y"), 4 * rtol, 12 * rtol);
        y.backward(golden.get(name, "grad").to(dtype));
        CHECK(x.grad().is_contiguous(format));
        check_close(x.grad(), golden.get(name, "dx"), 4 * rtol, 20 * rtol);
      }
  }
  CHECK_FALSE(golden.has(fmt::format("other{}", kOthers.size()), "x"));
}

TEST_CASE("interpolate: bytes, as PyTorch's but for its weights of 16 bits") {
  const test::Golden golden("interpolate_modes");
  for (std::size_t i = 0; i < kBytes.size(); ++i) {
    const std::string name = fmt::format("bytes{}", i);
    CAPTURE(name);
    const Tensor x = golden.get(name, "x");
    for (const MemoryFormat format : formats_of(x)) {
      const Tensor y = interpolate(
          x.contiguous(format),
          {.size = kBytes[i].size, .mode = kBytes[i].mode, .antialias = kBytes[i].antialias});
      REQUIRE(y.dtype() == kUInt8);
      CHECK(y.is_contiguous(format));
      const Tensor off = (y.to(kFloat32) - golden.get(name, "y").to(kFloat32)).abs();
      CHECK(amax(off).item<float>() <= (i < 2 ? 0 : 1));
    }
  }
}

TEST_CASE("interpolate: ties are PyTorch's") {
  // Of bytes, halves go up.
  const Tensor bytes = tensor({0, 2}).to(kUInt8).view({1, 1, 1, 2});
  check_equal(interpolate(bytes, {.size = {1, 4}, .mode = "bilinear"}).flatten(),
              tensor({0, 1, 2, 2}).to(kUInt8));
  // Element 20 is at 20.5 * 10 / 205 = 1, which the order of roundings decides.
  const Tensor row = interpolate(arange(10, {.dtype = kFloat32}).view({1, 1, 10}),
                                 {.size = {205}, .mode = "nearest-exact"});
  CHECK(row.flatten()[20].item<float>() == 1);
}

TEST_CASE("interpolate: gradients of all modes by gradcheck, to the second order") {
  const test::Golden golden("interpolate_modes");
  Generator generator(5);
  for (std::size_t i = 0; i < kOthers.size(); ++i) {
    CAPTURE(i);
    const Tensor drawn = input_of(i, golden, generator);
    for (const MemoryFormat format : formats_of(drawn)) {
      const Tensor x = drawn.contiguous(format).detach().set_requires_grad();
      CHECK(autograd::gradcheck(
          [&](const std::vector<Tensor>& in) { return interpolate(in[0] * in[0], kOthers[i]); },
          {x}, {.second_order = true}));
    }
  }
}

TEST_CASE("interpolate: all modes of views and of empty batches, with any number of threads") {
  const test::Golden golden("interpolate_modes");
  Generator generator(6);
  const int before = num_threads();
  for (std::size_t i = 0; i < kOthers.size(); ++i) {
    CAPTURE(i);
    const Tensor x = input_of(i, golden, generator).to(kFloat32).detach();
    const Tensor y = interpolate(x, kOthers[i]);
    const Tensor turned = x.transpose(0, -1).contiguous().transpose(0, -1).set_requires_grad();
    const Tensor of_view = interpolate(turned, kOthers[i]);
    check_equal(of_view.detach(), y);
    of_view.sum().backward();
    CHECK(turned.grad().shape() == x.shape());

    const Tensor none = x.slice(0, 0, 0).contiguous().detach().set_requires_grad();
    const Tensor nothing = interpolate(none, kOthers[i]);
    Shape shape = y.shape();
    shape[0] = 0;
    CHECK(nothing.shape() == shape);
    nothing.sum().backward();
    CHECK(none.grad().shape() == none.shape());

    for (const MemoryFormat format : formats_of(x)) {
      std::vector<Tensor> results;
      for (const int threads : {1, 3}) {
        set_num_threads(threads);
        Shape wide = x.shape();
        wide[1] = 700;
        const Tensor large =
            x.slice(1, 0, 1).expand(wide).contiguous(format).detach().set_requires_grad();
        const Tensor out = interpolate(large, kOthers[i]);
        out.backward(out.detach());
        results.insert(results.end(), {out.detach(), large.grad()});
      }
      check_equal(results[0], results[2]);
      check_equal(results[1], results[3]);
    }
  }
  set_num_threads(before);
}

TEST_CASE("interpolate: elements of weight 0 have no effect, and nearest keeps -0") {
  Tensor x = ones({1, 1, 3, 5});
  for (std::int64_t i : {1, 3, 6}) x.data<float>()[i] = NAN;
  // Every second result is one element.
  const Tensor y = interpolate(x, {.size = {3, 9}, .mode = "bicubic", .align_corners = true});
  for (std::int64_t i = 0; i < 27; ++i)
    if (i % 9 % 2 == 0)
      CHECK(std::isnan(y.data<float>()[i]) == std::isnan(x.data<float>()[i / 9 * 5 + i % 9 / 2]));
  const Tensor zeros = full({1, 1, 2, 2, 2}, -0.0);
  const Tensor twice = interpolate(zeros, {.scale_factor = 2});
  for (std::int64_t i = 0; i < twice.numel(); ++i) CHECK(std::signbit(twice.data<float>()[i]));
}

TEST_CASE("interpolate: an element of everything, and sizes that stay") {
  Generator generator(7);
  for (std::size_t i = 0; i < kOthers.size(); ++i) {
    CAPTURE(i);
    const test::Golden golden("interpolate_modes");
    const Tensor x = input_of(i, golden, generator);
    InterpolateOptions o{.mode = kOthers[i].mode,
                         .align_corners = kOthers[i].align_corners,
                         .antialias = kOthers[i].antialias};
    o.scale_factor = 1;
    check_equal(interpolate(x, o), x);
    Shape ones_of = x.shape();
    for (int d = 2; d < x.dim(); ++d) ones_of[d] = 1;
    o.scale_factor = 3;
    const Tensor y = interpolate(full(ones_of, 2.5), o);
    CHECK(y.size(-1) == 3);
    check_close(y, full(y.shape(), 2.5), 1e-6, 0);
  }
}

TEST_CASE("interpolate: names of modes, and what each refuses") {
  using enum InterpolateMode;
  for (const InterpolateMode mode :
       {nearest, bilinear, nearest_exact, linear, bicubic, trilinear, area})
    CHECK(Choice<InterpolateMode>(Choice<InterpolateMode>(mode).name()) == mode);
  const Tensor line = ones({1, 2, 3}), image = ones({1, 2, 3, 4}), volume = ones({1, 2, 3, 4, 5});
  CHECK(interpolate(line, 7).shape() == Shape{1, 2, 7});
  CHECK(interpolate(volume, {3, 5, 7}).shape() == Shape{1, 2, 3, 5, 7});
  CHECK(interpolate(volume, Triple(3, 5, 7), "trilinear").shape() == Shape{1, 2, 3, 5, 7});
  CHECK(interpolate(image, Pair(5, 7), "area").shape() == Shape{1, 2, 5, 7});

  CHECK_THROWS_WITH_AS(interpolate(line, {.size = 3, .mode = "bilinear"}),
                       doctest::Contains("expects an input of [N, C, H, W] for the mode bilinear"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(interpolate(image, {.size = 3, .mode = "linear"}),
                       doctest::Contains("use bilinear"), ShapeError);
  CHECK_THROWS_AS(interpolate(image, {.size = 3, .mode = "trilinear"}), ShapeError);
  CHECK_THROWS_AS(interpolate(volume, {.size = 3, .mode = "bicubic"}), ShapeError);
  CHECK_THROWS_AS(interpolate(ones({2, 3}), {.size = 3, .mode = "area"}), ShapeError);
  CHECK_THROWS_AS(interpolate(image, {.size = {3, 4, 5}}), ShapeError);
  CHECK_THROWS_AS(interpolate(line, {.size = {3, 4}}), ShapeError);
  CHECK_THROWS_AS(interpolate(volume, {.scale_factor = {3, 4}}), ShapeError);
  CHECK_THROWS_AS(interpolate(volume, {.size = {0, 4, 4}}), ShapeError);
  CHECK_THROWS_AS(interpolate(ones({1, 0, 3}), {.size = 3}), ShapeError);
  CHECK_THROWS_AS(interpolate(volume, {.scale_factor = {0, 4, 4}}), ValueError);
  CHECK_THROWS_AS(interpolate(line, {.size = 3, .mode = "nearest-exact", .align_corners = false}),
                  ValueError);
  CHECK_THROWS_AS(interpolate(line, {.size = 3, .mode = "area", .align_corners = true}),
                  ValueError);
  CHECK_THROWS_AS(interpolate(line, {.size = 3, .mode = "linear", .antialias = true}), ValueError);
  CHECK_THROWS_AS(interpolate(image, {.size = 3, .antialias = true}), ValueError);
  const Tensor bytes = zeros({1, 2, 3}, kUInt8);
  CHECK_THROWS_AS(interpolate(bytes, {.size = 3, .mode = "linear"}), DTypeError);
  CHECK_THROWS_AS(interpolate(bytes, {.size = 3, .mode = "area"}), DTypeError);
  CHECK_THROWS_AS(interpolate(image.to(kInt32), {.size = 3, .mode = "bicubic"}), DTypeError);
}
