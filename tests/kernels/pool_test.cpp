#include "ferrite/kernels/pool.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using kernels::Pool2d;
using kernels::PoolAxis;
using kernels::View;
using kit::KernelCase;
using kit::Operand;

namespace {

DType draw_dtype(KernelCase& c) { return c.pick({kFloat32, kFloat16, kBFloat16, kFloat64}); }

PoolAxis sliding(std::int64_t input, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                 std::int64_t dilation, bool ceil_mode) {
  PoolAxis a{
      .input = input, .kernel = kernel, .stride = stride, .padding = padding, .dilation = dilation};
  const std::int64_t room = input + 2 * padding - dilation * (kernel - 1) - 1;
  a.output = room < 0 ? 0 : (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (a.output - 1) * stride >= input + padding) --a.output;
  return a;
}

/// An axis with at least one window, each of which contains a cell: ops see to the others.
PoolAxis draw_sliding(KernelCase& c, bool dilated) {
  for (;;) {
    const std::int64_t kernel = c.integer(1, 6), padding = c.integer(0, kernel / 2);
    const PoolAxis a = sliding(c.integer(1, 30), kernel, c.integer(1, 4), padding,
                               dilated ? c.integer(1, 3) : 1, c.coin());
    bool fits = a.output > 0;
    for (std::int64_t o = 0; o < a.output; ++o) fits = fits && a.window(o).count > 0;
    if (fits) return a;
  }
}
PoolAxis adaptive(std::int64_t input, std::int64_t output) {
  PoolAxis a{.input = input, .output = output};
  a.adaptive = true;
  return a;
}
PoolAxis whole(std::int64_t size) { return sliding(size, size, size, 0, 1, false); }

enum class Windows { dilated, plain };

Pool2d draw_pool(KernelCase& c, Windows kind) {
  Pool2d p{.batch = c.integer(1, 3), .channels = c.coin() ? 8 : c.integer(1, 5), .h = {}, .w = {}};
  p.channels_last = c.coin();
  switch (c.integer(0, 6)) {
    case 0: {  // 2 x 2, rows of whole packs or not
      const std::int64_t width = c.coin() ? 8 * c.integer(1, 5) : c.integer(2, 40);
      const bool ceil_mode = c.coin();
      p.h = sliding(c.integer(2, 9), 2, 2, 0, 1, ceil_mode);
      p.w = sliding(width, 2, 2, 0, 1, ceil_mode);
      break;
    }
    case 1: {  // 3 x 3 with padding
      const std::int64_t width = c.coin() ? 8 * c.integer(1, 5) : c.integer(1, 40);
      const bool ceil_mode = c.coin();
      p.h = sliding(c.integer(1, 9), 3, 2, 1, 1, ceil_mode);
      p.w = sliding(width, 3, 2, 1, 1, ceil_mode);
      break;
    }
    case 2:
      p.h = adaptive(c.integer(1, 20), c.integer(1, 20));
      p.w = adaptive(c.integer(1, 20), c.integer(1, 20));
      break;
    case 3:  // one warp per window in NCHW; codes of more than a byte
      p.h = whole(c.integer(8, 20));
      p.w = c.coin() ? whole(c.integer(8, 20)) : adaptive(c.integer(35, 60), c.integer(2, 3));
      break;
    case 4:  // one block per window in NCHW
      p.batch = 1;
      p.channels = c.integer(1, 2);
      p.h = whole(c.integer(60, 70));
      p.w = whole(c.integer(70, 80));
      break;
    default:
      p.h = draw_sliding(c, kind == Windows::dilated);
      p.w = draw_sliding(c, kind == Windows::dilated);
  }
  if (c.integer(0, 29) == 0) p.batch = 0;
  return p;
}

Shape inputs(const Pool2d& p) {
  return p.channels_last ? Shape{p.batch, p.h.input, p.w.input, p.channels}
                         : Shape{p.batch, p.channels, p.h.input, p.w.input};
}
Shape outputs(const Pool2d& p) {
  return p.channels_last ? Shape{p.batch, p.h.output, p.w.output, p.channels}
                         : Shape{p.batch, p.channels, p.h.output, p.w.output};
}

/// Many ties; sometimes also windows of NaN or -infinity.
Tensor draw_values(KernelCase& c, const Shape& shape) {
  Tensor values = empty(shape, {.dtype = kFloat64});
  const bool odd_ones = c.coin();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const std::int64_t drawn = c.integer(0, 19);
    double value = static_cast<double>(c.integer(-4, 4)) / 2;
    if (odd_ones && drawn == 0) value = NAN;
    if (odd_ones && drawn > 8) value = -INFINITY;
    values.data<double>()[i] = value;
  }
  return values;
}

