// Batch norm, ReLU and max pooling in one pass, compared with the three one by one.
#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/kernels/norm.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/kernels/norm_cases.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using kernels::ChannelLayout;
using kernels::Pool2d;
using kernels::PoolAxis;
using kernels::ReluMask;
using kernels::View;
using kit::KernelCase;
using kit::Operand;
using test::powers;
using test::quarters;

namespace {

PoolAxis draw_axis(KernelCase& c) {
  for (;;) {
    PoolAxis a{.input = c.integer(1, 17),
               .kernel = c.pick({2, 3, 3, 4, 7}),
               .stride = c.integer(1, 3),
               .padding = c.integer(0, 1),
               .dilation = c.integer(0, 3) == 0 ? 2 : 1};
    const std::int64_t room = a.input + 2 * a.padding - a.dilation * (a.kernel - 1) - 1;
    a.output = room < 0 ? 0 : room / a.stride + 1;
    bool fits = a.output > 0;
    for (std::int64_t o = 0; o < a.output; ++o) fits = fits && a.window(o).count > 0;
    if (fits) return a;
  }
}

}  // namespace

TEST_CASE("batch_norm_max_pool, its sums and its gradient are those of the steps one by one") {
  kit::for_each_case("batch_norm_max_pool", 160, [](KernelCase& c) {
    c.same_dtypes();
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16, kFloat64});
    const DType of = dtype == kFloat64 ? kFloat64 : kFloat32;
    // Packs of channels, several of them to a thread, or single channels.
    Pool2d pool{.batch = c.integer(1, 3),
                .channels = c.coin() ? 8 * c.integer(1, 9) : c.integer(1, 11),
                .h = draw_axis(c),
                .w = draw_axis(c),
                .channels_last = true};
    const std::int64_t inputs = pool.batch * pool.h.input * pool.w.input;
    const std::int64_t outputs = pool.batch * pool.h.output * pool.w.output;
    const Shape in_shape{inputs, pool.channels}, out_shape{outputs, pool.channels};
    const ChannelLayout layout{.outer = inputs, .channels = pool.channels, .inner = 1};
    const ChannelLayout of_outputs{.outer = outputs, .channels = pool.channels, .inner = 1};
    Tensor values = quarters(c, in_shape);
    const bool nan = c.integer(0, 3) == 0;
    if (nan) values.data<double>()[c.integer(0, values.numel() - 1)] = NAN;

    const Shape channels{pool.channels};
    const auto parameter = [&](const Tensor& t) { return c.input(t, of); };
    const Operand in = c.input(values, dtype), grad = c.input(quarters(c, out_shape), dtype);
    const Operand mean = parameter(quarters(c, channels)), invstd = parameter(powers(c, channels));
    const Operand weight = c.coin() ? parameter(quarters(c, channels)) : Operand();
    const Operand bias = c.coin() ? parameter(quarters(c, channels)) : Operand();
    const Operand out = c.output(out_shape, dtype), picked = c.output(out_shape, dtype);
    const Operand code = c.output(out_shape, pool.code_dtype());
    const Operand sum_dy = c.output(channels, of), sum_dy_xhat = c.output(channels, of);
    const Operand dx = c.output(in_shape, dtype);
    const auto mask = [&](const kit::Side& at) {
      return ReluMask{
          .from = ReluMask::From::input, .weight = at(weight), .bias = at(bias), .out = {}};
    };
    c.run(
        [&](const Stream& stream, const kit::Side& at) {
          kernels::batch_norm_max_pool(stream, pool, at(out), at(picked), at(code), at(in),
                                       at(mean), at(invstd), at(weight), at(bias));
          kernels::batch_norm_backward_reduce(stream, of_outputs, at(sum_dy), at(sum_dy_xhat),
                                              at(grad), at(picked), at(mean), at(invstd), mask(at),
                                              View(), View());
          kernels::batch_norm_max_pool_backward(stream, pool, at(dx), at(grad), at(code), at(in),
                                                at(mean), at(invstd), at(weight), at(bias),
                                                at(sum_dy), at(sum_dy_xhat));
        },
        [&](const Stream& stream, const kit::Side& at) {
          const Tensor y = empty(in_shape, {.dtype = dtype}),
                       dy = empty(in_shape, {.dtype = dtype});
          kernels::batch_norm_apply(stream, layout, y, at(in), at(mean), at(invstd), at(weight),
                                    at(bias), View(), kernels::NormActivation::relu);
          kernels::max_pool2d(stream, pool, at(out), at(code), y, {});
          kernels::max_pool2d_gather(stream, pool, at(picked), at(in), at(code));
          kernels::max_pool2d_backward(stream, pool, dy, at(grad), at(code), View(), {}, {});
          kernels::batch_norm_backward_reduce(stream, layout, at(sum_dy), at(sum_dy_xhat), dy,
                                              at(in), at(mean), at(invstd), mask(at), View(),
                                              View());
          kernels::batch_norm_backward_apply(stream, layout, at(dx), dy, at(in), at(mean),
                                             at(invstd), at(weight), at(sum_dy), at(sum_dy_xhat),
                                             View(), inputs, mask(at));
        });
    for (const Operand& exact : {out, picked, code}) c.check(exact, {.rtol = 0});
    // One by one, a NaN that no window picked enters the sums, times 0.
    if (nan) return;
    for (const Operand& exact : {sum_dy, sum_dy_xhat}) c.check(exact, {.rtol = 0});
    // Contraction to fused multiply-adds differs between devices.
    c.check(dx, {.rtol = test::rounding_of(dtype), .atol = dtype == kFloat64 ? 1e-13 : 1e-5});
  });
}
