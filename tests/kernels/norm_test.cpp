#include "ferrite/kernels/norm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ferrite/tests/kernels/norm_cases.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using kernels::ChannelLayout;
using kernels::GroupLayout;
using kernels::NormActivation;
using kernels::ReluMask;
using kernels::View;
using kit::KernelCase;
using kit::Operand;
using test::draw_dtype;
using test::draw_layout;
using test::optional_parameter;
using test::parameter;
using test::shape_of;
using test::statistics;
using test::tolerance;

TEST_CASE("channel_stats") {
  kit::for_each_case("channel_stats", 120, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const ChannelLayout layout = draw_layout(c);
    const Operand in = c.input(shape_of(layout), dtype, {.low = -1, .high = 3});
    const Operand mean = c.output({layout.channels}, statistics(dtype));
    const Operand m2 = c.output({layout.channels}, statistics(dtype));
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::channel_stats(stream, layout, at(mean), at(m2), at(in));
    });
    c.check(mean, tolerance(statistics(dtype), 1));
    c.check(m2, tolerance(statistics(dtype), 1));
  });
}

TEST_CASE("channel_stats keeps the variance of values far from zero") {
  // mean / std is 5e4: float32 sums of squares would lose all digits. What remains is the rounding
  // of partial means, 6e-5 for a standard deviation of 0.02, each a small part of all deviations.
  kit::for_each_case("channel_stats far from zero", 12, [](KernelCase& c) {
    const ChannelLayout layout = c.coin() ? ChannelLayout{.outer = 4001, .channels = 5, .inner = 1}
                                          : ChannelLayout{.outer = 3, .channels = 5, .inner = 2048};
    const Operand in = c.input(shape_of(layout), kFloat32, {.low = 999.96, .high = 1000.04});
    const Operand mean = c.output({layout.channels}, kFloat32);
    const Operand m2 = c.output({layout.channels}, kFloat32);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::channel_stats(stream, layout, at(mean), at(m2), at(in));
    });
    c.check(mean, {.rtol = 1e-7});
    c.check(m2, {.rtol = 1e-4});
  });
}

TEST_CASE("channel_stats of equal values are exact, and of nothing 0") {
  kit::for_each_case("channel_stats of equal values", 24, [](KernelCase& c) {
    ChannelLayout layout = draw_layout(c);
    const double value = c.pick({0.1, -3.7, 1e4});
    if (c.integer(0, 3) == 0) layout.outer = 0;
    const Operand in = c.input(shape_of(layout), kFloat32, {.low = value, .high = value});
    const Operand mean = c.output({layout.channels}, kFloat32);
    const Operand m2 = c.output({layout.channels}, kFloat32);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::channel_stats(stream, layout, at(mean), at(m2), at(in));
    });
    c.check(mean, {.rtol = 3e-7});
    // Rounding the origin costs one ulp of the value per element.
    c.check(m2, {.rtol = 0, .atol = 1e-13 * value * value * static_cast<double>(layout.count())});
  });
}

TEST_CASE("combine_stats and batch_norm_finish, with counts on the device") {
  kit::for_each_case("combine_stats", 40, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat64});
    const DType running = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const std::int64_t channels = c.size(300), parts = c.integer(1, 5);
    const bool counted = c.coin(), tracked = c.coin(), empty_batch = c.integer(0, 7) == 0;
    const Operand means = c.input({parts, channels}, dtype);
    const Operand m2s = c.input({parts, channels}, dtype, {.low = 0, .high = 9});
    Tensor sizes = empty({parts}, {.dtype = kFloat64});
    for (std::int64_t p = 0; p < parts; ++p)
      sizes.data<double>()[p] = static_cast<double>(empty_batch ? 0 : c.integer(p > 0 ? 0 : 2, 9));
    const Operand counts = c.input(sizes, dtype);
    const Operand mean = c.output({channels}, dtype), m2 = c.output({channels}, dtype);
    const Operand count = c.output({1}, dtype), invstd = c.output({channels}, dtype);
    const kit::OperandOptions gaps{.layout = kit::Layout::gaps, .low = 0, .high = 2};
    const Operand running_mean = tracked ? c.inout({channels}, running, gaps) : Operand();
    const Operand running_var = tracked ? c.inout({channels}, running, gaps) : Operand();
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::combine_stats(stream, at(mean), at(m2), at(count), at(means), at(m2s), at(counts));
      kernels::batch_norm_finish(stream, at(invstd), at(running_mean), at(running_var), at(mean),
                                 at(m2), counted ? at(count) : View(), 12, 0.1, 1e-5);
    });
    c.check(mean, tolerance(dtype, 1));
    c.check(m2, tolerance(dtype, 1));
    c.check(count, {.rtol = 0});
    c.check(invstd, tolerance(dtype, 1));
    // With float32 statistics, a float64 running value has float32's errors.
    kit::Tolerance moved = tolerance(running, 1);
    moved.rtol = std::max(moved.rtol, test::rounding_of(dtype));
    moved.atol = std::max(moved.atol, tolerance(dtype, 1).atol);
    if (tracked) c.check(running_mean, moved);
    if (tracked) c.check(running_var, moved);
  });
}

