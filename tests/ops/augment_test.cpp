#include "ferrite/ops/augment.h"

#include <doctest/doctest.h>

#include "ferrite/data/transforms.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

Tensor images_of(const Shape& shape) {
  manual_seed(5);
  return randint(0, 256, shape).to(kUInt8);
}

const std::vector<double> kMean = {0.4914, 0.4822, 0.4465}, kStd = {0.2023, 0.1994, 0.2010};

}  // namespace

TEST_CASE("normalizing a batch is what the transforms do to each image") {
  const Tensor images = images_of({4, 3, 6, 5});
  const Tensor out = augment(images, {.mean = kMean, .std = kStd}, false);
  const data::Compose transform{data::ToTensor(), data::Normalize(kMean, kStd)};
  for (std::int64_t n = 0; n < 4; ++n)
    check_close(out.select(0, n), transform(images.select(0, n)), 1e-5, 1e-6);
  check_equal(augment(out, {}, false), out);
  check_close(augment(images, {.mean = {0.5}, .std = {0.25}}, false),
              (images.to(kFloat32) / 255 - 0.5) / 0.25, 1e-5, 1e-6);
}

TEST_CASE("layouts of images and results hold the same numbers") {
  const Tensor images = images_of({3, 3, 8, 8});
  const AugmentOptions options{
      .padding = 2, .height = 8, .width = 8, .flip = 0.5, .mean = kMean, .std = kStd};
  const auto run = [&](const Tensor& x, ImageLayout layout, MemoryFormat format, DType dtype) {
    AugmentOptions o = options;
    o.layout = layout;
    o.memory_format = format;
    o.dtype = dtype;
    Generator generator(11);
    const Tensor out = augment(x, o, true, &generator);
    CHECK(out.is_contiguous(format));
    CHECK(generator.state().offset == 3);
    return out;
  };
  const Tensor expected = run(images, ImageLayout::nchw, kContiguous, kFloat32);
  check_equal(run(images.to(kChannelsLast), ImageLayout::nchw, kChannelsLast, kFloat32), expected);
  const Tensor pixels = images.permute({0, 2, 3, 1}).contiguous();
  check_equal(run(pixels, ImageLayout::nhwc, kContiguous, kFloat32), expected);
  check_equal(run(pixels, ImageLayout::nhwc, kChannelsLast, kFloat16), expected.to(kFloat16));
}

TEST_CASE("windows: where nothing is random, always mirrored, and reproducible") {
  const Tensor images = images_of({2, 1, 6, 6}).to(kFloat32);
  check_equal(augment(images, {.padding = 1, .height = 4, .width = 5}, false),
              pad(images, {1, 1, 1, 1}).narrow(2, 2, 4).narrow(3, 2, 5));
  check_equal(augment(images, {.flip = 1}), flip(images, {3}));
  check_equal(augment(images, {.padding = 3, .height = 12, .width = 12}),
              pad(images, {3, 3, 3, 3}));
  const AugmentOptions options{.padding = 4, .height = 6, .width = 6, .flip = 0.5};
  manual_seed(3);
  const Tensor first = augment(images, options), second = augment(images, options);
  manual_seed(3);
  check_equal(augment(images, options), first);
  CHECK(first.to_vector<float>() != second.to_vector<float>());
  check_equal(augment(images.to("cpu:0"), options).to("cpu"), [&] {
    manual_seed(3);
    return augment(images, options);
  }());
  CHECK(augment(zeros({0, 3, 4, 4}), options).shape() == Shape{0, 3, 6, 6});
}

TEST_CASE("errors of augment") {
  const Tensor x = zeros({2, 3, 4, 4});
  CHECK_THROWS_WITH_AS(augment(zeros({3, 4, 4}), {}),
                       "[augment] expected images of 4 dimensions, got float32[3, 4, 4] on cpu",
                       ShapeError);
  CHECK_THROWS_AS(augment({}, {}), ShapeError);
  CHECK_THROWS_AS(augment(x.to(kFloat64), {}), DTypeError);
  CHECK_THROWS_AS(augment(x, {.dtype = kFloat64}), DTypeError);
  CHECK_THROWS_WITH_AS(
      augment(x, {.padding = 1, .height = 7}),
      "[augment] a window of 7 x 4 does not fit images of 4 x 4 with a padding of 1", ShapeError);
  CHECK_THROWS_AS(augment(x, {.width = -1}), ShapeError);
  CHECK_THROWS_AS(augment(x, {.padding = -1}), ValueError);
  CHECK_THROWS_AS(augment(x, {.flip = 1.5}), ValueError);
  CHECK_THROWS_WITH_AS(augment(x, {.mean = {1, 2}}),
                       "[augment] 2 means or deviations for 3 channels", ValueError);
  CHECK_THROWS_AS(augment(x, {.std = {0}}), ValueError);
  CHECK_THROWS_WITH_AS(augment(zeros({1, 33, 2, 2}), {}),
                       "[augment] images have 33 channels, at most 32 are possible", ShapeError);
}
