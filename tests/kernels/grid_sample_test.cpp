#include "ferrite/kernels/grid_sample.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Operand;

namespace {

/// Images, places of which some are outside, and weights.
struct Samples {
  Shape image, samples, taps;
  DType dtype;

  explicit Samples(KernelCase& c) : dtype(c.pick({kFloat32, kFloat64})) {
    const std::int64_t n = c.integer(0, 3), channels = c.pick({0, 1, 3, 8, 17});
    const std::int64_t points = c.pick({std::int64_t{0}, c.size(40), c.integer(250, 600)});
    image = {n, channels, c.integer(1, 90)};
    samples = {n, channels, points};
    taps = {n, c.pick({1, 4, 8, 16}), points};
  }
  Operand places(KernelCase& c) const {
    const Tensor places = empty(taps, {.dtype = kInt64});
    for (std::int64_t i = 0; i < places.numel(); ++i)
      places.data<std::int64_t>()[i] = c.integer(-1, image[2] - 1);
    return c.input(places, kInt64);
  }
  kit::Tolerance tolerance(double terms) const {
    const double unit = dtype == kFloat64 ? 1e-15 : 1e-6;
    return {.rtol = 4 * unit, .atol = 4 * terms * unit};
  }
};

}  // namespace

TEST_CASE("sample_pixels: outside of the image, no value of a weight counts") {
  kit::for_each_case("sample_pixels", 60, [](KernelCase& c) {
    const Samples s(c);
    const Operand image = c.input(s.image, s.dtype), places = s.places(c);
    const Operand weights = c.input(s.taps, s.dtype, {.special = 0.01});
    const Operand samples = c.output(s.samples, s.dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::sample_pixels(stream, at(samples), at(image), at(places), at(weights));
    });
    c.check(samples, s.tolerance(16));
  });
}

TEST_CASE("sample_places of images and volumes") {
  kit::for_each_case("sample_places", 40, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat64});
    const std::int64_t n = c.integer(0, 3), points = c.pick({std::int64_t{0}, c.size(700)});
    const int count = static_cast<int>(c.integer(2, 3));
    kernels::SampleAxes axes{.count = count};
    Operand whole[3];
    std::int64_t each = 1;
    for (int d = 0; d < count; ++d) {
      axes.sizes[d] = c.integer(1, 6);
      axes.taps[d] = c.integer(1, 4);
      each *= axes.taps[d];
      const Tensor values = empty({n, axes.taps[d], points}, {.dtype = kFloat64});
      for (std::int64_t i = 0; i < values.numel(); ++i)
        values.data<double>()[i] = c.integer(0, 40) == 0
                                       ? c.pick<double>({NAN, INFINITY, -INFINITY, 1e30})
                                       : static_cast<double>(c.integer(-1, axes.sizes[d]));
      whole[d] = c.input(values, dtype);
    }
    const Operand places = c.output({n, each, points}, kInt64);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::SampleAxes there = axes;
      for (int d = 0; d < count; ++d) there.whole[d] = at(whole[d]);
      kernels::sample_places(stream, at(places), there);
    });
    c.check(places, {.rtol = 0});
  });
}

TEST_CASE("sample_weight_gradient and sample_image_gradient") {
  kit::for_each_case("sample gradients", 60, [](KernelCase& c) {
    const Samples s(c);
    const Operand image = c.input(s.image, s.dtype), places = s.places(c);
    const Operand weights = c.input(s.taps, s.dtype), grad = c.input(s.samples, s.dtype);
    const Operand grad_weights = c.output(s.taps, s.dtype);
    const Operand grad_image = c.inout(s.image, s.dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::sample_weight_gradient(stream, at(grad_weights), at(grad), at(image), at(places));
      kernels::sample_image_gradient(stream, at(grad_image), at(grad), at(places), at(weights));
    });
    c.check(grad_weights, s.tolerance(17));
    c.check(grad_image, s.tolerance(600));
  });
}