TEST_CASE("stats_of_sums") {
  kit::for_each_case("stats_of_sums", 24, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat64});
    const std::int64_t channels = c.size(300), n = c.pick<std::int64_t>({0, 1, 7, 5000});
    std::vector<float> sums, squares;
    for (std::int64_t i = 0; i < channels; ++i) {
      const float mean = static_cast<float>(c.integer(-8, 8)) / 4,
                  variance = static_cast<float>(c.integer(0, 8)) / 2;
      sums.push_back(static_cast<float>(n) * mean);
      squares.push_back(static_cast<float>(n) * (mean * mean + variance));
    }
    // If rounding makes a square's sum too small, no variance is negative; overflowed ones stay.
    if (channels > 1 && n > 0) squares[0] = std::abs(sums[0]) / 2 - 1;
    if (channels > 1) squares[1] = std::numeric_limits<float>::quiet_NaN();
    const Operand mean = c.inout(from_vector(sums, {channels}), dtype);
    const Operand m2 = c.inout(from_vector(squares, {channels}), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::stats_of_sums(stream, at(mean), at(m2), n);
    });
    c.check(mean);
    c.check(m2, {.rtol = test::rounding_of(dtype), .atol = 1e-4});
    std::vector<double> means, deviations;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      means.push_back(n > 0 ? sums[i] / static_cast<double>(n) : 0);
      deviations.push_back(squares[i] - sums[i] * means[i]);
      if (deviations[i] < 0) deviations[i] = 0;
    }
    c.check_values(mean, means);
    c.check_values(m2, deviations, {.rtol = test::rounding_of(dtype), .atol = 1e-4});
  });
}

TEST_CASE("inverse_std") {
  kit::for_each_case("inverse_std", 12, [](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat64});
    const std::int64_t channels = c.size(300);
    const Operand var = c.input({channels}, dtype, {.low = 0, .high = 3});
    const Operand invstd = c.output({channels}, dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::inverse_std(stream, at(invstd), at(var), 1e-3);
    });
    c.check(invstd);
  });
}

TEST_CASE("batch_norm_apply, with residual and ReLU") {
  kit::for_each_case("batch_norm_apply", 160, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    ChannelLayout layout = draw_layout(c);
    if (c.integer(0, 19) == 0) layout.outer = 0;
    const Operand in = c.input(shape_of(layout), dtype);
    const Operand mean = parameter(c, layout, dtype, -1, 1);
    const Operand invstd = parameter(c, layout, dtype, 0.2, 2);
    const Operand weight = optional_parameter(c, layout, dtype);
    const Operand bias = optional_parameter(c, layout, dtype);
    const Operand residual = c.coin() ? c.input(shape_of(layout), dtype) : Operand();
    const NormActivation activation = c.coin() ? NormActivation::relu : NormActivation::none;
    const Operand out = c.output(shape_of(layout), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::batch_norm_apply(stream, layout, at(out), at(in), at(mean), at(invstd), at(weight),
                                at(bias), at(residual), activation);
    });
    c.check(out, tolerance(dtype, 1));
  });
}

