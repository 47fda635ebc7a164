#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/conv.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using ferrite::test::check_close;
using ferrite::test::check_equal;
using ferrite::test::rounding_of;

namespace {

Tensor values(const Shape& shape, DType dtype, std::uint64_t seed) {
  Generator generator(seed);
  std::vector<double> v(static_cast<std::size_t>(shape.numel()));
  for (double& x : v) x = 2 * generator.next_double() - 1;
  return from_vector(v, shape).to(dtype);
}

struct Leaves {
  Tensor x, w, b;
  Leaves(const Tensor& input, const Tensor& weight, const Tensor& bias)
      : x(input.detach()), w(weight.detach()), b(bias.defined() ? bias.detach() : Tensor()) {
    for (const Tensor& t : {x, w, b})
      if (t.defined()) t.set_requires_grad();
  }
};

using Op = std::function<Tensor(const Leaves&)>;

/// A fused op and its gradients are those of the ops one by one.
void check_alike(const Op& op, const Op& ops, const Tensor& x, const Tensor& w, const Tensor& b) {
  const double rtol = rounding_of(x.dtype());
  const double atol = x.dtype() == kFloat64 ? 1e-13 : 1e-5;
  const Leaves one(x, w, b), two(x, w, b);
  const Tensor fused = op(one), expected = ops(two);
  CHECK(fused.suggest_memory_format() == expected.suggest_memory_format());
  check_close(fused, expected, rtol, atol);
  const Tensor grad = values(fused.shape(), x.dtype(), 9);
  fused.backward(grad);
  expected.backward(grad);
  check_close(one.x.grad(), two.x.grad(), rtol, atol);
  check_close(one.w.grad(), two.w.grad(), rtol, atol);
  if (b.defined()) check_close(one.b.grad(), two.b.grad(), rtol, atol);
}

void check_against_ops(const Tensor& x, const Tensor& w, const Tensor& b,
                       const Conv2dFuncOptions& o) {
  check_alike([&](const Leaves& t) { return conv2d_relu(t.x, t.w, t.b, o); },
              [&](const Leaves& t) { return relu(conv2d(t.x, t.w, t.b, o)); }, x, w, b);
}

}  // namespace

TEST_CASE("conv2d_relu is relu of conv2d, gradients too") {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16})
    for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
      CAPTURE(name(dtype));
      const Tensor x = values({2, 6, 9, 8}, dtype, 1).to(format);
      const Tensor w = values({8, 6, 3, 3}, dtype, 2).to(format);
      const Tensor b = values({8}, dtype, 3);
      check_against_ops(x, w, b, {.stride = 2, .padding = 1});
      check_against_ops(x, w, {}, {.padding = Padding::same});
      check_against_ops(x, values({6, 1, 3, 3}, dtype, 4), values({6}, dtype, 5), {.groups = 6});
      check_against_ops(x[0], w, b, {.dilation = 2});
    }
}

TEST_CASE("conv2d_relu_max_pool is max_pool2d of conv2d_relu, gradients too") {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16})
    for (const MemoryFormat format : {kContiguous, kChannelsLast})
      for (const MaxPool2dOptions& pool :
           {MaxPool2dOptions{.kernel_size = 2},
            MaxPool2dOptions{.kernel_size = 3, .stride = 2, .padding = 1},
            MaxPool2dOptions{.kernel_size = 2, .stride = 1, .dilation = 2}}) {
        CAPTURE(name(dtype));
        const Conv2dFuncOptions o{.padding = 1};
        check_alike(
            [&](const Leaves& t) { return conv2d_relu_max_pool(t.x, t.w, t.b, o, pool); },
            [&](const Leaves& t) { return max_pool2d(conv2d_relu(t.x, t.w, t.b, o), pool); },
            values({2, 6, 9, 8}, dtype, 1).to(format), values({8, 6, 3, 3}, dtype, 2).to(format),
            values({8}, dtype, 3));
      }
  const std::vector<Tensor> in{values({2, 2, 6, 6}, kFloat64, 1).set_requires_grad(),
                               values({3, 2, 3, 3}, kFloat64, 2).set_requires_grad(),
                               values({3}, kFloat64, 3).set_requires_grad()};
  CHECK(autograd::gradcheck(
      [](const std::vector<Tensor>& t) {
        return conv2d_relu_max_pool(t[0], t[1], t[2], {}, {.kernel_size = 2});
      },
      in, {.second_order = true}));
  CHECK_THROWS_WITH_AS(conv2d_relu_max_pool(in[0][0], in[1], {}, {}, {.kernel_size = 2}),
                       doctest::Contains("expected an input [N, C, H, W]"), ShapeError);
  const MaxPool2dOptions huge{.kernel_size = 65536, .ceil_mode = true};
  CHECK_THROWS_WITH_AS(conv2d_relu_max_pool(in[0], in[1], {}, {}, huge),
                       doctest::Contains("more than 2^31 cells"), ShapeError);
}

TEST_CASE("conv2d_relu: gradcheck, of the gradient as well") {
  const std::vector<Tensor> in{values({2, 4, 5, 6}, kFloat64, 1).set_requires_grad(),
                               values({3, 4, 3, 2}, kFloat64, 2).set_requires_grad(),
                               values({3}, kFloat64, 3).set_requires_grad()};
  const auto op = [](const std::vector<Tensor>& t) {
    return conv2d_relu(t[0], t[1], t[2], {.stride = {2, 1}, .padding = 1});
  };
  CHECK(autograd::gradcheck(op, in, {.second_order = true}));
}

TEST_CASE("conv2d_relu: NaN stays, an empty batch too") {
  Tensor x = values({1, 2, 5, 5}, kFloat32, 1);
  x[0][0][0][0].fill_(std::numeric_limits<double>::quiet_NaN());
  const Tensor out = conv2d_relu(x, values({32, 2, 3, 3}, kFloat32, 2));
  const auto v = out.to_vector<double>();
  CHECK(std::isnan(v[0]));
  CHECK(v[1] >= 0);
  CHECK(conv2d_relu(empty({0, 3, 8, 8}), empty({4, 3, 3, 3})).shape() == Shape{0, 4, 6, 6});
}
