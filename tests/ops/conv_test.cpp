#include "ferrite/ops/conv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/core/stream.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using ferrite::test::check_close;
using ferrite::test::check_equal;
using ferrite::test::message_of;
using ferrite::test::rounding_of;

namespace {

Tensor values(const Shape& shape, DType dtype = kFloat32, std::uint64_t seed = 1) {
  Generator generator(seed);
  std::vector<double> v(static_cast<std::size_t>(shape.numel()));
  for (double& x : v) x = 2 * generator.next_double() - 1;
  return from_vector(v, shape).to(dtype);
}

struct Case {
  std::int64_t n, c, h, w, o, kh, kw;
  Pair stride = 1;
  Pair padding = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;

  Conv2dFuncOptions options() const {
    return {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups};
  }
  std::int64_t out_h() const {
    return (h + 2 * padding.h - dilation.h * (kh - 1) - 1) / stride.h + 1;
  }
  std::int64_t out_w() const {
    return (w + 2 * padding.w - dilation.w * (kw - 1) - 1) / stride.w + 1;
  }
  Shape input() const { return {n, c, h, w}; }
  Shape weight() const { return {o, c / groups, kh, kw}; }
  Shape output() const { return {n, o, out_h(), out_w()}; }
};

/// Calls body(input index, weight index, output index) for every product of a convolution, indices
/// counting elements in row-major order.
template <class Body>
void for_each_product(const Case& k, Body body) {
  const std::int64_t ins = k.c / k.groups, outs = k.o / k.groups, oh = k.out_h(), ow = k.out_w();
  for (std::int64_t n = 0; n < k.n; ++n)
    for (std::int64_t o = 0; o < k.o; ++o)
      for (std::int64_t y = 0; y < oh; ++y)
        for (std::int64_t x = 0; x < ow; ++x)
          for (std::int64_t c = 0; c < ins; ++c)
            for (std::int64_t i = 0; i < k.kh; ++i)
              for (std::int64_t j = 0; j < k.kw; ++j) {
                const std::int64_t iy = y * k.stride.h - k.padding.h + i * k.dilation.h;
                const std::int64_t ix = x * k.stride.w - k.padding.w + j * k.dilation.w;
                if (iy < 0 || iy >= k.h || ix < 0 || ix >= k.w) continue;
                const std::int64_t channel = o / outs * ins + c;
                body(static_cast<std::size_t>(((n * k.c + channel) * k.h + iy) * k.w + ix),
                     static_cast<std::size_t>(((o * ins + c) * k.kh + i) * k.kw + j),
                     static_cast<std::size_t>(((n * k.o + o) * oh + y) * ow + x));
              }
}

struct Reference {
  std::vector<double> out, grad_input, grad_weight, grad_bias;

  Reference(const Case& k, const Tensor& input, const Tensor& weight, const Tensor& bias,
            const Tensor& grad)
      : out(static_cast<std::size_t>(k.output().numel())),
        grad_input(static_cast<std::size_t>(k.input().numel())),
        grad_weight(static_cast<std::size_t>(k.weight().numel())),
        grad_bias(static_cast<std::size_t>(k.o)) {
    const auto x = input.to_vector<double>(), w = weight.to_vector<double>(),
               b = bias.to_vector<double>(), g = grad.to_vector<double>();
    const std::size_t plane = static_cast<std::size_t>(k.out_h() * k.out_w());
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = b[i / plane % b.size()];
      grad_bias[i / plane % b.size()] += g[i];
    }
    for_each_product(k, [&](std::size_t ix, std::size_t iw, std::size_t io) {
      out[io] += x[ix] * w[iw];
      grad_input[ix] += g[io] * w[iw];
      grad_weight[iw] += g[io] * x[ix];
    });
  }
};