TEST_CASE("batch_norm_apply in place; NaN and infinities pass a ReLU as they are") {
  kit::for_each_case("batch_norm_apply in place", 16, [](KernelCase& c) {
    const ChannelLayout layout{.outer = 4, .channels = 3, .inner = c.pick({1, 5, 64})};
    Tensor values = empty(shape_of(layout), {.dtype = kFloat64});
    constexpr double special[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 1.5, -1.5};
    for (std::int64_t i = 0; i < values.numel(); ++i)
      values.data<double>()[i] = special[c.integer(0, 6)];
    const Operand in = c.inout(values, draw_dtype(c));
    const DType dtype = c.result(in).dtype();
    const Operand mean = parameter(c, layout, dtype, 0, 0);
    const Operand invstd = parameter(c, layout, dtype, 1, 1);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::batch_norm_apply(stream, layout, at(in), at(in), at(mean), at(invstd), View(),
                                View(), View(), NormActivation::relu);
    });
    c.check(in, {.rtol = 0});
  });
}

TEST_CASE("batch_norm_train, and the sums of its gradient by blocks that count") {
  kit::for_each_case("batch_norm_train", 40, [](KernelCase& c) {
    const DType dtype = draw_dtype(c), of = statistics(dtype);
    const DType running = c.coin() ? of : c.pick({kFloat32, kFloat16, kFloat64});
    ChannelLayout layout = draw_layout(c);
    if (c.integer(0, 15) == 0)  // more pieces than a group of them, and tiles side by side
      layout = {.outer = 1500, .channels = 272, .inner = 1};
    if (layout.count() < 2) layout.outer = 2;
    const bool sums = c.coin(), tracked = c.coin(), relu = c.coin();
    const auto n = static_cast<double>(layout.count());
    const Operand in = c.input(shape_of(layout), dtype, {.low = -1, .high = 3});
    const Operand dy = c.input(shape_of(layout), dtype);
    const Operand first = c.input({layout.channels}, of, {.low = 0.5, .high = 1});
    const Operand second = c.input({layout.channels}, of, {.low = 2 * n, .high = 3 * n});
    const Operand residual = c.coin() ? c.input(shape_of(layout), dtype) : Operand();
    const Operand weight = optional_parameter(c, layout, dtype);
    const Operand bias = optional_parameter(c, layout, dtype);
    const kit::OperandOptions gaps{.layout = kit::Layout::gaps, .low = 0, .high = 2};
    const Operand running_mean = tracked ? c.inout({layout.channels}, running, gaps) : Operand();
    const Operand running_var = tracked ? c.inout({layout.channels}, running, gaps) : Operand();
    const Operand batches = tracked ? c.inout({1}, kInt64) : Operand();
    const Operand counters = c.coin() ? c.output({kernels::kNormCounters}, kInt32) : Operand();
    const Operand out = c.output(shape_of(layout), dtype);
    const Operand mean = c.output({layout.channels}, of), invstd = c.output({layout.channels}, of);
    const Operand sum_dy = c.output({layout.channels}, of);
    const Operand sum_dy_xhat = c.output({layout.channels}, of);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::batch_norm_train(
          stream, layout, at(out), at(in), at(mean), at(invstd), {at(first), at(second), sums},
          {at(running_mean), at(running_var), at(batches), 0.1}, 1e-5, at(weight), at(bias),
          at(residual), relu ? NormActivation::relu : NormActivation::none, at(counters));
      kernels::batch_norm_backward_reduce(stream, layout, at(sum_dy), at(sum_dy_xhat), at(dy),
                                          at(in), at(mean), at(invstd), {}, {}, at(counters));
    });
    const double scale = 1 + std::sqrt(n);
    c.check(mean, tolerance(of, 1));
    c.check(invstd, tolerance(of, 1));
    c.check(out, tolerance(dtype, 8));
    c.check(sum_dy, tolerance(of, scale));
    c.check(sum_dy_xhat, tolerance(of, 4 * scale));
    if (counters.number >= 0)
      c.check_values(counters, std::vector<double>(kernels::kNormCounters, 0));
    if (!tracked) return;
    kit::Tolerance moved = tolerance(running, 1);
    moved.rtol = std::max(moved.rtol, test::rounding_of(of));
    moved.atol = std::max(moved.atol, tolerance(of, 1).atol);
    c.check(running_mean, moved);
    c.check(running_var, moved);
    c.check(batches);
  });
}

