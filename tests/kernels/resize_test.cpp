#include "ferrite/kernels/resize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using kernels::Resize2d;
using kernels::ResizeAxis;
using kernels::ResizeFilter;
using kernels::ResizeLine;
using kit::KernelCase;
using kit::Operand;

namespace {

/// As in ops/resize.cpp, from sizes alone or from a factor.
ResizeAxis draw_axis(KernelCase& c, ResizeFilter filter, bool corners, std::int64_t widest) {
  const auto n = static_cast<std::int32_t>(c.coin() ? c.integer(1, 5) : c.integer(1, widest));
  auto m = static_cast<std::int32_t>(c.integer(0, 3) == 0 ? 2 * n : c.integer(1, widest));
  double scale = static_cast<double>(n) / m;
  if (c.coin()) {
    const double factor = static_cast<double>(c.integer(20, 400)) / 100;
    m = std::max(1, static_cast<std::int32_t>(std::floor(n * factor)));
    scale = 1 / factor;
  }
  if (corners) scale = m > 1 ? (n - 1.0) / (m - 1.0) : 0;
  return {n, m, scale, (filter == ResizeFilter::nearest ? c.coin() : !corners) ? 0.5 : 0};
}

Resize2d draw_resize(KernelCase& c) {
  Resize2d r{.batch = c.integer(1, 3), .channels = c.coin() ? 8 : c.integer(1, 5)};
  r.filter = c.pick({ResizeFilter::nearest, ResizeFilter::linear});
  r.channels_last = c.coin();
  const bool corners = c.integer(0, 2) == 0;
  r.h = draw_axis(c, r.filter, corners, 12);
  r.w = draw_axis(c, r.filter, corners, 20);
  switch (c.integer(0, 9)) {
    case 0:  // many results per cell
      r.h = {1, static_cast<std::int32_t>(c.integer(9, 20)), 0.05, 0};
      r.w = {2, static_cast<std::int32_t>(c.integer(35, 60)), 0.02, 0};
      break;
    case 1:
      r.batch = 0;
      break;
    default:
      break;
  }
  return r;
}

Shape inputs(const Resize2d& r) {
  return r.channels_last ? Shape{r.batch, r.h.input, r.w.input, r.channels}
                         : Shape{r.batch, r.channels, r.h.input, r.w.input};
}
Shape outputs(const Resize2d& r) {
  return r.channels_last ? Shape{r.batch, r.h.output, r.w.output, r.channels}
                         : Shape{r.batch, r.channels, r.h.output, r.w.output};
}

DType draw_dtype(KernelCase& c) { return c.pick({kFloat32, kFloat16, kBFloat16, kFloat64}); }

/// The memory position of a cell of the input or a result.
std::int64_t place(const Resize2d& r, std::int64_t n, std::int64_t k, std::int64_t i,
                   std::int64_t j, std::int64_t height, std::int64_t width) {
  return r.channels_last ? ((n * height + i) * width + j) * r.channels + k
                         : ((n * r.channels + k) * height + i) * width + j;
}

/// The weight of cell i in result o along an axis, by definition.
double weight_of(const ResizeAxis& a, ResizeFilter filter, std::int64_t i, std::int64_t o) {
  const auto at = static_cast<double>(o);
  if (filter == ResizeFilter::nearest)
    return i ==
           std::min<std::int64_t>(
               a.input - 1, static_cast<std::int64_t>(std::floor(static_cast<float>(at + a.shift) *
                                                                 static_cast<float>(a.scale))));
  const double source = std::clamp((at + a.shift) * a.scale - a.shift, 0.0, a.input - 1.0);
  return std::max(0.0, 1 - std::abs(source - static_cast<double>(i)));
}

}  // namespace