/// Small, and every path: kernels larger than the image, channels that fill vectors and that do
/// not, strides above the kernel, dilation with stride, groups, depthwise.
const Case kCases[] = {
    {2, 3, 7, 9, 4, 3, 3},
    {1, 1, 5, 5, 1, 1, 1},
    {9, 1, 12, 12, 6, 5, 5, 1, 2},
    {3, 6, 14, 14, 16, 5, 5},
    {2, 20, 13, 13, 50, 5, 5},
    {2, 1, 28, 28, 20, 3, 3},
    {2, 16, 8, 8, 32, 3, 3, 1, 1},
    {2, 32, 9, 7, 64, 3, 3, 2, 1},
    {2, 64, 6, 6, 16, 1, 1, 2},
    {2, 17, 6, 5, 33, 1, 1},
    {1, 3, 9, 11, 5, 2, 4, {2, 3}, {1, 2}},
    {2, 3, 12, 11, 5, 3, 2, {2, 3}, {2, 1}, {3, 2}},
    {2, 4, 9, 9, 6, 3, 3, 2, 2, 2},
    {2, 2, 4, 4, 3, 4, 4, 1, 3},
    {2, 2, 3, 3, 3, 2, 2, 4, 0},
    {2, 4, 7, 7, 6, 3, 3, 1, 1, 1, 2},
    {3, 6, 7, 7, 6, 3, 3, 1, 1, 1, 6},
    {2, 5, 7, 7, 10, 3, 3, 2, 1, 1, 5},
    {2, 32, 7, 7, 32, 3, 3, 1, 1, 1, 2},
    {1, 8, 40, 3, 8, 3, 3, 1, 1},
    {11, 3, 6, 6, 130, 3, 3, 1, 1},
};

struct Threads {
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(before); }
  int before = num_threads();
};

/// The same values at every other place of a larger tensor.
Tensor spread(const Tensor& t) {
  Shape shape = t.shape();
  for (std::int64_t& s : shape) s *= 2;
  Tensor view = empty(shape, {.dtype = t.dtype()});
  for (int d = 0; d < t.dim(); ++d) view = view.slice(d, 0, INT64_MAX, 2);
  view.copy_(t);
  return view;
}

void check_case(const Case& k, DType dtype, const std::function<Tensor(const Tensor&)>& lay) {
  INFO("n ", k.n, " c ", k.c, " h ", k.h, " w ", k.w, " o ", k.o, " k ", k.kh, "x", k.kw,
       " stride ", k.stride.h, ",", k.stride.w, " padding ", k.padding.h, ",", k.padding.w,
       " dilation ", k.dilation.h, ",", k.dilation.w, " groups ", k.groups, " ",
       ferrite::name(dtype));
  const Tensor x = lay(values(k.input(), dtype)), w = lay(values(k.weight(), dtype, 2)),
               b = values({k.o}, dtype, 3), g = lay(values(k.output(), dtype, 4));
  const Reference expected(k, x, w, b, g);
  for (const Tensor& t : {x, w, b}) t.set_requires_grad();
  const Tensor out = conv2d(x, w, b, k.options());
  out.backward(g);
  // Rounding of the longest sum of products of size up to 1.
  const std::int64_t depth = std::max(
      {k.c / k.groups * k.kh * k.kw, k.o / k.groups * k.kh * k.kw, k.n * k.out_h() * k.out_w()});
  const double rtol = rounding_of(dtype),
               atol = (dtype == kFloat64 ? 1e-16 : 2e-8) * static_cast<double>(depth + 200);
  CHECK(out.dtype() == dtype);
  REQUIRE(out.shape() == k.output());
  check_close(out, expected.out, rtol, atol);
  check_close(x.grad(), expected.grad_input, rtol, atol);
  check_close(w.grad(), expected.grad_weight, rtol, atol);
  check_close(b.grad(), expected.grad_bias, rtol, atol);
}

}  // namespace

TEST_CASE("conv2d: values and gradients against naive loops, for every layout") {
  for (const Case& k : kCases) {
    check_case(k, kFloat32, [](const Tensor& t) { return t; });
    check_case(k, kFloat32, [](const Tensor& t) { return t.to(kChannelsLast); });
    check_case(k, kFloat32, spread);
  }
}