TEST_CASE("batch_norm_backward_reduce") {
  kit::for_each_case("batch_norm_backward_reduce", 120, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    ChannelLayout layout = draw_layout(c);
    if (c.integer(0, 19) == 0) layout.outer = 0;
    const Operand in = c.input(shape_of(layout), dtype), dy = c.input(shape_of(layout), dtype);
    const Operand mean = parameter(c, layout, dtype, -1, 1);
    const Operand invstd = parameter(c, layout, dtype, 0.2, 2);
    const bool masked = c.coin();
    const Operand out = masked ? c.input(shape_of(layout), dtype) : Operand();
    const bool wants_dy = c.integer(0, 3) > 0, wants_xhat = c.integer(0, 3) > 0;
    const Operand sum_dy = wants_dy ? c.output({layout.channels}, statistics(dtype)) : Operand();
    const Operand sum_dy_xhat =
        wants_xhat ? c.output({layout.channels}, statistics(dtype)) : Operand();
    const Operand passed = masked && c.coin() ? c.output(shape_of(layout), dtype) : Operand();
    c.run([&](const Stream& stream, const kit::Side& at) {
      const ReluMask mask{.from = masked ? ReluMask::From::output : ReluMask::From::nothing,
                          .weight = {},
                          .bias = {},
                          .out = at(out)};
      kernels::batch_norm_backward_reduce(stream, layout, at(sum_dy), at(sum_dy_xhat), at(dy),
                                          at(in), at(mean), at(invstd), mask, at(passed), {});
    });
    const double scale = 1 + std::sqrt(static_cast<double>(layout.count()));
    if (wants_dy) c.check(sum_dy, tolerance(statistics(dtype), scale));
    if (wants_xhat) c.check(sum_dy_xhat, tolerance(statistics(dtype), 4 * scale));
    if (passed.number >= 0) c.check(passed, {.rtol = 0});
  });
}

TEST_CASE("batch_norm_backward_apply") {
  kit::for_each_case("batch_norm_backward_apply", 160, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    ChannelLayout layout = draw_layout(c);
    if (c.integer(0, 19) == 0) layout.outer = 0;
    const Operand in = c.input(shape_of(layout), dtype), dy = c.input(shape_of(layout), dtype);
    const Operand mean = parameter(c, layout, dtype, -1, 1);
    const Operand invstd = parameter(c, layout, dtype, 0.2, 2);
    const Operand weight = optional_parameter(c, layout, dtype);
    const bool training = c.coin(), masked = c.coin(), counted = c.coin();
    const Operand out = masked ? c.input(shape_of(layout), dtype) : Operand();
    const Operand sum_dy = training ? parameter(c, layout, dtype, -9, 9) : Operand();
    const Operand sum_dy_xhat = training ? parameter(c, layout, dtype, -9, 9) : Operand();
    Tensor n = empty({1}, {.dtype = kFloat64});
    *n.data<double>() = 37;
    const Operand count = counted ? c.input(n, statistics(dtype)) : Operand();
    const Operand dx = c.output(shape_of(layout), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      const ReluMask mask{.from = masked ? ReluMask::From::output : ReluMask::From::nothing,
                          .weight = {},
                          .bias = {},
                          .out = at(out)};
      kernels::batch_norm_backward_apply(stream, layout, at(dx), at(dy), at(in), at(mean),
                                         at(invstd), at(weight), at(sum_dy), at(sum_dy_xhat),
                                         at(count), layout.count(), mask);
    });
    c.check(dx, tolerance(dtype, 4));
  });
}

