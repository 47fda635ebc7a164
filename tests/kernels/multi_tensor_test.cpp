#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/kernels/average.h"
#include "ferrite/tests/kernels/arrays.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("arrays are cleared, scaled and clamped") {
  kit::for_each_case("zero_all", 25, [](KernelCase& c) {
    const FlatCase f =
        flat_inout(c, c.pick({kFloat32, kFloat16, kFloat64, kInt64, kInt16, kInt8, kUInt8, kBool}));
    c.run([&](const Stream& stream, const Side& at) { kernels::zero_all(stream, f.at(at)); });
    for (std::size_t i = 0; i < f.operands.size(); ++i)
      c.check_values(f.operands[i], std::vector<double>(static_cast<std::size_t>(f.sizes[i])));
  });
  kit::for_each_case("scale_all", 25, [](KernelCase& c) {
    const FlatCase f = flat_inout(c, c.pick({kFloat32, kFloat16, kBFloat16, kFloat64}));
    const Control factor(c, c.pick({1.0, 0.3}), kFloat64);
    c.run([&](const Stream& stream, const Side& at) {
      kernels::scale_all(stream, f.at(at), at.is_reference() ? factor.host : factor.tested);
    });
    f.check(c, {.atol = kHalfStep});
  });
  kit::for_each_case("clamp_all", 25, [](KernelCase& c) {
    const FlatCase f = flat_inout(c, c.pick({kFloat32, kFloat16, kBFloat16, kFloat64}));
    c.run(
        [&](const Stream& stream, const Side& at) { kernels::clamp_all(stream, f.at(at), 0.75); });
    f.check(c, {.rtol = 0});
  });
}

TEST_CASE("arrays are unscaled between types, and non-finite values are found") {
  kit::for_each_case("unscale_all", 60, [](KernelCase& c) {
    const DType from_dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const DType to_dtype = from_dtype == kFloat64   ? kFloat64
                           : from_dtype == kFloat32 ? c.pick({kFloat32, kFloat16, kBFloat16})
                                                    : c.pick({kFloat32, from_dtype});
    const FlatCase from = flat_input(c, from_dtype);
    const FlatCase to = flat(from.sizes, to_dtype, [&](const Shape& shape, DType dtype) {
      return c.output(shape, dtype);
    });
    const Control inv_scale(c, 0.3, kFloat32), found_inf(c, 0, kFloat32);
    const bool scales = c.coin();
    c.run([&](const Stream& stream, const Side& at) {
      kernels::unscale_all(stream, to.at(at), from.at(at),
                           scales ? inv_scale.at<float>(at) : nullptr, found_inf.at<float>(at));
    });
    to.check(c, {.atol = kHalfStep});
    CHECK(found_inf.tested.item<double>() == 0);
  });
  for (const Device& device : kit::test_devices())
    for (const double bad : {double(NAN), double(INFINITY), -double(INFINITY)})
      for (const std::int64_t at : {0, 5000, 8192, 19999}) {
        const Tensor x = ones({20000}), found = zeros({}).to(device);
        x.data<float>()[at] = static_cast<float>(bad);
        const Tensor y = x.to(device);
        const FlatTensors arrays{.arrays = {{y.data_ptr(), y.numel()}}};
        kernels::unscale_all(current_stream(device), arrays, arrays, nullptr, nullptr);
        CHECK(found.item<double>() == 0);
        kernels::unscale_all(current_stream(device), arrays, arrays, nullptr, found.data<float>());
        CHECK(found.item<double>() == 1);
        test::check_equal(y.to(Device("cpu")), x);
      }
}

TEST_CASE("averages of arrays, between types, with weights computed on the device") {
  kit::for_each_case("average_all", 60, [](KernelCase& c) {
    const DType value_dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const DType dtype = value_dtype == kFloat64   ? kFloat64
                        : value_dtype == kFloat32 ? c.pick({kFloat32, kFloat16, kBFloat16})
                                                  : c.pick({kFloat32, value_dtype});
    const FlatCase values = flat_input(c, value_dtype);
    const FlatCase averages = flat(
        values.sizes, dtype, [&](const Shape& shape, DType type) { return c.inout(shape, type); });
    const Control weight(c, c.pick({0.25, 0.9, 1.0}), kFloat64);
    c.run([&](const Stream& stream, const Side& at) {
      kernels::average_all(stream, averages.at(at), values.at(at),
                           at.is_reference() ? weight.host : weight.tested);
    });
    averages.check(c, {.rtol = test::rounding_of(dtype), .atol = 4 * test::rounding_of(dtype)});
  });
  for (const Device& device : kit::test_devices()) {
    const Tensor count = zeros({}, {.dtype = kInt64}).to(device), weight = numbers({0}, device);
    const auto next = [&](const kernels::AverageArgs& args) {
      kernels::average_weight(current_stream(device), count.data<std::int64_t>(), weight, args);
      return weight.item<double>();
    };
    for (const double n : {1.0, 2.0, 3.0}) CHECK(next({}) == doctest::Approx(1 / n));
    CHECK(count.item<int>() == 3);
    CHECK(next({.decay = 0.75}) == 0.25);
    CHECK(next({.decay = 0.999, .warmup = true, .warmup_gamma = 2, .warmup_power = 1}) ==
          doctest::Approx(1.0 / 3));
    CHECK(next({.decay = 0.5, .warmup = true, .warmup_gamma = 2, .warmup_power = 1}) == 0.5);
    count.zero_();
    CHECK(next({.decay = 0.75}) == 1);
    // The first value replaces the previous contents.
    const Tensor average = numbers({NAN, 3}, device), value = numbers({1, 2}, device);
    kernels::average_all(current_stream(device), {{{average.data_ptr(), 2}}, kFloat64},
                         {{{value.data_ptr(), 2}}, kFloat64}, weight);
    test::check_equal(average, value);
  }
}

