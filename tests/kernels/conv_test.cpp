#include "ferrite/kernels/conv.h"

#include <doctest/doctest.h>

#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/vendor.h"
#include "ferrite/tests/kit/doctest_context.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using kernels::Activation;
using kernels::ConvParams;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;
using kit::OperandOptions;

namespace {

/// Tests our own kernels; cuda_cudnn_test.cpp tests the library's.
const bool own_kernels = [] {
  cudnn::set_enabled(false);
  return true;
}();

/// A convolution: sizes of input [n, c, h, w], weight [o, c / groups, kh, kw] and out.
struct Problem {
  std::int64_t n, c, h, w, o, kh, kw;
  ConvParams p;

  std::int64_t extent(int d) const {
    const auto i = static_cast<std::size_t>(d);
    const std::int64_t size = d ? w : h, kernel = d ? kw : kh;
    return (size + 2 * p.padding[i] - p.dilation[i] * (kernel - 1) - 1) / p.stride[i] + 1;
  }
  Shape input() const { return {n, c, h, w}; }
  Shape weight() const { return {o, c / p.groups, kh, kw}; }
  Shape out() const { return {n, o, extent(0), extent(1)}; }
  /// Number of terms of a sum, for each direction.
  std::int64_t forward_depth() const { return c / p.groups * kh * kw; }
  std::int64_t backward_depth() const { return o / p.groups * kh * kw; }
  std::int64_t weight_depth() const { return n * extent(0) * extent(1); }
};

/// Valid strides, paddings, dilations and a kernel, for images of about `size` pixels per side.
Problem draw(KernelCase& c, std::int64_t n, std::int64_t channels, std::int64_t outs,
             std::int64_t groups, std::int64_t size) {
  Problem k{n, channels, 0, 0, outs, c.integer(1, 4), c.integer(1, 4), {}};
  k.p.groups = groups;
  for (std::size_t i = 0; i < 2; ++i) {
    k.p.stride[i] = c.pick<std::int64_t>({1, 1, 2, 3, 5});
    k.p.padding[i] = c.integer(0, 2);
    k.p.dilation[i] = c.pick<std::int64_t>({1, 1, 2, 3});
    const std::int64_t reach = k.p.dilation[i] * ((i ? k.kw : k.kh) - 1) + 1;
    (i ? k.w : k.h) = std::max<std::int64_t>(reach - 2 * k.p.padding[i], 1) + c.integer(0, size);
  }
  return k;
}

OperandOptions drawn(Layout layout) { return {.layout = layout, .low = -1, .high = 1}; }

/// Error of sums of `depth` terms below 1, each addition rounded to float (double), before the
/// result is rounded to its type.
kit::Tolerance tolerance(DType dtype, std::int64_t depth) {
  return {.atol = static_cast<double>(depth + 4) * (dtype == kFloat64 ? 1e-16 : 6e-8)};
}

/// Each of the three kernels on operands of one layout, or of any.
void check_all(KernelCase& c, DType dtype, const Problem& k, Layout layout) {
  const bool biased = c.coin();
  const OperandOptions options = drawn(layout);
  const Operand weight = c.input(k.weight(), dtype, options);
  switch (c.integer(0, 2)) {
    case 0: {
      const Operand input = c.input(k.input(), dtype, options);
      const Operand bias = biased ? c.input({k.o}, dtype, drawn(Layout::any)) : Operand();
      const Operand out = c.output(k.out(), dtype, options);
      ConvParams params = k.p;
      params.activation = c.pick({Activation::none, Activation::relu});
      c.run([&](const Stream& stream, const kit::Side& at) {
        kernels::conv2d(stream, at(out), at(input), at(weight), at(bias), params);
      });
      return c.check(out, tolerance(dtype, k.forward_depth()));
    }
    case 1: {
      const Operand grad = c.input(k.out(), dtype, options);
      const Operand bias = biased ? c.input({k.c}, dtype, drawn(Layout::any)) : Operand();
      const Operand grad_input = c.output(k.input(), dtype, options);
      c.run([&](const Stream& stream, const kit::Side& at) {
        kernels::conv2d_data(stream, at(grad_input), at(grad), at(weight), at(bias), k.p);
      });
      return c.check(grad_input, tolerance(dtype, k.backward_depth()));
    }
    default: {
      const Operand input = c.input(k.input(), dtype, options);
      const Operand grad = c.input(k.out(), dtype, options);
      const Operand grad_weight = c.output(k.weight(), dtype, options);
      const Operand grad_bias = biased ? c.output({k.o}, dtype, drawn(Layout::any)) : Operand();
      c.run([&](const Stream& stream, const kit::Side& at) {
        kernels::conv2d_weight(stream, at(grad_weight), at(grad_bias), at(input), at(grad), k.p);
      });
      c.check(grad_weight, tolerance(dtype, k.weight_depth()));
      if (biased) c.check(grad_bias, tolerance(dtype, k.weight_depth()));
    }
  }
}

/// f(output, input, weight) for every product of a float64 convolution.
template <class F>
void for_each_product(const Problem& k, const kernels::View& out, const kernels::View& input,
                      const kernels::View& weight, F f) {
  const std::int64_t ins = k.c / k.p.groups, outs = k.o / k.p.groups;
  const auto at = [](const kernels::View& v, std::int64_t a, std::int64_t b, std::int64_t c,
                     std::int64_t d) {
    return v.as<double>() + a * v.strides[0] + b * v.strides[1] + c * v.strides[2] +
           d * v.strides[3];
  };
  for (std::int64_t n = 0; n < k.n; ++n)
    for (std::int64_t o = 0; o < k.o; ++o)
      for (std::int64_t y = 0; y < k.extent(0); ++y)
        for (std::int64_t x = 0; x < k.extent(1); ++x)
          for (std::int64_t i = 0; i < k.kh; ++i)
            for (std::int64_t j = 0; j < k.kw; ++j) {
              const std::int64_t row = y * k.p.stride[0] + i * k.p.dilation[0] - k.p.padding[0];
              const std::int64_t column = x * k.p.stride[1] + j * k.p.dilation[1] - k.p.padding[1];
              if (row < 0 || row >= k.h || column < 0 || column >= k.w) continue;
              double* const from = at(input, n, o / outs * ins, row, column);
              double *const w = at(weight, o, 0, i, j), *const to = at(out, n, o, y, x);
              for (std::int64_t c = 0; c < ins; ++c)
                f(*to, from[c * input.strides[1]], w[c * weight.strides[1]]);
            }
}

/// A kernel (0 forward, 1 input gradient, 2 weight gradient) against the direct sum of all
/// products, in float64.
void check_plainly(KernelCase& c, DType dtype, const Problem& k, Layout layout, int pass) {
  const OperandOptions options = drawn(layout);
  const auto operand = [&](const Shape& shape, int number) {
    return pass == number ? c.output(shape, dtype, options) : c.input(shape, dtype, options);
  };
  const Operand operands[] = {operand(k.out(), 0), operand(k.input(), 1), operand(k.weight(), 2)};
  c.run(
      [&](const Stream& stream, const kit::Side& at) {
        if (pass == 0)
          kernels::conv2d(stream, at(operands[0]), at(operands[1]), at(operands[2]), {}, k.p);
        else if (pass == 1)
          kernels::conv2d_data(stream, at(operands[1]), at(operands[0]), at(operands[2]), {}, k.p);
        else
          kernels::conv2d_weight(stream, at(operands[2]), {}, at(operands[1]), at(operands[0]),
                                 k.p);
      },
      [&](const Stream&, const kit::Side& at) {
        const kernels::View out = at(operands[0]), in = at(operands[1]), w = at(operands[2]);
        kernels::fill(Stream(), pass == 0 ? out : pass == 1 ? in : w, 0.0);
        for_each_product(k, out, in, w, [&](double& y, double& x, double& v) {
          (pass == 0 ? y : pass == 1 ? x : v) += pass == 0 ? x * v : pass == 1 ? y * v : y * x;
        });
      });
  c.check(operands[pass], tolerance(dtype, pass == 0   ? k.forward_depth()
                                           : pass == 1 ? k.backward_depth()
                                                       : k.weight_depth()));
}

void check_plainly(KernelCase& c, DType dtype, const Problem& k, Layout layout) {
  check_plainly(c, dtype, k, layout, static_cast<int>(c.integer(0, 2)));
}

DType draw_dtype(KernelCase& c) { return c.pick({kFloat32, kFloat16, kBFloat16, kFloat64}); }
Layout draw_layout(KernelCase& c) {
  return c.pick({Layout::contiguous, Layout::channels_last, Layout::any});
}

}  // namespace