TEST_CASE("a ReLU mask computed from the input is that of the output, bit for bit") {
  kit::for_each_case("relu mask from input", 80, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const ChannelLayout layout = draw_layout(c);
    // Results around 0, including some that a 16-bit type rounds to 0.
    const double small = c.pick({1.0, 1e-3, 1e-8});
    const Operand in = c.input(shape_of(layout), dtype, {.low = -small, .high = small});
    const Operand dy = c.input(shape_of(layout), dtype, {.low = 1, .high = 2});
    const Operand mean = parameter(c, layout, dtype, -small / 9, small / 9);
    const Operand invstd = parameter(c, layout, dtype, 0.2, 2);
    const Operand weight = optional_parameter(c, layout, dtype);
    const Operand bias = c.coin() ? parameter(c, layout, dtype, -small / 9, small / 9) : Operand();
    const Operand out = c.output(shape_of(layout), dtype);
    const Operand passed = c.output(shape_of(layout), dtype);
    const Operand dx = c.output(shape_of(layout), dtype);
    const Operand dx_passed = c.output(shape_of(layout), dtype);
    const Operand sums = c.output({layout.channels}, statistics(dtype));
    const Operand sums_passed = c.output({layout.channels}, statistics(dtype));
    c.run([&](const Stream& stream, const kit::Side& at) {
      const ReluMask mask{
          .from = ReluMask::From::input, .weight = at(weight), .bias = at(bias), .out = {}};
      kernels::batch_norm_apply(stream, layout, at(out), at(in), at(mean), at(invstd), at(weight),
                                at(bias), View(), NormActivation::relu);
      kernels::batch_norm_backward_reduce(stream, layout, View(), at(sums), at(dy), at(in),
                                          at(mean), at(invstd), mask, at(passed), {});
      kernels::batch_norm_backward_apply(stream, layout, at(dx), at(dy), at(in), at(mean),
                                         at(invstd), at(weight), View(), View(), View(),
                                         layout.count(), mask);
      // The same for the values that passed the ReLU.
      kernels::batch_norm_backward_reduce(stream, layout, View(), at(sums_passed), at(passed),
                                          at(in), at(mean), at(invstd), {}, {}, {});
      kernels::batch_norm_backward_apply(stream, layout, at(dx_passed), at(passed), at(in),
                                         at(mean), at(invstd), at(weight), View(), View(), View(),
                                         layout.count(), {});
    });
    const std::vector<double> y = c.result(out).to_vector<double>();
    std::vector<double> expected = c.result(dy).to_vector<double>();
    for (std::size_t i = 0; i < y.size(); ++i)
      if (y[i] <= 0) expected[i] = 0;
    c.check_values(passed, expected, {.rtol = 0});
    c.check_values(dx, c.result(dx_passed).to_vector<double>(), {.rtol = 0});
    // Alignment may select another order of summation.
    c.check_values(
        sums, c.result(sums_passed).to_vector<double>(),
        tolerance(statistics(dtype), 4 * std::sqrt(static_cast<double>(layout.count()))));
  });
}

namespace {

/// Widths of a few lanes, of a warp, of a block, and too long for its registers.
std::int64_t draw_width(KernelCase& c) {
  switch (c.integer(0, 4)) {
    case 0:
      return c.size(40, 1);
    case 1:
      return 8 * c.integer(1, 130);
    case 2:
      return c.integer(100, 700);
    case 3:
      return 8 * c.integer(1040, 1100);
    default:
      return c.integer(1030, 1200);
  }
}

}  // namespace

TEST_CASE("layer_norm") {
  kit::for_each_case("layer_norm", 80, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const std::int64_t width = draw_width(c), rows = c.size(width > 700 ? 4 : 40);
    const Operand in = c.input({rows, width}, dtype, {.low = -1, .high = 3});
    const Operand weight = c.coin() ? c.input({width}, statistics(dtype)) : Operand();
    const Operand bias = c.coin() ? c.input({width}, statistics(dtype)) : Operand();
    const Operand out = c.output({rows, width}, dtype);
    const Operand mean = c.output({rows}, statistics(dtype));
    const Operand rstd = c.output({rows}, statistics(dtype));
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::layer_norm(stream, rows, width, at(out), at(mean), at(rstd), at(in), at(weight),
                          at(bias), 1e-2);
    });
    c.check(mean, tolerance(statistics(dtype), 1));
    c.check(rstd, tolerance(statistics(dtype), 1));
    c.check(out, tolerance(dtype, 4));
  });
}

