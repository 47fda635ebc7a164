// Two batch norms whose results are added, and the ReLU behind the sum, compared with the steps one
// by one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ferrite/kernels/norm.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/kernels/norm_cases.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using kernels::ChannelLayout;
using kernels::NormActivation;
using kernels::PairedNorm;
using kernels::PairSums;
using kernels::ReluMask;
using kernels::View;
using kit::KernelCase;
using kit::Operand;
using test::draw_dtype;
using test::draw_layout;
using test::optional_parameter;
using test::powers;
using test::quarters;
using test::shape_of;
using test::statistics;
using test::tolerance;

namespace {

/// One of the norms, as operands.
struct Norm {
  Operand in, mean, invstd, weight, bias;

  PairedNorm at(const kit::Side& side) const {
    return {side(in), side(mean), side(invstd), side(weight), side(bias)};
  }
};

/// What it trains.
struct Trained : Norm {
  Operand first, second, running_mean, running_var, batches;
  bool sums;
  double eps;

  Trained(KernelCase& c, const ChannelLayout& layout, DType dtype) {
    const DType of = statistics(dtype);
    const DType running = c.integer(0, 3) > 0 ? of : c.pick({kFloat32, kFloat16, kFloat64});
    const Shape channels{layout.channels};
    const auto n = static_cast<double>(layout.count());
    const bool tracked = c.coin();
    const kit::OperandOptions gaps{.layout = kit::Layout::gaps, .low = 0, .high = 2};
    in = c.input(shape_of(layout), dtype, {.low = -1, .high = 3});
    first = c.input(channels, of, {.low = 0.5, .high = 1});
    second = c.input(channels, of, {.low = 2 * n, .high = 3 * n});
    mean = c.output(channels, of), invstd = c.output(channels, of);
    weight = optional_parameter(c, layout, dtype), bias = optional_parameter(c, layout, dtype);
    if (tracked) {
      running_mean = c.inout(channels, running, gaps);
      running_var = c.inout(channels, running, gaps);
      batches = c.inout({1}, kInt64);
    }
    sums = c.coin();
    eps = c.pick({1e-5, 1e-3});
  }
  kernels::BatchTraining training(const kit::Side& side) const {
    return {{side(first), side(second), sums},
            {side(running_mean), side(running_var), side(batches), 0.1},
            eps};
  }
  /// The norm by itself.
  void run(const Stream& stream, const ChannelLayout& layout, const kit::Side& side,
           const View& out, const View& residual, NormActivation activation) const {
    const kernels::BatchTraining of = training(side);
    kernels::batch_norm_train(stream, layout, out, side(in), side(mean), side(invstd), of.batch,
                              of.running, of.eps, side(weight), side(bias), residual, activation,
                              View());
  }
  void check(KernelCase& c, DType dtype) const {
    c.check(mean, tolerance(statistics(dtype), 1));
    c.check(invstd, tolerance(statistics(dtype), 1));
    if (batches.number < 0) return;
    const DType running = c.result(running_mean).dtype();
    const kit::Tolerance ours = tolerance(statistics(dtype), 1), theirs = tolerance(running, 1);
    for (const Operand& moved : {running_mean, running_var})
      c.check(moved,
              {.rtol = std::max(ours.rtol, theirs.rtol), .atol = std::max(ours.atol, theirs.atol)});
    c.check(batches);
  }
};

/// A layout with something to train on.
ChannelLayout draw_batch(KernelCase& c) {
  ChannelLayout layout = draw_layout(c);
  if (layout.count() < 2) layout.outer = 2;
  return layout;
}

Tensor scratch(const ChannelLayout& layout, const kit::Side& side, DType dtype) {
  return empty(shape_of(layout), {.dtype = side.dtype(dtype)});
}

}  // namespace