TEST_CASE("convolutions and their gradients, of every dtype and layout") {
  kit::for_each_case("conv", 150, [](KernelCase& c) {
    const std::int64_t groups = c.pick<std::int64_t>({1, 1, 2});
    const Problem k = draw(c, c.integer(1, 3), groups * c.integer(1, 12),
                           groups * c.integer(groups > 1 ? 5 : 1, 20), groups, 8);
    check_all(c, draw_dtype(c), k, draw_layout(c));
  });
}

TEST_CASE("convolutions that may be read in place, against plain sums") {
  kit::for_each_case("plain conv", 60, [](KernelCase& c) {
    const std::int64_t groups = c.pick<std::int64_t>({1, 1, 2});
    Problem k =
        draw(c, c.integer(1, 3), groups * c.integer(1, 8), groups * c.integer(1, 20), groups, 6);
    k.p.padding = {0, 0};
    if (c.coin()) {  // with pixels that are not used
      k.kh = k.kw = 1;
      k.c *= 4;
      k.p.stride = {c.integer(2, 3), c.integer(1, 3)};
    }
    k.h = std::max(k.h, k.p.dilation[0] * (k.kh - 1) + 1);
    k.w = std::max(k.w, k.p.dilation[1] * (k.kw - 1) + 1);
    check_plainly(c, draw_dtype(c), k, c.pick({Layout::channels_last, Layout::any}));
  });
}