TEST_CASE("conv2d: every dtype") {
  for (const Case& k : kCases)
    for (const DType dtype : {kFloat64, kFloat16, kBFloat16}) {
      check_case(k, dtype, [](const Tensor& t) { return t; });
      check_case(k, dtype, [](const Tensor& t) { return t.to(kChannelsLast); });
    }
}

TEST_CASE("conv2d: strides, dilations and paddings far beyond the image") {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  constexpr Pair all = kMost, half = kMost / 2;
  const Case cases[] = {
      {1, 4, 5, 5, 4, 1, 1, kMost - 1, half},
      {1, 4, 5, 5, 2, 2, 2, all, half, kMost - 1},
      {1, 4, 5, 5, 2, 2, 2, all, half, kMost - 1, 2},
      {1, 4, 5, 5, 4, 2, 2, all, half, kMost - 1, 4},
      {2, 4, 5, 5, 6, 1, 1, kMost / 2 + 2, half},     // results 1 meet pixels 2
      {2, 4, 5, 6, 6, 3, 3, 1, half, kMost / 2 + 1},  // taps 1 meet pixels from 1 on
      {2, 4, 5, 6, 6, 3, 3, 1, half, kMost / 2 + 1, 2},
      {2, 4, 5, 6, 4, 3, 3, 1, half, kMost / 2 + 1, 4},
      {2, 4, 5, 6, 6, 2, 3, {1, 2}, {1, kMost / 2}, {1, kMost / 2 + 1}},
      {2, 16, 5, 5, 2, 1, 1, 60000, 60000},
      {2, 3, 5, 5, 4, 3, 3, 2, 300, 299},
  };
  for (const Case& k : cases)
    for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      check_case(k, dtype, [](const Tensor& t) { return t; });
      check_case(k, dtype, [](const Tensor& t) { return t.to(kChannelsLast); });
    }
}

TEST_CASE("conv1d, conv3d and their transposes: dilations and paddings far beyond the input") {
  constexpr std::int64_t kHalf = std::int64_t{1} << 30;
  // Of each kernel only the tap in the middle meets the input, from its second element on.
  const Tensor line = values({2, 4, 5}), w1 = values({6, 2, 3}, kFloat32, 2);
  const Conv1dFuncOptions o1{.padding = kHalf, .dilation = kHalf + 1, .groups = 2};
  check_close(conv1d(line, w1, {}, o1),
              conv1d(line.narrow(2, 1, 3), w1.narrow(2, 1, 1), {}, {.groups = 2}), 1e-6, 1e-6);
  const Tensor volume = values({2, 2, 5, 5, 5}, kFloat64), w3 = values({3, 2, 3, 3, 3}, kFloat64);
  const Tensor middle = w3.narrow(2, 1, 1).narrow(3, 1, 1).narrow(4, 1, 1);
  const Conv3dFuncOptions o3{.padding = kHalf, .dilation = kHalf + 1};
  const Tensor out = conv3d(volume, w3, {}, o3);
  check_close(out, conv3d(volume.narrow(2, 1, 3).narrow(3, 1, 3).narrow(4, 1, 3), middle), 1e-12,
              1e-12);
  const ConvTranspose3dFuncOptions t3{.padding = kHalf, .dilation = kHalf + 1};
  const Tensor bias = values({2}, kFloat64, 3);
  const Tensor back = conv_transpose3d(out, w3, bias, t3);
  REQUIRE(back.shape() == volume.shape());
  const Tensor inner = conv_transpose3d(out, middle, bias);
  check_close(back.narrow(2, 1, 3).narrow(3, 1, 3).narrow(4, 1, 3), inner, 1e-12, 1e-12);
  check_close(sum(back - bias.reshape({1, 2, 1, 1, 1})), sum(inner - bias.reshape({1, 2, 1, 1, 1})),
              1e-12, 1e-10);
  using Inputs = std::vector<Tensor>;
  const auto leaf = [](const Shape& shape) { return values(shape, kFloat64).set_requires_grad(); };
  CHECK(autograd::gradcheck(
      [](const Inputs& t) {
        return conv3d(t[0], t[1], t[2], {.padding = {kHalf, 0, 0}, .dilation = {kHalf + 1, 1, 1}});
      },
      {leaf({1, 1, 5, 2, 2}), leaf({1, 1, 3, 1, 1}), leaf({1})}));
  CHECK(autograd::gradcheck(
      [](const Inputs& t) {
        return conv_transpose3d(t[0], t[1], t[2],
                                {.padding = {kHalf, 0, 0}, .dilation = {kHalf + 1, 1, 1}});
      },
      {leaf({1, 1, 3, 2, 2}), leaf({1, 1, 3, 1, 1}), leaf({1})}));
}