TEST_CASE("batch_norm_pair_train is two norms, an addition and a ReLU") {
  kit::for_each_case("batch_norm_pair_train", 60, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const ChannelLayout layout = draw_batch(c);
    const Trained a(c, layout, dtype), b(c, layout, dtype);
    const Operand counters = c.coin() ? c.output({kernels::kNormCounters}, kInt32) : Operand();
    const Operand out = c.output(shape_of(layout), dtype);
    c.run(
        [&](const Stream& stream, const kit::Side& at) {
          kernels::batch_norm_pair_train(stream, layout, at(out), a.at(at), b.at(at),
                                         a.training(at), b.training(at), at(counters));
        },
        [&](const Stream& stream, const kit::Side& at) {
          const Tensor residual = scratch(layout, at, dtype);
          b.run(stream, layout, at, residual, View(), NormActivation::none);
          a.run(stream, layout, at, at(out), residual, NormActivation::relu);
        });
    a.check(c, dtype);
    b.check(c, dtype);
    c.check(out, tolerance(dtype, 16));
    if (counters.number >= 0)
      c.check_values(counters, std::vector<double>(kernels::kNormCounters, 0));
  });
}

TEST_CASE("the gradients of a pair are those of two norms behind a ReLU") {
  kit::for_each_case("batch_norm_pair_backward", 120, [](KernelCase& c) {
    const DType dtype = draw_dtype(c), of = statistics(dtype);
    ChannelLayout layout = draw_batch(c);
    if (c.integer(0, 15) == 0)  // more pieces than a group of them, and tiles side by side
      layout = {.outer = 1500, .channels = 272, .inner = 1};
    const Shape shape = shape_of(layout), channels{layout.channels};
    const auto norm = [&] {
      const auto parameter = [&](const Tensor& t) { return c.input(t, of); };
      return Norm{c.input(quarters(c, shape), dtype), parameter(quarters(c, channels)),
                  parameter(powers(c, channels)),
                  c.coin() ? parameter(quarters(c, channels)) : Operand(),
                  c.coin() ? parameter(quarters(c, channels)) : Operand()};
    };
    const Norm a = norm(), b = norm();
    // The second gradient takes the place of dy.
    const bool in_place = c.coin() && c.device().is_cuda();
    const Tensor grad = quarters(c, shape);
    const Operand dy = in_place ? c.inout(grad, dtype) : c.input(grad, dtype);
    const Operand dx_a = c.integer(0, 3) > 0 ? c.output(shape, dtype) : Operand();
    const Operand dx_b = in_place ? dy : c.integer(0, 3) > 0 ? c.output(shape, dtype) : Operand();
    const Operand counters =
        c.coin() ? c.inout(zeros({kernels::kNormCounters}, {.dtype = kInt32}), kInt32) : Operand();
    const Operand sums[] = {c.output(channels, of), c.output(channels, of), c.output(channels, of),
                            c.output(channels, of)};
    c.run(
        [&](const Stream& stream, const kit::Side& at) {
          const PairSums to{at(sums[0]), at(sums[1]), at(sums[2]), at(sums[3])};
          kernels::batch_norm_pair_backward_reduce(stream, layout, to, at(dy), a.at(at), b.at(at),
                                                   at(counters));
          kernels::batch_norm_pair_backward_apply(stream, layout, at(dx_a), at(dx_b), at(dy),
                                                  a.at(at), b.at(at), to);
        },
        [&](const Stream& stream, const kit::Side& at) {
          const PairedNorm first = a.at(at), second = b.at(at);
          const Tensor residual = scratch(layout, at, dtype), y = scratch(layout, at, dtype),
                       passed = scratch(layout, at, dtype);
          kernels::batch_norm_apply(stream, layout, residual, second.in, second.mean, second.invstd,
                                    second.weight, second.bias, View(), NormActivation::none);
          kernels::batch_norm_apply(stream, layout, y, first.in, first.mean, first.invstd,
                                    first.weight, first.bias, residual, NormActivation::relu);
          const ReluMask mask{.from = ReluMask::From::output, .weight = {}, .bias = {}, .out = y};
          kernels::batch_norm_backward_reduce(stream, layout, at(sums[0]), at(sums[2]), at(dy),
                                              first.in, first.mean, first.invstd, mask, passed, {});
          kernels::batch_norm_backward_reduce(stream, layout, at(sums[1]), at(sums[3]), passed,
                                              second.in, second.mean, second.invstd, {}, {}, {});
          const auto apply = [&](const View& dx, const PairedNorm& n, const Operand& sum_dy_xhat) {
            if (dx.data)
              kernels::batch_norm_backward_apply(stream, layout, dx, passed, n.in, n.mean, n.invstd,
                                                 n.weight, at(sums[0]), at(sum_dy_xhat), View(),
                                                 layout.count(), {});
          };
          apply(at(dx_a), first, sums[2]);
          apply(at(dx_b), second, sums[3]);
        });
    for (const Operand& sum : sums) c.check(sum);
    for (const Operand& dx : {dx_a, dx_b})
      if (dx.number >= 0) c.check(dx, tolerance(dtype, 16));
    if (counters.number >= 0)
      c.check_values(counters, std::vector<double>(kernels::kNormCounters, 0));
  });
}