TEST_CASE("taps outside small images, against plain sums") {
  kit::for_each_case("plain padded conv", 24, [](KernelCase& c) {
    Problem k{c.pick<std::int64_t>({1, 3, 9}), 40, c.integer(1, 4), c.integer(1, 4), 48, 3, 3, {}};
    k.p.stride = {c.integer(1, 3), c.integer(1, 3)};
    k.p.dilation = {c.integer(1, 2), c.integer(1, 2)};
    k.p.padding = {c.integer(2, 4), c.integer(2, 4)};
    check_plainly(c, draw_dtype(c), k, draw_layout(c));
  });
}

TEST_CASE("small images and more weights than a cache holds, against plain sums") {
  kit::for_each_case("plain wide conv", 4, [](KernelCase& c) {
    const bool host = c.device().is_cpu();  // an emulated device would take too long, without
                                            // covering anything new
    Problem k{8, host ? 150 : 15, c.integer(2, 3), c.integer(2, 3), host ? 210 : 21, 3, 3, {}};
    k.p.stride = {2, 2};
    k.p.padding = {1, 1};
    check_plainly(c, draw_dtype(c), k, draw_layout(c));
  });
}

TEST_CASE("1 x 1 weights' gradients of images larger than a near cache, against plain sums") {
  kit::for_each_case("plain rows", 8, [](KernelCase& c) {
    const bool host = c.device().is_cpu();
    const std::int64_t groups = c.pick<std::int64_t>({1, 2}), size = host ? 40 : 5;
    Problem k{c.integer(1, 3), 72 * groups, size, c.integer(40, 45), 40 * groups, 1, 1, {}};
    k.p.groups = groups;
    k.p.stride[1] = c.integer(1, 2);
    k.p.padding[1] = c.integer(0, 1);
    check_plainly(c, draw_dtype(c), k, c.pick({Layout::channels_last, Layout::any}), 2);
  });
}

TEST_CASE("convolutions of many groups") {
  kit::for_each_case("depthwise conv", 72, [](KernelCase& c) {
    const std::int64_t groups = c.pick<std::int64_t>({2, 7, 40});
    const std::int64_t ins = c.pick<std::int64_t>({1, 1, 2}),
                       outs = c.pick<std::int64_t>({1, 1, 3});
    const Problem k = draw(c, c.integer(1, 3), groups * ins, groups * outs, groups, 8);
    check_all(c, draw_dtype(c), k, draw_layout(c));
  });
}