TEST_CASE("conv2d: weights beyond a cache, images in groups, gradients in parts") {
  const Case cases[] = {{9, 96, 5, 5, 160, 3, 3, 1, 1},
                        {3, 300, 4, 4, 130, 3, 3, 1, 1},
                        {33, 4, 6, 6, 5, 3, 3, 1, 1},
                        {2, 1100, 2, 2, 40, 1, 1}};
  for (const Case& k : cases) {
    check_case(k, kFloat32, [](const Tensor& t) { return t; });
    check_case(k, kFloat32, [](const Tensor& t) { return t.to(kChannelsLast); });
  }
}

TEST_CASE("conv2d: without a bias, without a batch, one operand of another layout") {
  const Case k{2, 3, 7, 9, 4, 3, 3, 1, 1};
  const Tensor x = values(k.input()), w = values(k.weight(), kFloat32, 2);
  const Reference expected(k, x, w, from_vector(std::vector<float>(4), {4}), values(k.output()));
  check_close(conv2d(x, w, {}, k.options()), expected.out, 1e-5, 1e-5);
  check_close(conv2d(x[1], w, {}, k.options()), conv2d(x, w, {}, k.options())[1], 1e-5, 1e-5);

  const Tensor xl = x.to(kChannelsLast), wl = w.to(kChannelsLast);
  for (const auto& [a, b] : {std::pair{x, wl}, {xl, w}, {xl, wl}}) {
    const Tensor out = conv2d(a, b, {}, k.options());
    CHECK(out.suggest_memory_format() == kChannelsLast);
    check_close(out, expected.out, 1e-5, 1e-5);
  }
  CHECK(conv2d(x, w, {}, k.options()).suggest_memory_format() == kContiguous);
  const Tensor gray = x.slice(1, 0, 1), of_gray = w.slice(1, 0, 1).contiguous();
  CHECK(conv2d(gray, of_gray, {}, k.options()).suggest_memory_format() == kContiguous);
  CHECK(conv2d(gray, of_gray.to(kChannelsLast), {}, k.options()).suggest_memory_format() ==
        kChannelsLast);

  const Tensor leaf = xl.detach().set_requires_grad(), weight = w.detach().set_requires_grad();
  conv2d(leaf, weight, {}, k.options()).backward(values(k.output()));
  CHECK(leaf.grad().suggest_memory_format() == kChannelsLast);
  CHECK(weight.grad().suggest_memory_format() == kContiguous);
}

TEST_CASE("conv2d and conv_transpose2d: arguments in PyTorch's order") {
  const Tensor x = values({2, 4, 9, 9}), w = values({6, 2, 3, 3}, kFloat32, 2), b = values({6});
  check_equal(conv2d(x, w, b, 2, {1, 2}, {2, 1}, 2),
              conv2d(x, w, b, {.stride = 2, .padding = {1, 2}, .dilation = {2, 1}, .groups = 2}));
  check_equal(conv2d(x, values({6, 4, 3, 3}), {}, 1, Padding::same),
              conv2d(x, values({6, 4, 3, 3}), {}, {.padding = Padding::same}));
  check_equal(conv_transpose2d(x, values({4, 3, 3, 3}), b, 2, 1, 1, 2),
              conv_transpose2d(x, values({4, 3, 3, 3}), b,
                               {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}));
}

