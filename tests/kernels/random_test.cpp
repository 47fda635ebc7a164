#include "ferrite/kernels/random.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "ferrite/tests/kit/kernel_case.h"

using namespace ferrite;
using kit::KernelCase;
using kit::Operand;

namespace {

DType any_dtype(KernelCase& c) {
  return c.pick(
      {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool});
}
DType floating_dtype(KernelCase& c) { return c.pick({kFloat32, kFloat16, kBFloat16, kFloat64}); }

/// Sizes around those of Philox blocks and thread blocks.
Shape draw_shape(KernelCase& c) {
  return {c.coin() ? c.integer(1, 12) : c.coin() ? c.size(2100, 1) : c.integer(2000, 9000)};
}

PhiloxState draw_state(KernelCase& c) {
  // Offsets on both sides of 2^32, where the counter carries into its upper word.
  const std::uint64_t far = c.coin() ? 0xfffffff0 : 0;
  return {c.random().next_u64(), far + static_cast<std::uint64_t>(c.integer(0, 40))};
}

}  // namespace

TEST_CASE("uniform numbers agree with the host") {
  kit::for_each_case("uniform", 80, [](KernelCase& c) {
    c.same_dtypes();
    const DType dtype = floating_dtype(c);
    const double low = c.pick({0.0, -1.0, 3.0, -3.0}), high = low + c.pick({1.0, 0.25, 2.0});
    const PhiloxState state = draw_state(c);
    const Operand out = c.output(draw_shape(c), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::uniform(stream, at(out), state, low, high);
    });
    // The compiler may or may not fuse the product and the sum: one rounding of numbers below 5,
    // then one to the dtype.
    c.check(out, {.rtol = dtype == kFloat16    ? 1e-3
                          : dtype == kBFloat16 ? 8e-3
                                               : 0,
                  .atol = dtype == kFloat64 ? 1e-15 : 5e-7});
    for (const double x : c.result(out).to_vector<double>())
      if (!(x >= low && x < high)) c.fail("a number out of the range");
  });
}

TEST_CASE("normal numbers agree with the host") {
  kit::for_each_case("normal", 60, [](KernelCase& c) {
    c.same_dtypes();
    const DType dtype = floating_dtype(c);
    const double mean = c.pick({0.0, 2.0}), std = c.pick({1.0, 0.5});
    const PhiloxState state = draw_state(c);
    const Operand out = c.output(draw_shape(c), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::normal(stream, at(out), state, mean, std);
    });
    // Logarithm, sine and cosine are accurate to a few ulps of float (double).
    c.check(out, {.rtol = dtype == kFloat16    ? 1e-3
                          : dtype == kBFloat16 ? 8e-3
                                               : 0,
                  .atol = dtype == kFloat64 ? 1e-14 : 4e-6});
  });
}

TEST_CASE("random integers of any type agree with the host") {
  kit::for_each_case("randint", 80, [](KernelCase& c) {
    c.same_dtypes();
    const DType dtype = any_dtype(c);
    const bool small = dtype == kUInt8 || dtype == kBool;
    const std::int64_t low = small ? 0 : c.pick<std::int64_t>({0, -7, -1000});
    const std::int64_t range = dtype == kBool ? 2 : c.pick<std::int64_t>({1, 10, 200});
    const bool whole = dtype == kInt64 && c.coin();
    const PhiloxState state = draw_state(c);
    const Operand out = c.output(draw_shape(c), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      if (whole)
        kernels::random_integers(stream, at(out), state, INT64_MIN, INT64_MAX);
      else
        kernels::random_integers(stream, at(out), state, low, low + range);
    });
    c.check(out);
  });
}

TEST_CASE("Bernoulli numbers agree with the host, for one probability and for many") {
  kit::for_each_case("bernoulli", 100, [](KernelCase& c) {
    c.same_dtypes();
    const DType dtype = any_dtype(c);
    const PhiloxState state = draw_state(c);
    const Shape shape = draw_shape(c);
    const bool many = c.coin();
    const double same = c.pick({0.0, 0.1, 0.5, 1.0});
    const Operand p =
        many ? c.input(shape, is_floating(dtype) ? dtype : kFloat32, {.low = 0, .high = 1})
             : Operand();
    const Operand out = c.output(shape, dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      if (many)
        kernels::bernoulli(stream, at(out), state, at(p));
      else
        kernels::bernoulli(stream, at(out), state, same);
    });
    c.check(out);
  });
}

TEST_CASE("permutations agree with the host") {
  kit::for_each_case("permutation", 40, [](KernelCase& c) {
    c.same_dtypes();
    const PhiloxState state = draw_state(c);
    const Operand out = c.output(draw_shape(c), kInt64);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::permutation(stream, at(out), state);
    });
    c.check(out);
    std::vector<std::int64_t> values = c.result(out).to_vector<std::int64_t>();
    std::sort(values.begin(), values.end());
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != static_cast<std::int64_t>(i)) return c.fail("a number is missing");
  });
}

TEST_CASE("no random numbers") {
  for (const Device& device : kit::test_devices()) {
    const Stream& stream = current_stream(device);
    const Tensor none = empty({0}, {.device = device});
    kernels::uniform(stream, none, {}, 0, 1);
    kernels::normal(stream, none, {}, 0, 1);
    kernels::random_integers(stream, none, {}, 0, 9);
    kernels::bernoulli(stream, none, {}, 0.5);
    kernels::permutation(stream, empty({0}, {.dtype = kInt64, .device = device}), {});
    stream.synchronize();
  }
}