TEST_CASE("convolutions of many channels") {
  kit::for_each_case("wide conv", 48, [](KernelCase& c) {
    const Problem k = draw(c, c.integer(1, 2), 8 * c.integer(1, 12), 8 * c.integer(1, 24), 1, 4);
    check_all(c, draw_dtype(c), k, draw_layout(c));
  });
}

TEST_CASE("convolutions of many images: weight gradients are summed in parts") {
  kit::for_each_case("deep conv", 24, [](KernelCase& c) {
    Problem k = draw(c, c.integer(20, 40), c.integer(1, 8), c.integer(1, 8), 1, 10);
    if (c.coin()) k.o = k.p.groups = k.c;
    check_all(c, draw_dtype(c), k, draw_layout(c));
  });
}

TEST_CASE("gradients of more weights than pixels, in blocks and parts of the batch") {
  kit::for_each_case("blocked weights", 12, [](KernelCase& c) {
    const std::int64_t stride = c.integer(1, 2);
    Problem k{c.pick<std::int64_t>({1, 24}), 57, 4 * stride, 4 * stride, 75, 3, 3, {}};
    k.p.padding = {1, 1};
    k.p.stride = {stride, stride};
    const DType dtype = draw_dtype(c);
    const Layout layout = draw_layout(c);
    const Operand input = c.input(k.input(), dtype, drawn(layout));
    const Operand grad = c.input(k.out(), dtype, drawn(layout));
    const Operand grad_weight = c.output(k.weight(), dtype, drawn(layout));
    const bool biased = c.coin();
    const Operand grad_bias = biased ? c.output({k.o}, dtype, drawn(Layout::any)) : Operand();
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::conv2d_weight(stream, at(grad_weight), at(grad_bias), at(input), at(grad), k.p);
    });
    c.check(grad_weight, tolerance(dtype, k.weight_depth()));
    if (biased) c.check(grad_bias, tolerance(dtype, k.weight_depth()));
  });
}

TEST_CASE("convolutions large enough for the largest tiles") {
  kit::for_each_case("large conv", 6, [](KernelCase& c) {
    // Channels in whole chunks of 16 bytes, which the largest tiles of 16-bit types need, or not.
    const bool chunks = c.coin();
    Problem k{2, chunks ? 8 : 2, 92, 92, chunks ? 72 : 65, 1, 2, {}};
    k.p.padding = {0, 1};
    const bool data = c.coin();
    if (data) std::swap(k.c, k.o);
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16});
    const Layout layout = c.pick({Layout::contiguous, Layout::channels_last});
    OperandOptions options = drawn(chunks ? Layout::channels_last : layout);
    if (chunks) options.misalignment = 0;
    const Operand weight = c.input(k.weight(), dtype, options);
    const Operand from = c.input(data ? k.out() : k.input(), dtype, options);
    const Operand to = c.output(data ? k.input() : k.out(), dtype, options);
    c.run([&](const Stream& stream, const kit::Side& at) {
      if (data)
        kernels::conv2d_data(stream, at(to), at(from), at(weight), {}, k.p);
      else
        kernels::conv2d(stream, at(to), at(from), at(weight), {}, k.p);
    });
    c.check(to, tolerance(dtype, 4));
  });
}

TEST_CASE("gradients of weights large enough for the largest tiles") {
  kit::for_each_case("large weight gradient", 3, [](KernelCase& c) {
    Problem k{3, 8, 9, 12, 72, 3, 3, {}};
    k.p.padding = {1, 1};
    const DType dtype = c.pick({kFloat16, kBFloat16});
    const kit::OperandOptions aligned{
        .layout = Layout::channels_last, .misalignment = 0, .low = -1, .high = 1};
    const Operand input = c.input(k.input(), dtype, aligned);
    const Operand grad = c.input(k.out(), dtype, aligned);
    const Operand weight = c.output(k.weight(), dtype, aligned);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::conv2d_weight(stream, at(weight), {}, at(input), at(grad), k.p);
    });
    c.check(weight, tolerance(dtype, 324));
  });
}