TEST_CASE("conv2d: Padding::same keeps the size") {
  const Tensor x = values({1, 2, 9, 8}, kFloat64), w = values({3, 2, 4, 3}, kFloat64, 2);
  const Tensor out = conv2d(x, w, {}, {.padding = Padding::same, .dilation = {1, 2}});
  REQUIRE(out.shape() == Shape{1, 3, 9, 8});
  // The kernel is 4 high: one row of zeros above, two below.
  const Tensor wide = conv2d(x, w, {}, {.padding = {2, 2}, .dilation = {1, 2}});
  check_close(out, wide.narrow(2, 1, 9), 1e-12, 1e-14);
}

TEST_CASE("conv2d: empty batches and empty channels") {
  const Tensor w = values({4, 3, 3, 3}).set_requires_grad(), b = values({4}).set_requires_grad();
  const Tensor x = empty({0, 3, 8, 8}).set_requires_grad();
  const Tensor out = conv2d(x, w, b);
  CHECK(out.shape() == Shape{0, 4, 6, 6});
  out.backward(empty({0, 4, 6, 6}));
  CHECK(x.grad().shape() == x.shape());
  check_close(w.grad(), std::vector<double>(108, 0.0));
  check_close(b.grad(), std::vector<double>(4, 0.0));
  const Tensor none = conv2d(empty({2, 0, 4, 4}), empty({3, 0, 2, 2}), values({3}));
  check_close(none.select(3, 0).select(2, 0)[0], values({3}));
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16})
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
      const Tensor each = values({4, 1, 3, 3}, dtype).set_requires_grad();
      const Conv2dFuncOptions depthwise{.padding = 2, .groups = 4};
      for (const Shape& shape : {Shape{0, 4, 8, 8}, Shape{2, 4, 8, 0}}) {
        const Tensor image = zeros(shape, dtype).to(format).set_requires_grad();
        const Tensor result = conv2d(image, each, {}, depthwise);
        check_equal(result.detach(), zeros_like(result));
        each.set_grad({});
        result.backward(zeros_like(result));
        check_close(each.grad(), std::vector<double>(36, 0.0), 0);
        CHECK(image.grad().shape() == shape);
      }
    }
}

TEST_CASE("conv2d: computes no gradient that nobody needs") {
  const Case k{2, 3, 7, 9, 4, 3, 3, 1, 1};
  const Tensor x = values(k.input()), w = values(k.weight(), kFloat32, 2),
               b = values({4}, kFloat32, 3), g = values(k.output(), kFloat32, 4);
  const Reference expected(k, x, w, b, g);
  for (int needs = 1; needs < 8; ++needs) {
    const Tensor leaves[] = {x.clone(), w.clone(), b.clone()};
    for (int i = 0; i < 3; ++i) leaves[i].set_requires_grad((needs >> i) & 1);
    conv2d(leaves[0], leaves[1], leaves[2], k.options()).backward(g);
    for (int i = 0; i < 3; ++i) CHECK(leaves[i].grad().defined() == (((needs >> i) & 1) != 0));
    if (needs & 1) check_close(leaves[0].grad(), expected.grad_input, 1e-5, 1e-5);
    if (needs & 2) check_close(leaves[1].grad(), expected.grad_weight, 1e-5, 1e-5);
    if (needs & 4) check_close(leaves[2].grad(), expected.grad_bias, 1e-5, 1e-5);
  }
}

TEST_CASE("conv2d: a gradient that was broadcast") {
  const Tensor x = values({2, 3, 5, 5}).set_requires_grad();
  const Tensor w = values({4, 3, 3, 3}, kFloat32, 2).set_requires_grad();
  sum(conv2d(x, w)).backward();
  const Case k{2, 3, 5, 5, 4, 3, 3};
  const Reference expected(k, x.detach(), w.detach(), values({4}),
                           from_vector(std::vector<float>(72, 1), {2, 4, 3, 3}));
  check_close(x.grad(), expected.grad_input, 1e-5, 1e-5);
  check_close(w.grad(), expected.grad_weight, 1e-5, 1e-5);
}