TEST_CASE("the mask of a pair, computed from the inputs, is that of the output, bit for bit") {
  kit::for_each_case("mask of a pair", 60, [](KernelCase& c) {
    const DType dtype = draw_dtype(c), of = statistics(dtype);
    const ChannelLayout layout = draw_batch(c);
    const Shape shape = shape_of(layout), channels{layout.channels};
    const auto n = static_cast<double>(layout.count());
    // Results around 0, including some that a 16-bit type rounds to 0.
    const double small = c.pick({1.0, 1e-3, 1e-8});
    const Operand square = c.input(channels, of, {.low = n / 2, .high = 2 * n});  // of deviations
    const Operand center = c.input(channels, of, {.low = -small / 9, .high = small / 9});
    const auto norm = [&] {
      return Norm{
          c.input(shape, dtype, {.low = -small, .high = small}), c.output(channels, of),
          c.output(channels, of), Operand(),
          c.coin() ? c.input(channels, of, {.low = -small / 9, .high = small / 9}) : Operand()};
    };
    const Norm a = norm(), b = norm();
    const Operand zero = c.input(zeros(channels, {.dtype = kFloat64}), of);
    const Operand dy = c.input(shape, dtype, {.low = 1, .high = 2});
    const Operand out = c.output(shape, dtype);
    const Operand dx_a = c.output(shape, dtype), dx_b = c.output(shape, dtype);
    const Operand counted[] = {c.output(channels, of), c.output(channels, of),
                               c.output(channels, of), c.output(channels, of)};
    c.run([&](const Stream& stream, const kit::Side& at) {
      const kernels::BatchTraining training{{at(center), at(square), false}, {}, 0};
      kernels::batch_norm_pair_train(stream, layout, at(out), a.at(at), b.at(at), training,
                                     training, View());
      kernels::batch_norm_pair_backward_apply(stream, layout, at(dx_a), at(dx_b), at(dy), a.at(at),
                                              b.at(at), {at(zero), View(), at(zero), at(zero)});
      kernels::batch_norm_pair_backward_reduce(
          stream, layout, {at(counted[0]), at(counted[1]), at(counted[2]), at(counted[3])}, at(dy),
          a.at(at), b.at(at), View());
    });
    const std::vector<double> y = c.result(out).to_vector<double>(),
                              g = c.result(dy).to_vector<double>();
    std::vector<double> sums(static_cast<std::size_t>(layout.channels));
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto channel =
          static_cast<std::size_t>(static_cast<std::int64_t>(i) / layout.inner % layout.channels);
      if (!(y[i] <= 0)) sums[channel] += g[i];
    }
    for (const Operand& dx : {dx_a, dx_b}) {
      const std::vector<double> passed = c.result(dx).to_vector<double>();
      for (std::size_t i = 0; i < y.size(); ++i)
        if ((passed[i] != 0) != (y[i] > 0)) return c.fail("a gradient passes a result of 0");
    }
    for (int k = 0; k < 2; ++k) c.check_values(counted[k], sums, tolerance(of, 1 + std::sqrt(n)));
  });
}