TEST_CASE("an input larger than the convolution reads: its gradient there is the bias") {
  kit::for_each_case("output padding", 12, [](KernelCase& c) {
    Problem k = draw(c, 2, 6, 9, c.pick<std::int64_t>({1, 3}), 5);
    k.p.stride = {3, 2};
    const Shape grad_shape = k.out();
    k.h += 2;
    const DType dtype = draw_dtype(c);
    const Operand grad = c.input(grad_shape, dtype, drawn(Layout::any));
    const Operand weight = c.input(k.weight(), dtype, drawn(Layout::any));
    const Operand bias = c.input({k.c}, dtype);
    const Operand grad_input = c.output(k.input(), dtype, drawn(Layout::any));
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::conv2d_data(stream, at(grad_input), at(grad), at(weight), at(bias), k.p);
    });
    c.check(grad_input, tolerance(dtype, k.backward_depth()));
  });
}

TEST_CASE("gradients of the input that are added to what is there") {
  kit::for_each_case("conv2d_data_add", 24, [](KernelCase& c) {
    const Problem k = draw(c, c.integer(1, 3), 9, 9, c.pick<std::int64_t>({1, 3}), 7);
    const DType dtype = draw_dtype(c);
    const Operand grad = c.input(k.out(), dtype, drawn(Layout::any));
    const Operand weight = c.input(k.weight(), dtype, drawn(Layout::any));
    const Operand grad_input = c.inout(k.input(), dtype, drawn(Layout::any));
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::conv2d_data_add(stream, at(grad_input), at(grad), at(weight), k.p);
    });
    kit::Tolerance sum = tolerance(dtype, k.backward_depth());
    sum.atol += test::rounding_of(dtype) * static_cast<double>(k.backward_depth());  // of the part
    c.check(grad_input, sum);
  });
}

TEST_CASE("convolutions of no images, and of no channels") {
  kit::for_each_case("empty conv", 16, [](KernelCase& c) {
    Problem k = draw(c, 2, 3, 5, 1, 4);
    c.coin() ? k.n = 0 : k.c = 0;
    check_all(c, draw_dtype(c), k, Layout::contiguous);
  });
}

TEST_CASE("convolutions with the statistics of their channels") {
  kit::for_each_case("conv2d_stats", 60, [](KernelCase& c) {
    const DType dtype = draw_dtype(c), statistics = dtype == kFloat64 ? kFloat64 : kFloat32;
    const Problem k = draw(c, c.integer(1, 4), 2 * c.integer(1, 5), 2 * c.integer(1, 9),
                           c.pick<std::int64_t>({1, 1, 2}), 7);
    const OperandOptions any = drawn(Layout::any);
    const Operand input = c.input(k.input(), dtype, any);
    const Operand weight = c.input(k.weight(), dtype, any);
    const Operand bias = c.coin() ? c.input({k.o}, dtype, any) : Operand();
    const Operand out =
        c.output(k.out(), dtype, {.layout = c.pick({Layout::contiguous, Layout::channels_last})});
    const Operand mean = c.output({k.o}, statistics), m2 = c.output({k.o}, statistics);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::conv2d_stats(stream, at(out), at(mean), at(m2), at(input), at(weight), at(bias), k.p,
                            nullptr);
    });
    c.check(out, tolerance(dtype, k.forward_depth()));
    // Of values rounded to `dtype`.
    const auto values = static_cast<double>(k.weight_depth()),
               depth = static_cast<double>(k.forward_depth());
    const double rounding = test::rounding_of(dtype) * (depth + 4);
    c.check(mean, {.rtol = 1e-5, .atol = rounding});
    c.check(m2, {.rtol = 1e-5, .atol = values * rounding * (depth + 2)});
  });
}

TEST_CASE("a bias and ReLU added to a finished convolution") {
  kit::for_each_case("add_channels", 48, [](KernelCase& c) {
    const DType dtype = draw_dtype(c);
    const Shape shape{c.integer(0, 3), c.integer(1, 20), c.integer(1, 6), c.integer(1, 40)};
    const Operand out = c.inout(shape, dtype, {.layout = draw_layout(c), .special = 0.1});
    const Operand bias = c.coin() ? c.input({shape[1]}, dtype, drawn(Layout::any)) : Operand();
    const Activation activation = c.pick({Activation::none, Activation::relu});
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::add_channels(stream, at(out), at(bias), activation);
    });
    c.check(out);
  });
}