TEST_CASE("conv2d: the same bits for every number of threads") {
  for (const Case& k : {Case{37, 6, 14, 14, 16, 5, 5}, Case{2, 40, 20, 20, 70, 3, 3, 1, 1}}) {
    std::vector<Tensor> first;
    for (const int threads : {1, 2, 4}) {
      Threads use_threads(threads);
      const Tensor x = values(k.input()).set_requires_grad();
      const Tensor w = values(k.weight(), kFloat32, 2).set_requires_grad();
      const Tensor b = values({k.o}, kFloat32, 3).set_requires_grad();
      const Tensor out = conv2d(x, w, b, k.options());
      out.backward(values(k.output(), kFloat32, 4));
      const std::vector<Tensor> all{out.detach(), x.grad(), w.grad(), b.grad()};
      if (first.empty()) first = all;
      for (std::size_t i = 0; i < all.size(); ++i) check_equal(all[i], first[i]);
    }
  }
}

TEST_CASE("conv2d: an infinite weight does to an image the same wherever it lies in its batch") {
  // Small images and many weights: some taps of the padding are left out, none for some images
  // only.
  Tensor weight = values({210, 150, 3, 3});
  weight.data<float>()[0] = std::numeric_limits<float>::infinity();
  const Tensor image = values({1, 150, 2, 2}, kFloat32, 2);
  for (const std::int64_t images : {9, 65}) {
    const Tensor x = image.expand({images, 150, 2, 2}).contiguous();
    const Tensor out = conv2d(x, weight, {}, {.stride = 2, .padding = 1});
    for (const std::int64_t i : {images - 2, images - 1}) check_equal(out[i], out[0]);
  }
}

TEST_CASE("conv2d: on a virtual device") {
  const Tensor x = values({2, 3, 8, 8}), w = values({4, 3, 3, 3}, kFloat32, 2);
  const Tensor out = conv2d(x.to("cpu:1"), w.to("cpu:1"));
  CHECK(out.device() == Device("cpu:1"));
  check_equal(out.cpu(), conv2d(x, w));
}

TEST_CASE("conv1d") {
  const Tensor x = values({2, 4, 11}), w = values({6, 2, 3}, kFloat32, 2), b = values({6});
  const Tensor out = conv1d(x, w, b, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2});
  REQUIRE(out.shape() == Shape{2, 6, 5});
  const Tensor same =
      conv2d(x.unsqueeze(2), w.unsqueeze(2), b,
             {.stride = {1, 2}, .padding = {0, 1}, .dilation = {1, 2}, .groups = 2});
  check_close(out, same.squeeze(2), 1e-6, 1e-6);
  CHECK(conv1d(x[0], w, b, {.groups = 2}).shape() == Shape{6, 9});
}

TEST_CASE("the gradient of a bias stays exact over a long sequence") {
  constexpr std::int64_t kSteps = 1000000;
  const double exact = static_cast<double>(0.1F) * kSteps;
  const Tensor x = zeros({1, 1, kSteps}), w = zeros({2, 1, 1}), wt = zeros({1, 2, 1});
  const auto check = [&](const Tensor& b, const Tensor& out, MemoryFormat format) {
    out.backward(full(out.shape(), 0.1).contiguous(format));
    check_close(b.grad(), std::vector<double>(2, exact), 1e-6, 0);
  };
  const Tensor b = zeros({2}), bt = zeros({2}), b2 = zeros({2});
  for (const Tensor& t : {b, bt, b2}) t.set_requires_grad();
  check(b, conv1d(x, w, b), kContiguous);
  check(bt, conv_transpose1d(x, wt, bt), kContiguous);
  check(b2, conv2d(x.unsqueeze(2), w.unsqueeze(2), b2), kChannelsLast);
  // With that of the weight.
  for (const MemoryFormat format : {kContiguous, kChannelsLast})
    for (const std::int64_t groups : {1, 2}) {
      const Tensor weight = zeros({2, 2 / groups, 1, 1}).set_requires_grad();
      const Tensor bias = zeros({2}).set_requires_grad();
      const Tensor input = zeros({1, 2, 1, kSteps}).contiguous(format);
      check(bias, conv2d(input, weight, bias, {.groups = groups}), format);
    }
}