/// Means of cells, or sums of the gradients of the windows that contain a cell: results and terms
/// have the size of `scale`.
kit::Tolerance sum_tolerance(DType dtype, double scale = 1) {
  return {.rtol = test::rounding_of(dtype), .atol = (dtype == kFloat64 ? 1e-14 : 1e-6) * scale};
}

}  // namespace

TEST_CASE("max_pool2d and its codes, the first of equal cells and the last NaN") {
  kit::for_each_case("max_pool2d", 200, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const Pool2d p = draw_pool(c, Windows::dilated);
    const Operand in = c.input(draw_values(c, inputs(p)), dtype);
    const Operand out = c.output(outputs(p), dtype);
    const Operand code = c.integer(0, 3) > 0 ? c.output(outputs(p), p.code_dtype()) : Operand();
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::max_pool2d(stream, p, at(out), at(code), at(in), {});
    });
    c.check(out, {.rtol = 0});
    if (code.number >= 0) c.check(code, {.rtol = 0});
  });
}

TEST_CASE("max_pool2d_backward with the sums of channels") {
  kit::for_each_case("max_pool2d_backward sums", 100, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const Pool2d p = draw_pool(c, Windows::dilated);
    const Operand in = c.input(draw_values(c, inputs(p)), dtype);
    const Operand out = c.output(outputs(p), dtype);
    const Operand code = c.output(outputs(p), p.code_dtype());
    const Operand counters = c.output({p.channels}, kInt32);
    const Operand grad_out = c.input(outputs(p), dtype, {.low = -1, .high = 1});
    const Operand grad_in = c.output(inputs(p), dtype), sums = c.output({p.channels}, dtype);
    const bool masked = c.coin();
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::max_pool2d(stream, p, at(out), at(code), at(in), at(counters));
      // Twice: the counters are zeros again.
      for (int i = 0; i < 2; ++i)
        kernels::max_pool2d_backward(stream, p, at(grad_in), at(grad_out), at(code),
                                     masked ? at(out) : View(), at(sums), at(counters));
    });
    c.check(grad_in, sum_tolerance(dtype));
    if (p.batch > 0) c.check(counters, {.rtol = 0});
    const auto values = static_cast<double>(outputs(p).numel() / p.channels);
    const double unit = dtype == kFloat64 ? 1.2e-16 : 6e-8;
    // The CPU adds rounded cells.
    const double rounding = dtype == kFloat16 ? 1e-3 : dtype == kBFloat16 ? 8e-3 : 4 * unit;
    c.check(sums, {.rtol = rounding, .atol = values * (unit + rounding)});
  });
}

TEST_CASE("max_pool2d_backward") {
  kit::for_each_case("max_pool2d_backward", 200, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const Pool2d p = draw_pool(c, Windows::dilated);
    const Operand in = c.input(draw_values(c, inputs(p)), dtype);
    const Operand out = c.output(outputs(p), dtype);
    const Operand code = c.output(outputs(p), p.code_dtype());
    const Operand grad_out = c.input(outputs(p), dtype);
    const Operand grad_in = c.output(inputs(p), dtype), masked = c.output(inputs(p), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::max_pool2d(stream, p, at(out), at(code), at(in), {});
      kernels::max_pool2d_backward(stream, p, at(grad_in), at(grad_out), at(code), {}, {}, {});
      // Behind a ReLU, as if the negative inputs were zeros.
      kernels::max_pool2d_backward(stream, p, at(masked), at(grad_out), at(code), at(out), {}, {});
    });
    c.check(grad_in, sum_tolerance(dtype));
    c.check(masked, sum_tolerance(dtype));
    const std::vector<double> cells = c.result(in).to_vector<double>();
    const std::vector<double> all = c.result(grad_in).to_vector<double>();
    std::vector<double> expected(cells.size());
    for (std::size_t i = 0; i < cells.size(); ++i) expected[i] = cells[i] <= 0 ? 0 : all[i];
    c.check_values(masked, expected, {.rtol = 0});
  });
}

