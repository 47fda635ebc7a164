#include <doctest/doctest.h>

#include <cmath>
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

/// conv2d_relu and its gradients are those of the two ops.
void check_against_ops(const Tensor& x, const Tensor& w, const Tensor& b,
                       const Conv2dFuncOptions& o) {
  const double rtol = rounding_of(x.dtype());
  const double atol = x.dtype() == kFloat64 ? 1e-13 : 1e-5;
  const Leaves one(x, w, b), two(x, w, b);
  const Tensor fused = conv2d_relu(one.x, one.w, one.b, o);
  const Tensor expected = relu(conv2d(two.x, two.w, two.b, o));
  CHECK(fused.suggest_memory_format() == expected.suggest_memory_format());
  check_close(fused, expected, rtol, atol);
  const Tensor grad = values(fused.shape(), x.dtype(), 9);
  fused.backward(grad);
  expected.backward(grad);
  check_close(one.x.grad(), two.x.grad(), rtol, atol);
  check_close(one.w.grad(), two.w.grad(), rtol, atol);
  if (b.defined()) check_close(one.b.grad(), two.b.grad(), rtol, atol);
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