TEST_CASE("the gradient of a bias beside a weight without elements") {
  const Tensor w = zeros({3, 0, 1, 1}).set_requires_grad(), b = zeros({3}).set_requires_grad();
  const Tensor out = conv2d(zeros({2, 0, 4, 5}), w, b);
  out.backward(ones_like(out));
  check_close(b.grad(), std::vector<double>(3, 40), 0, 0);
}

TEST_CASE("conv_transpose2d is the gradient of conv2d by its input") {
  for (const Case& k : kCases)
    for (const bool last : {false, true}) {
      const auto lay = [&](const Tensor& t) { return last ? t.to(kChannelsLast) : t; };
      const Tensor g = lay(values(k.output(), kFloat32, 4)),
                   w = lay(values(k.weight(), kFloat32, 2)), b = values({k.c}, kFloat32, 5);
      const Reference expected(k, values(k.input()), w, values({k.o}), g);
      // What the stride leaves over at the end.
      const auto rest = [](std::int64_t size, std::int64_t out, std::int64_t stride,
                           std::int64_t padding, std::int64_t dilation, std::int64_t kernel) {
        return size - ((out - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1);
      };
      const Tensor out = conv_transpose2d(
          g, w, b,
          {.stride = k.stride,
           .padding = k.padding,
           .output_padding = {rest(k.h, k.out_h(), k.stride.h, k.padding.h, k.dilation.h, k.kh),
                              rest(k.w, k.out_w(), k.stride.w, k.padding.w, k.dilation.w, k.kw)},
           .groups = k.groups,
           .dilation = k.dilation});
      REQUIRE(out.shape() == k.input());
      std::vector<double> sum = expected.grad_input;
      const std::vector<double> bias = b.to_vector<double>();
      for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] += bias[i / static_cast<std::size_t>(k.h * k.w) % bias.size()];
      check_close(out, sum, 1e-5, 2e-5);
    }
  CHECK(conv_transpose2d(values({3, 4, 4}), values({3, 2, 2, 2}), {}, {.stride = 2}).shape() ==
        Shape{2, 8, 8});
}