// ---- Norms

TEST_CASE("sums of powers and norms, of each array and of all") {
  kit::for_each_case("norms", 60, [](KernelCase& c) {
    const FlatCase f = flat_input(c, c.pick({kFloat32, kFloat16, kBFloat16, kFloat64}));
    const double p = c.pick({2.0, 1.0, 3.0, double(INFINITY)});
    const auto count = static_cast<std::int64_t>(f.sizes.size());
    const Operand each = c.output({count}, kFloat64), all = c.output({}, kFloat64),
                  sum = c.output({}, kFloat64);
    const bool with_all = c.coin();
    c.run([&](const Stream& stream, const Side& at) {
      kernels::norms(stream, f.at(at), p, at(each), with_all ? at(all) : kernels::View());
      kernels::sum_of_powers(stream, f.at(at), p, at(sum));
    });
    // Sums of up to 40,000 terms in float64.
    c.check(each, {.rtol = 1e-13});
    c.check(sum, {.rtol = 1e-13});
    if (with_all) c.check(all, {.rtol = 1e-13});
  });
}

TEST_CASE("a norm has the same bits at any address of its array") {
  for (const Device& device : kit::test_devices()) {
    manual_seed(2);
    const Tensor values = randn({20001});
    double bits[2];
    for (int shift : {0, 1}) {
      const Tensor host = zeros({20002});
      host.narrow(0, shift, 20001).copy_(values);
      const Tensor buffer = host.to(device), x = buffer.narrow(0, shift, 20001);
      const Tensor out = zeros({}, {.dtype = kFloat64}).to(device);
      kernels::sum_of_powers(current_stream(device), {.arrays = {{x.data_ptr(), x.numel()}}}, 2,
                             out);
      bits[shift] = out.item<double>();
    }
    CHECK(bits[0] == bits[1]);
  }
}

TEST_CASE("NaN in a norm, and the scale that clips it") {
  for (const Device& device : kit::test_devices()) {
    const Stream stream = current_stream(device);
    const Tensor x = tensor({3.F, float(NAN), 4.F, float(INFINITY)}).to(device);
    const auto number = [&] { return zeros({}, {.dtype = kFloat64}).to(device); };
    for (const double p : {1.0, 2.0, double(INFINITY)}) {
      const Tensor sum = number();
      kernels::sum_of_powers(stream, {.arrays = {{x.data_ptr(), 4}}}, p, sum);
      CHECK(std::isnan(sum.item<double>()));
    }
    const auto clipped = [&](const std::vector<double>& sums, double p, double max_norm) {
      const Tensor all = numbers(sums, device), norm = number(), scale = number();
      std::vector<const double*> pointers;
      for (std::size_t i = 0; i < sums.size(); ++i) pointers.push_back(all.data<double>() + i);
      kernels::clip_scale(stream, pointers, p, max_norm, norm, scale, false);
      return std::vector<double>{norm.item<double>(), scale.item<double>()};
    };
    const std::vector<double> many(300, 0.03);  // more than one launch takes; adds up to 9
    for (const auto& [sums, p, norm] : {std::tuple{std::vector<double>{9, 16}, 2.0, 5.0},
                                        {{9, 16}, 1.0, 25.0},
                                        {{9, 16}, double(INFINITY), 16.0},
                                        {{1, 7}, 3.0, 2.0},
                                        {{}, 2.0, 0.0},
                                        {many, 2.0, 3.0}}) {
      const auto got = clipped(sums, p, 1.5);
      CHECK(got[0] == doctest::Approx(norm).epsilon(1e-12));
      CHECK(got[1] == doctest::Approx(std::min(1.0, 1.5 / (norm + 1e-6))).epsilon(1e-12));
    }
    const Tensor bad = numbers({NAN}, device), norm = number(), scale = number();
    const auto checked = [&] {
      kernels::clip_scale(stream, {bad.data<double>()}, 2, 7, norm, scale, true);
      stream.synchronize();
    };
    CHECK_THROWS_WITH_AS(checked(), doctest::Contains("total_norm of the gradients"), ValueError);
    CHECK(scale.item<double>() == 1);
    CHECK(clipped({4}, 2, 7)[1] == 1);
    CHECK(std::isnan(clipped({NAN}, 2, 7)[1]));
  }
}