TEST_CASE("max_pool2d_gather and max_pool2d_indices") {
  kit::for_each_case("max_pool2d_gather", 100, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const Pool2d p = draw_pool(c, Windows::dilated);
    const Operand in = c.input(draw_values(c, inputs(p)), dtype);
    const Operand from = c.input(inputs(p), dtype);
    const Operand out = c.output(outputs(p), dtype);
    const Operand code = c.output(outputs(p), p.code_dtype());
    const Operand gathered = c.output(outputs(p), dtype);
    const Operand indices = c.output(outputs(p), kInt64);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::max_pool2d(stream, p, at(out), at(code), at(in), {});
      kernels::max_pool2d_gather(stream, p, at(gathered), at(from), at(code));
      kernels::max_pool2d_indices(stream, p, at(indices), at(code));
    });
    c.check(gathered, {.rtol = 0});
    c.check(indices, {.rtol = 0});
  });
}

TEST_CASE("avg_pool2d, with and without the padding in the divisor, and with one of its own") {
  kit::for_each_case("avg_pool2d", 200, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    Pool2d p = draw_pool(c, Windows::plain);
    p.count_include_pad = c.coin();
    p.divisor_override = c.pick({0, 0, 0, 5, -3});
    const Operand in = c.input(inputs(p), dtype);
    const Operand out = c.output(outputs(p), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::avg_pool2d(stream, p, at(out), at(in));
    });
    // With a custom divisor the results are sums, not means.
    const auto cells = static_cast<double>(p.h.widest() * p.w.widest());
    c.check(out, sum_tolerance(dtype, p.divisor_override == 0 ? 1 : std::sqrt(cells)));
  });
}

TEST_CASE("avg_pool2d_backward") {
  kit::for_each_case("avg_pool2d_backward", 200, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    Pool2d p = draw_pool(c, Windows::plain);
    p.count_include_pad = c.coin();
    p.divisor_override = c.pick({0, 0, 0, 5, -3});
    const Operand grad_out = c.input(outputs(p), dtype);
    const Operand grad_in = c.output(inputs(p), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::avg_pool2d_backward(stream, p, at(grad_in), at(grad_out));
    });
    c.check(grad_in, sum_tolerance(dtype));
  });
}

TEST_CASE("pooling with strides and windows far larger than the plane") {
  kit::for_each_case("pooling with large strides", 12, [](KernelCase& c) {
    Pool2d p{.batch = 2, .channels = c.pick({1, 8}), .h = {}, .w = {}};
    p.channels_last = c.coin();
    p.h = sliding(7, 1, 2147483647, 0, 2147483647, false);
    p.w = sliding(9, 20, 2147483647, 10, 1, false);
    const Operand in = c.input(inputs(p), kFloat32);
    const Operand largest = c.output(outputs(p), kFloat32), code = c.output(outputs(p), kUInt8);
    const Operand mean = c.output(outputs(p), kFloat32);
    const Operand grad_in = c.output(inputs(p), kFloat32);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::max_pool2d(stream, p, at(largest), at(code), at(in), {});
      kernels::max_pool2d_backward(stream, p, at(grad_in), at(largest), at(code), {}, {}, {});
      kernels::avg_pool2d(stream, p, at(mean), at(in));
    });
    c.check(largest, {.rtol = 0});
    c.check(code, {.rtol = 0});
    c.check(mean, {.rtol = 1e-5, .atol = 1e-6});
    c.check(grad_in, {.rtol = 0});
  });
}