TEST_CASE("gradients by weights of large images round as sums in parts") {
  for (const auto& [height, width] : {std::pair{1, 600'000}, {800, 800}})
    for (const int groups : {1, 4})
      for (const int stride : {1, 2})
        for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
          INFO(height, " ", groups, " ", stride);
          manual_seed(3);
          const Tensor x = rand({1, 4, height, width}), w = rand({4, 4 / groups, 1, 3});
          const auto gradient = [&](DType dtype) {
            const Tensor leaf = w.clone().to(dtype).set_requires_grad();
            const Tensor y =
                conv2d(x.to(dtype).to(format), leaf, {}, {.stride = stride, .groups = groups});
            manual_seed(4);
            y.backward(rand(y.shape()).to(dtype).to(format));
            return leaf.grad().to(kFloat64);
          };
          const Tensor expected = gradient(kFloat64);
          CHECK(max(abs(gradient(kFloat32) / expected - 1)).item<double>() < 5e-6);
        }
}

TEST_CASE("gradients, twice") {
  const auto leaf = [](const Shape& shape, std::uint64_t seed) {
    return values(shape, kFloat64, seed).set_requires_grad();
  };
  using Inputs = std::vector<Tensor>;
  const autograd::GradcheckOptions twice{.second_order = true};
  const auto conv = [](const Conv2dFuncOptions& o) {
    return [o](const Inputs& t) { return conv2d(t[0], t[1], t[2], o); };
  };
  CHECK(autograd::gradcheck(conv({}), {leaf({2, 2, 4, 4}, 1), leaf({3, 2, 3, 3}, 2), leaf({3}, 3)},
                            twice));
  CHECK(autograd::gradcheck(conv({.stride = 2, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2}),
                            {leaf({2, 4, 5, 6}, 1), leaf({4, 2, 3, 2}, 2), leaf({4}, 3)}, twice));
  CHECK(autograd::gradcheck(conv({.padding = Padding::same}),
                            {leaf({1, 1, 3, 4}, 1), leaf({2, 1, 2, 2}, 2), leaf({2}, 3)}, twice));
  CHECK(autograd::gradcheck(
      [](const Inputs& t) {
        return conv_transpose2d(t[0], t[1], t[2],
                                {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2});
      },
      {leaf({1, 4, 3, 3}, 1), leaf({4, 1, 3, 3}, 2), leaf({2}, 3)}, twice));
  CHECK(autograd::gradcheck([](const Inputs& t) { return conv1d(t[0], t[1]); },
                            {leaf({2, 2, 5}, 1), leaf({3, 2, 3}, 2)}, twice));
}

TEST_CASE("errors") {
  const Tensor x = values({2, 3, 8, 8}), w = values({6, 4, 3, 3});
  CHECK(message_of<ShapeError>([&] { conv2d(x, w); }) ==
        "[conv2d] input has 3 channels, weight expects 4");
  const Tensor fits = values({6, 3, 3, 3});
  CHECK_THROWS_AS(conv2d(values({3, 8}), fits), ShapeError);
  CHECK_THROWS_AS(conv2d(x, values({6, 3, 3})), ShapeError);
  CHECK_THROWS_AS(conv2d(x, values({6, 3, 0, 3})), ShapeError);
  CHECK_THROWS_AS(conv2d(x, values({6, 3, 9, 9})), ShapeError);
  CHECK_THROWS_AS(conv2d(x, fits, {}, {.dilation = 4}), ShapeError);
  CHECK_THROWS_AS(conv2d(x, fits, values({5})), ShapeError);
  CHECK_THROWS_AS(conv2d(x, fits, values({6, 1})), ShapeError);
  CHECK_THROWS_AS(conv2d(x, values({4, 1, 3, 3}), {}, {.groups = 3}), ShapeError);
  CHECK_THROWS_AS(conv2d(x, fits, {}, {.stride = 0}), ValueError);
  CHECK_THROWS_AS(conv2d(x, fits, {}, {.dilation = {1, 0}}), ValueError);
  CHECK_THROWS_AS(conv2d(x, fits, {}, {.padding = -1}), ValueError);
  for (const std::int64_t vast : {std::int64_t{1} << 32, std::int64_t{INT64_MAX}}) {
    CHECK_THROWS_AS(conv2d(x, fits, {}, {.stride = vast}), ValueError);
    CHECK_THROWS_AS(conv2d(x, fits, {}, {.padding = vast}), ValueError);
    CHECK_THROWS_AS(conv2d(x, fits, {}, {.dilation = vast}), ValueError);
    CHECK_THROWS_AS(conv_transpose2d(x, values({3, 6, 3, 3}), {}, {.stride = vast}), ValueError);
  }
  CHECK_THROWS_AS(conv2d(x, fits, {}, {.groups = 0}), ValueError);
  CHECK_THROWS_AS(conv2d(x, fits, {}, {.stride = 2, .padding = Padding::same}), ValueError);
  CHECK_THROWS_AS(conv2d(x, fits.to(kFloat64)), DTypeError);
  CHECK_THROWS_AS(conv2d(x, fits, values({6}, kFloat64)), DTypeError);
  CHECK_THROWS_AS(conv2d(x.to(kInt32), fits.to(kInt32)), DTypeError);
  CHECK_THROWS_AS(conv2d(x, fits.to("cpu:1")), DeviceError);
  CHECK_THROWS_AS(conv2d(Tensor(), fits), ValueError);
  CHECK_THROWS_AS(conv2d(x, Tensor()), ValueError);
  CHECK_THROWS_AS(conv1d(x, fits), ShapeError);
  CHECK_THROWS_AS(conv1d(Tensor(), fits), ValueError);
  CHECK_THROWS_AS(conv_transpose2d(x, fits), ShapeError);
  CHECK_THROWS_AS(conv_transpose2d(x, values({3, 6, 3, 3}), {}, {.output_padding = 1}), ValueError);
  CHECK_THROWS_AS(conv_transpose2d(x, values({3, 6, 1, 1}), {}, {.padding = 4}), ShapeError);
}