TEST_CASE("resize2d and its gradient, on every device and in every layout") {
  kit::for_each_case("resize2d", 200, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const Resize2d r = draw_resize(c);
    const Operand in = c.input(inputs(r), dtype);
    const Operand out = c.output(outputs(r), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::resize2d(stream, r, at(out), at(in));
    });
    // Nearest cells are copied; means of cells of size 1 may cancel.
    const bool nearest = r.filter == ResizeFilter::nearest;
    c.check(out, nearest ? kit::Tolerance{.rtol = 0}
                         : kit::Tolerance{.rtol = test::rounding_of(dtype),
                                          .atol = dtype == kFloat64 ? 1e-13 : 1e-6});
  });
  kit::for_each_case("resize2d_backward", 200, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const Resize2d r = draw_resize(c);
    const Operand grad_out = c.input(outputs(r), dtype);
    const Operand grad_in = c.output(inputs(r), dtype);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::resize2d_backward(stream, r, at(grad_in), at(grad_out));
    });
    // Sums of up to 1200 gradients of size 1.
    c.check(grad_in, {.rtol = test::rounding_of(dtype), .atol = dtype == kFloat64 ? 1e-12 : 2e-5});
  });
}

TEST_CASE("resize2d against its definition") {
  kit::for_each_case("resize2d naive", 60, [](KernelCase& c) {
    const Resize2d r = draw_resize(c);
    const Operand in = c.input(inputs(r), kFloat64), grad_out = c.input(outputs(r), kFloat64);
    const Operand out = c.output(outputs(r), kFloat64), grad_in = c.output(inputs(r), kFloat64);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::resize2d(stream, r, at(out), at(in));
      kernels::resize2d_backward(stream, r, at(grad_in), at(grad_out));
    });
    const std::vector<double> x = c.expected(in).to_vector<double>();
    const std::vector<double> g = c.expected(grad_out).to_vector<double>();
    std::vector<double> y(g.size()), dx(x.size());
    for (std::int64_t n = 0; n < r.batch; ++n)
      for (std::int64_t k = 0; k < r.channels; ++k)
        for (std::int64_t i = 0; i < r.h.output; ++i)
          for (std::int64_t j = 0; j < r.w.output; ++j)
            for (std::int64_t u = 0; u < r.h.input; ++u) {
              const double down = weight_of(r.h, r.filter, u, i);
              if (down == 0) continue;
              for (std::int64_t v = 0; v < r.w.input; ++v) {
                const double share = down * weight_of(r.w, r.filter, v, j);
                const auto cell =
                    static_cast<std::size_t>(place(r, n, k, u, v, r.h.input, r.w.input));
                const auto result =
                    static_cast<std::size_t>(place(r, n, k, i, j, r.h.output, r.w.output));
                y[result] += share * x[cell];
                dx[cell] += share * g[result];
              }
            }
    c.check_values(out, y, {.rtol = 1e-12, .atol = 1e-12});
    c.check_values(grad_in, dx, {.rtol = 1e-12, .atol = 1e-11});
  });
}

namespace {

ResizeLine draw_line(KernelCase& c) {
  ResizeLine line;
  line.filter = c.pick({ResizeFilter::nearest, ResizeFilter::linear, ResizeFilter::cubic});
  line.antialias = line.filter != ResizeFilter::nearest && c.coin();
  line.axis = draw_axis(c, line.filter, c.integer(0, 2) == 0, 40);
  line.transposed = c.coin();
  line.outer = c.integer(0, 12) == 0 ? 0 : c.integer(1, 9);
  line.inner = c.pick({1, 1, 3, 8, 40});
  return line;
}

/// The weight of cell i in result o, by definition.
double weight_of(const ResizeLine& line, std::int64_t i, std::int64_t o) {
  const ResizeAxis& a = line.axis;
  if (line.filter == ResizeFilter::nearest) return weight_of(a, line.filter, i, o);
  const bool cubic = line.filter == ResizeFilter::cubic;
  const auto value = [&](double x) {
    const double alpha = line.antialias ? -0.5 : -0.75;
    x = std::abs(x);
    if (!cubic) return std::max(0.0, 1 - x);
    if (x < 1) return (alpha + 2) * x * x * x - (alpha + 3) * x * x + 1;
    return x < 2 ? alpha * (x * x * x - 5 * x * x + 8 * x - 4) : 0;
  };
  const auto at = static_cast<double>(o);
  double sum = 0, total = 0;
  if (line.antialias) {
    const double center = (at + 0.5) * a.scale - 0.5, stretch = std::max(1.0, a.scale);
    for (std::int64_t k = 0; k < a.input; ++k) {
      const double weight = value((static_cast<double>(k) - center) / stretch);
      total += weight;
      if (k == i) sum = weight;
    }
    return sum / total;
  }
  const double source = (at + a.shift) * a.scale - a.shift;
  for (std::int64_t k = -3; k < a.input + 3; ++k)
    if (std::clamp<std::int64_t>(k, 0, a.input - 1) == i)
      sum += value(source - static_cast<double>(k));
  return sum;
}

}  // namespace