TEST_CASE("layer_norm_backward") {
  kit::for_each_case("layer_norm_backward", 80, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const std::int64_t width = draw_width(c), rows = c.size(width > 700 ? 4 : 300);
    const Operand in = c.input({rows, width}, dtype), dy = c.input({rows, width}, dtype);
    const Operand mean = c.input({rows}, statistics(dtype), {.low = -1, .high = 1});
    const Operand rstd = c.input({rows}, statistics(dtype), {.low = 0.2, .high = 2});
    const Operand weight = c.coin() ? c.input({width}, statistics(dtype)) : Operand();
    const Operand dx = c.integer(0, 3) > 0 ? c.output({rows, width}, dtype) : Operand();
    const Operand dw = c.coin() ? c.output({width}, statistics(dtype)) : Operand();
    const Operand db = c.coin() ? c.output({width}, statistics(dtype)) : Operand();
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::layer_norm_backward(stream, rows, width, at(dx), at(dw), at(db), at(dy), at(in),
                                   at(mean), at(rstd), at(weight));
    });
    const double scale = 1 + std::sqrt(static_cast<double>(rows));
    if (dx.number >= 0) c.check(dx, tolerance(dtype, 16));
    if (dw.number >= 0) c.check(dw, tolerance(statistics(dtype), 4 * scale));
    if (db.number >= 0) c.check(db, tolerance(statistics(dtype), scale));
  });
}

namespace {

/// Groups of one channel or several, images of one pixel or several.
GroupLayout draw_groups(KernelCase& c) {
  GroupLayout layout{.images = c.size(6), .groups = c.integer(1, 5), .channels = c.size(40, 1)};
  layout.pixels = c.pick({std::int64_t{1}, c.size(20, 1), 8 * c.integer(1, 40)});
  layout.channels_last = c.device().is_cpu() && c.coin();
  return layout;
}

}  // namespace

TEST_CASE("group_norm") {
  kit::for_each_case("group_norm", 120, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const GroupLayout layout = draw_groups(c);
    const Shape shape{layout.images, layout.all_channels(), layout.pixels};
    const Operand in = c.input(shape, dtype, {.low = -1, .high = 3});
    const Operand weight =
        c.coin() ? c.input({layout.all_channels()}, statistics(dtype)) : Operand();
    const Operand bias = c.coin() ? c.input({layout.all_channels()}, statistics(dtype)) : Operand();
    const Operand out = c.output(shape, dtype);
    const Operand mean = c.output({layout.images, layout.groups}, statistics(dtype));
    const Operand rstd = c.output({layout.images, layout.groups}, statistics(dtype));
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::group_norm(stream, layout, at(out), at(mean), at(rstd), at(in), at(weight), at(bias),
                          1e-2);
    });
    c.check(mean, tolerance(statistics(dtype), 1));
    c.check(rstd, tolerance(statistics(dtype), 1));
    c.check(out, tolerance(dtype, 4));
  });
}

TEST_CASE("group_norm_backward") {
  kit::for_each_case("group_norm_backward", 120, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const GroupLayout layout = draw_groups(c);
    const Shape shape{layout.images, layout.all_channels(), layout.pixels},
        groups{layout.images, layout.groups}, channels{layout.all_channels()};
    const Operand in = c.input(shape, dtype), dy = c.input(shape, dtype);
    const Operand mean = c.input(groups, statistics(dtype), {.low = -1, .high = 1});
    const Operand rstd = c.input(groups, statistics(dtype), {.low = 0.2, .high = 2});
    const Operand weight = c.coin() ? c.input(channels, statistics(dtype)) : Operand();
    const Operand dx = c.integer(0, 3) > 0 ? c.output(shape, dtype) : Operand();
    const Operand dw = c.coin() ? c.output(channels, statistics(dtype)) : Operand();
    const Operand db = c.coin() ? c.output(channels, statistics(dtype)) : Operand();
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::group_norm_backward(stream, layout, at(dx), at(dw), at(db), at(dy), at(in), at(mean),
                                   at(rstd), at(weight));
    });
    const double scale = 1 + std::sqrt(static_cast<double>(layout.images * layout.pixels));
    if (dx.number >= 0) c.check(dx, tolerance(dtype, 16));
    if (dw.number >= 0) c.check(dw, tolerance(statistics(dtype), 4 * scale));
    if (db.number >= 0) c.check(db, tolerance(statistics(dtype), scale));
  });
}