TEST_CASE("resize_line and its gradient, on every device and between dtypes") {
  kit::for_each_case("resize_line", 300, [](KernelCase& c) {
    const DType from = draw_dtype(c);
    DType to = from;
    if (c.coin() && from != kFloat64)
      to = from == kFloat32 ? c.pick({kFloat16, kBFloat16}) : kFloat32;
    const ResizeLine line = draw_line(c);
    const Operand in = c.input({line.outer, line.from(), line.inner}, from);
    const Operand out = c.output({line.outer, line.to(), line.inner}, to);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::resize_line(stream, line, at(out), at(in));
    });
    c.check(out, {.rtol = test::rounding_of(to), .atol = from == kFloat64 ? 1e-12 : 2e-5});
  });
}

TEST_CASE("resize_line against its definition") {
  kit::for_each_case("resize_line naive", 100, [](KernelCase& c) {
    const ResizeLine line = draw_line(c);
    const Operand in = c.input({line.outer, line.from(), line.inner}, kFloat64);
    const Operand out = c.output({line.outer, line.to(), line.inner}, kFloat64);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::resize_line(stream, line, at(out), at(in));
    });
    const std::vector<double> x = c.expected(in).to_vector<double>();
    std::vector<double> y(static_cast<std::size_t>(line.outer * line.to() * line.inner));
    for (std::int64_t k = 0; k < line.from(); ++k)
      for (std::int64_t o = 0; o < line.to(); ++o) {
        const double weight = line.transposed ? weight_of(line, o, k) : weight_of(line, k, o);
        for (std::int64_t n = 0; n < line.outer; ++n)
          for (std::int64_t i = 0; i < line.inner; ++i)
            y[static_cast<std::size_t>((n * line.to() + o) * line.inner + i)] +=
                weight * x[static_cast<std::size_t>((n * line.from() + k) * line.inner + i)];
      }
    c.check_values(out, y, {.rtol = 1e-12, .atol = 1e-11});
  });
}

TEST_CASE("cells of weight 0 have no effect, whatever their value") {
  kit::for_each_case("resize2d beside NaN", 8, [](KernelCase& c) {
    // The same height, the same width: every result is one cell.
    Resize2d r{.batch = 1, .channels = 2, .h = {3, 3, 1, 0.5}, .w = {4, 7, 0.5, 0}};
    r.filter = ResizeFilter::linear;
    r.channels_last = c.coin();
    Tensor values = empty(inputs(r), {.dtype = kFloat64});
    for (std::int64_t i = 0; i < values.numel(); ++i)
      values.data<double>()[i] = i % 5 == 0 ? NAN : i % 5 == 1 ? INFINITY : static_cast<double>(i);
    const Operand in = c.input(values, kFloat32);
    const Operand out = c.output(outputs(r), kFloat32);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::resize2d(stream, r, at(out), at(in));
    });
    c.check(out, {.rtol = 1e-6});
    const std::vector<double> y = c.result(out).to_vector<double>();
    for (std::int64_t k = 0; k < 2; ++k)
      for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t j = 0; j < 7; j += 2) {
          const double cell = values.data<double>()[place(r, 0, k, i, j / 2, r.h.input, r.w.input)];
          const double got = y[static_cast<std::size_t>(place(r, 0, k, i, j, 3, 7))];
          if (!(got == cell || (std::isnan(got) && std::isnan(cell))))
            c.fail("a result that is one cell is not that cell");
        }
  });
}
