#include "ferrite/ops/autocast.h"

#include <doctest/doctest.h>

#include <functional>
#include <thread>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/allocator.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/join.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

namespace {

Tensor random(const Shape& shape, DType dtype = kFloat32, std::uint64_t seed = 1) {
  Generator generator(seed);
  return (randn(shape, {}, &generator) * 0.5).to(dtype);
}
Tensor positive(const Shape& shape, DType dtype = kFloat32) {
  return no_grad([&] { return (abs(random(shape, kFloat32)) + 0.1).to(dtype); });
}
Tensor leaf(const Shape& shape, std::uint64_t seed = 1) {
  return random(shape, kFloat32, seed).set_requires_grad();
}

/// An op of tensors in a region and without one.
struct Case {
  const char* name;
  std::vector<Tensor> inputs;  // float32
  std::function<Tensor(const std::vector<Tensor>&)> op;
};
using In = std::vector<Tensor>;

std::vector<Tensor> in_dtype(const std::vector<Tensor>& inputs, DType dtype) {
  std::vector<Tensor> converted;
  for (const Tensor& t : inputs)
    converted.push_back(t.defined() && is_floating(t.dtype()) ? t.detach().to(dtype) : t);
  return converted;
}

std::vector<Case> products() {
  const Tensor image = random({2, 3, 5, 5}), kernel = random({4, 3, 3, 3}, kFloat32, 2),
               bias = random({4}, kFloat32, 3), row = random({2, 3}), matrix = random({4, 3}),
               square = random({3, 3}), batch = random({2, 3, 3}), vector = random({3});
  return {
      {"conv2d", {image, kernel, bias}, [](const In& t) { return conv2d(t[0], t[1], t[2]); }},
      {"conv2d_relu", {image, kernel}, [](const In& t) { return conv2d_relu(t[0], t[1]); }},
      {"conv1d", {batch, batch}, [](const In& t) { return conv1d(t[0], t[1]); }},
      {"conv_transpose2d",
       {image, random({3, 2, 2, 2})},
       [](const In& t) { return conv_transpose2d(t[0], t[1]); }},
      {"linear", {row, matrix, bias}, [](const In& t) { return linear(t[0], t[1], t[2]); }},
      {"linear of rows", {batch, matrix}, [](const In& t) { return linear(t[0], t[1]); }},
      {"linear_relu", {row, matrix}, [](const In& t) { return linear_relu(t[0], t[1]); }},
      {"linear_gelu",
       {row, matrix, bias},
       [](const In& t) { return linear_gelu(t[0], t[1], t[2]); }},
      {"matmul", {batch, square}, [](const In& t) { return matmul(t[0], t[1]); }},
      {"matmul, 1-D", {vector, vector}, [](const In& t) { return matmul(t[0], t[1]); }},
      {"Tensor::matmul", {row, square}, [](const In& t) { return t[0].matmul(t[1]); }},
      {"mm", {row, square}, [](const In& t) { return mm(t[0], t[1]); }},
      {"bmm", {batch, batch}, [](const In& t) { return bmm(t[0], t[1]); }},
      {"mv", {square, vector}, [](const In& t) { return mv(t[0], t[1]); }},
      {"addmm", {vector, row, square}, [](const In& t) { return addmm(t[0], t[1], t[2]); }},
      {"addmm_relu",
       {vector, row, square},
       [](const In& t) { return addmm_relu(t[0], t[1], t[2]); }},
  };
}

std::vector<Case> sensitive() {
  const Tensor x = random({3, 4}), p = positive({3, 4}), w = random({4}),
               classes = from_vector<std::int64_t>({0, 3, 1}, {3});
  const Tensor probability = no_grad([&] { return sigmoid(x); });
  return {
      {"pow", {p}, [](const In& t) { return pow(t[0], 3); }},
      {"pow, tensor", {p, x}, [](const In& t) { return pow(t[0], t[1]); }},
      {"pow, of a number", {x}, [](const In& t) { return pow(2.0, t[0]); }},
      {"exp", {x}, [](const In& t) { return exp(t[0]); }},
      {"exp2", {x}, [](const In& t) { return exp2(t[0]); }},
      {"expm1", {x}, [](const In& t) { return expm1(t[0]); }},
      {"log", {p}, [](const In& t) { return log(t[0]); }},
      {"log2", {p}, [](const In& t) { return log2(t[0]); }},
      {"log1p", {p}, [](const In& t) { return log1p(t[0]); }},
      {"reciprocal", {p}, [](const In& t) { return reciprocal(t[0]); }},
      {"1 / x", {p}, [](const In& t) { return 1 / t[0]; }},
      {"rsqrt", {p}, [](const In& t) { return rsqrt(t[0]); }},
      {"tan", {x}, [](const In& t) { return tan(t[0]); }},
      {"softplus", {x}, [](const In& t) { return softplus(t[0]); }},
      {"sum", {x}, [](const In& t) { return sum(t[0], {0}); }},
      {"prod", {x}, [](const In& t) { return prod(t[0]); }},
      {"prod, dim", {x}, [](const In& t) { return prod(t[0], 1); }},
      {"cumsum", {x}, [](const In& t) { return cumsum(t[0], 1); }},
      {"norm", {x}, [](const In& t) { return norm(t[0]); }},
      {"softmax", {x}, [](const In& t) { return softmax(t[0], 1); }},
      {"log_softmax", {x}, [](const In& t) { return log_softmax(t[0], 1); }},
      {"layer_norm", {x, w, w}, [](const In& t) { return layer_norm(t[0], {4}, t[1], t[2]); }},
      {"group_norm", {x, w, w}, [](const In& t) { return group_norm(t[0], 2, t[1], t[2]); }},
      {"cross_entropy", {x, classes}, [](const In& t) { return cross_entropy(t[0], t[1]); }},
      {"nll_loss", {x, classes}, [](const In& t) { return nll_loss(t[0], t[1]); }},
      {"mse_loss", {x, p}, [](const In& t) { return mse_loss(t[0], t[1]); }},
      {"l1_loss", {x, p}, [](const In& t) { return l1_loss(t[0], t[1]); }},
      {"smooth_l1_loss", {x, p}, [](const In& t) { return smooth_l1_loss(t[0], t[1]); }},
      {"huber_loss", {x, p}, [](const In& t) { return huber_loss(t[0], t[1]); }},
      {"binary_cross_entropy",
       {probability, probability},
       [](const In& t) { return binary_cross_entropy(t[0], t[1]); }},
      {"binary_cross_entropy_with_logits",
       {x, probability},
       [](const In& t) { return binary_cross_entropy_with_logits(t[0], t[1]); }},
      {"kl_div", {x, probability}, [](const In& t) { return kl_div(t[0], t[1]); }},
  };
}

/// Of a float32 tensor and of one in 16 bits.
std::vector<Case> mixed(DType half) {
  const Tensor x = random({2, 3, 2, 2}), y = random({2, 3, 2, 2}, kFloat32, 2).to(half),
               v = random({4}), u = random({4}, half, 2), ones3 = ones({3}), zeros3 = zeros({3}),
               yes = gt(v, 0), ids = from_vector<std::int64_t>({0, 1, 2, 3}, {4});
  return {
      {"batch_norm_add_relu",
       {x, y, zeros3, ones3},
       [](const In& t) {
         return batch_norm(t[0], t[2], t[3], t[3], t[2], {.residual = t[1], .relu = true});
       }},
      {"dot", {v, u}, [](const In& t) { return dot(t[0], t[1]); }},
      {"cat",
       {v, u},
       [](const In& t) {
         return cat({t[0], t[1]});
       }},
      {"stack",
       {v, u},
       [](const In& t) {
         return stack({t[0], t[1]});
       }},
      {"where", {v, u, yes}, [](const In& t) { return where(t[2], t[0], t[1]); }},
      {"scatter", {v, u, ids}, [](const In& t) { return scatter(t[0], 0, t[2], t[1]); }},
      {"scatter_add", {v, u, ids}, [](const In& t) { return scatter_add(t[0], 0, t[2], t[1]); }},
      {"index_add", {v, u, ids}, [](const In& t) { return index_add(t[0], 0, t[2], t[1]); }},
      {"add", {v, u}, [](const In& t) { return t[0] + t[1]; }},
  };
}

std::size_t allocated() { return memory_allocated(Device()); }

}  // namespace

TEST_CASE("products compute in the region's dtype, as if their arguments were of it") {
  for (DType half : {kFloat16, kBFloat16})
    for (const Case& c : products()) {
      CAPTURE(c.name);
      const Tensor expected = c.op(in_dtype(c.inputs, half));
      const AutocastGuard guard({.dtype = half});
      const Tensor got = c.op(c.inputs);
      CHECK(got.dtype() == half);
      check_equal(got, expected);
      // Of operands that differ too: the first has the dtype already.
      std::vector<Tensor> some = c.inputs;
      some[0] = some[0].to(half);
      check_equal(c.op(some), expected);
    }
}

TEST_CASE("what 16 bits are too few for computes in float32") {
  for (DType half : {kFloat16, kBFloat16})
    for (const Case& c : sensitive()) {
      CAPTURE(c.name);
      const std::vector<Tensor> inputs = in_dtype(c.inputs, half);
      const Tensor expected = c.op(in_dtype(inputs, kFloat32));
      const AutocastGuard guard({.dtype = half});
      const Tensor got = c.op(inputs);
      CHECK(got.dtype() == kFloat32);
      // A sum of 16-bit numbers is one pass, in the order of its own.
      check_close(got, expected, 1e-6, 1e-7);
      check_equal(c.op(in_dtype(inputs, kFloat32)), expected);
    }
}

TEST_CASE("operands of several dtypes are promoted; what has no policy stays as it is") {
  for (DType half : {kFloat16, kBFloat16}) {
    for (const Case& c : mixed(half)) {
      CAPTURE(c.name);
      const Tensor expected = c.op(in_dtype(c.inputs, kFloat32));
      const AutocastGuard guard({.dtype = half});
      CHECK(c.op(c.inputs).dtype() == kFloat32);
      check_equal(c.op(c.inputs), expected);
      CHECK(c.op(in_dtype(c.inputs, half)).dtype() == half);
    }
    const AutocastGuard guard({.dtype = half});
    const Tensor x = random({2, 3});
    for (DType dtype : {kFloat32, half}) {
      const Tensor t = x.to(dtype);
      for (const Tensor& y : {relu(t), tanh(t), mean(t), sqrt(abs(t)), t * 2, t.transpose(0, 1)})
        CHECK(y.dtype() == dtype);
    }
    const Tensor stats = zeros({3}), one = ones({3});
    CHECK(batch_norm(x.to(half), stats, one, one, stats).dtype() == half);
    CHECK(batch_norm(x, stats, one, one, stats, {.relu = true}).dtype() == kFloat32);
  }
}

TEST_CASE("float64, integers and operations in place are left alone; bad dtypes are refused") {
  const AutocastGuard guard({.dtype = kFloat16});
  const Tensor x = random({3, 3}, kFloat64);
  CHECK(mm(x, x).dtype() == kFloat64);
  CHECK(softmax(x, 0).dtype() == kFloat64);
  const Tensor n = ones({2, 2}, {.dtype = kInt64});
  CHECK(mm(n, n).dtype() == kInt64);
  CHECK(sum(n).dtype() == kInt64);
  const Tensor half = random({3}, kFloat16);
  exp_(half);
  CHECK(half.dtype() == kFloat16);
  CHECK(softmax(half, 0, kFloat16).dtype() == kFloat16);
  CHECK(sum(half, kFloat16).dtype() == kFloat16);
  CHECK_THROWS_AS(mm(x, random({3, 3})), DTypeError);
  CHECK_THROWS_AS(linear(Tensor(), Tensor()), ValueError);
  CHECK_THROWS_AS(AutocastGuard({.dtype = kFloat32}), DTypeError);
}

TEST_CASE("gradients arrive in the dtypes of parameters and inputs, and backward runs without") {
  const Tensor x = leaf({4, 3}, 5), w = leaf({2, 3}, 6), b = leaf({2}, 7);
  const auto loss_of = [&](const Tensor& y) { return sum(square(y.to(kFloat32))); };
  loss_of(linear(x.to(kFloat16), w.to(kFloat16), b.to(kFloat16))).backward();
  std::vector<Tensor> expected;
  for (const Tensor* t : {&x, &w, &b}) {
    expected.push_back(t->grad());
    t->set_grad({});
  }
  Tensor y;
  bool on_in_backward = true;
  {
    const AutocastGuard guard({.dtype = kFloat16});
    y = linear(x, w, b);
    y.register_hook([&](const Tensor& grad) {
      on_in_backward = is_autocast_enabled(Device());
      CHECK(grad.dtype() == kFloat16);
      return Tensor();
    });
    loss_of(y).backward();
    CHECK(is_autocast_enabled(Device()));
  }
  CHECK_FALSE(on_in_backward);
  CHECK(x.grad().dtype() == kFloat32);
  check_equal(x.grad(), expected[0]);
  check_equal(w.grad(), expected[1]);
  check_equal(b.grad(), expected[2]);
}

TEST_CASE("a parameter is converted once a region, unless it was changed") {
  const Tensor w = leaf({256, 256}), x = leaf({1, 256}, 2);
  const std::size_t copy = 256 * 256 * 2, before = allocated();
  {
    const AutocastGuard guard({.dtype = kFloat16});
    const Tensor a = linear(x, w);  // keeps the converted weight
    CHECK(allocated() - before >= copy);
    CHECK(allocated() - before < 2 * copy);
    const Tensor b = linear(x, w);
    {
      const AutocastGuard inner({.dtype = kFloat16});
      check_equal(linear(x, w), a);
    }
    CHECK(allocated() - before < 2 * copy);
    sum(a).backward();  // both go through the one conversion
    const Tensor once = w.grad().clone();
    sum(b).backward();
    check_close(w.grad(), (once * 2).detach(), 0);
    no_grad([&] { w.mul_(2); });
    check_close(linear(x, w), (a * 2).detach(), 0);
    w.set_data(w.detach().clone().mul_(0.5));
    check_close(linear(x, w), a.detach(), 0);
    const Tensor c = linear(x, w);
    clear_autocast_cache();
    const Tensor d = linear(x, w);
    CHECK(allocated() - before >= 2 * copy);
  }
  w.set_grad({});
  CHECK(allocated() - before < copy);
  const AutocastGuard guard({.dtype = kFloat16, .cache_enabled = false});
  const Tensor a = linear(x, w), b = linear(x, w);
  CHECK(allocated() - before >= 2 * copy);
}

TEST_CASE("a conversion made where nothing was recorded does not cost the gradient") {
  const Tensor w = leaf({2, 3}), x = random({1, 3});
  const AutocastGuard guard({.dtype = kBFloat16});
  no_grad([&] { linear(x, w); });
  sum(linear(x, w)).backward();
  REQUIRE(w.grad().defined());
  const Tensor y = no_grad([&] { return linear(x, w); });
  CHECK_FALSE(y.requires_grad());
}

TEST_CASE("regions nest: off, another dtype, one kind of device") {
  const Tensor x = random({2, 2});
  const auto dtype = [&] { return mm(x, x).dtype(); };
  CHECK_FALSE(is_autocast_enabled(Device()));
  {
    const AutocastGuard fresh;
    CHECK(autocast_dtype(Device()) == kBFloat16);
  }
  const AutocastGuard outer({.dtype = kFloat16});
  CHECK(dtype() == kFloat16);
  {
    const AutocastGuard off({.enabled = false});
    CHECK(dtype() == kFloat32);
    CHECK_FALSE(autocast_dtype(Device()));
    const AutocastGuard on_again({.dtype = kBFloat16});
    CHECK(dtype() == kBFloat16);
  }
  CHECK(autocast({.dtype = kBFloat16}, dtype) == kBFloat16);
  CHECK(autocast({}, dtype) == kFloat16);
  CHECK(autocast({.device = Device(), .enabled = false}, dtype) == kFloat32);
  {
    const AutocastGuard same(std::nullopt);
    CHECK(dtype() == kFloat16);
  }
  try {
    const AutocastGuard inner({.dtype = kBFloat16});
    throw Error("x");
  } catch (const Error&) {
  }
  CHECK(dtype() == kFloat16);
  DType elsewhere = kInt64;
  std::thread([&] { elsewhere = dtype(); }).join();
  CHECK(elsewhere == kFloat32);
}

TEST_CASE("policies may be changed: in a region, for all to come, for operations of users") {
  const Tensor x = random({2, 2}), half = x.to(kFloat16);
  {
    const AutocastGuard guard({.dtype = kFloat16,
                               .policy = {{AutocastOp::matmul, CastPolicy::float32},
                                          {AutocastOp::softmax, CastPolicy::lower_precision},
                                          {AutocastOp::sum, CastPolicy::unchanged},
                                          {AutocastOp::batch_norm, CastPolicy::float32}}});
    CHECK(mm(half, half).dtype() == kFloat32);
    CHECK(linear(half, half).dtype() == kFloat16);
    CHECK(softmax(x, 0).dtype() == kFloat16);
    CHECK(sum(half).dtype() == kFloat16);
    CHECK(batch_norm(half, {}, {}, {}, {}, true).dtype() == kFloat32);
    const AutocastGuard inner({.policy = {{AutocastOp::matmul, CastPolicy::lower_precision}}});
    CHECK(mm(x, x).dtype() == kFloat16);
    CHECK(sum(half).dtype() == kFloat16);
  }
  const AutocastGuard before({.dtype = kFloat16});
  set_autocast_policy(AutocastOp::exp, CastPolicy::unchanged);
  CHECK(exp(half).dtype() == kFloat32);
  {
    const AutocastGuard off({.enabled = false});
    CHECK(autocast_policy(AutocastOp::exp) == CastPolicy::unchanged);
    const AutocastGuard after({.dtype = kFloat16});
    CHECK(exp(half).dtype() == kFloat16);
  }
  set_autocast_policy(AutocastOp::exp, CastPolicy::float32);

  const auto own = ops::autocast(CastPolicy::promote, x, half, Tensor());
  REQUIRE(own);
  CHECK((*own)[1].dtype() == kFloat32);
  CHECK_FALSE((*own)[2].defined());
  CHECK_FALSE(ops::autocast(CastPolicy::unchanged, x, half));
  CHECK_FALSE(ops::autocast(CastPolicy::float32, x));
}

TEST_CASE("a checkpoint computes again as it did first") {
  const Tensor x = leaf({4, 3}, 5), w = leaf({3, 3}, 6);
  const auto f = [&](const Tensor& t) { return log_softmax(linear(linear_relu(t, w), w), 1); };
  const auto gradients = [&](auto&& run) {
    Tensor loss;
    {
      const AutocastGuard guard({.dtype = kFloat16});
      loss = sum(run());
    }
    loss.backward();
    const std::vector<Tensor> grads{x.grad(), w.grad()};
    x.set_grad({}), w.set_grad({});
    return grads;
  };
  const auto plain = gradients([&] { return f(x); });
  const auto again = gradients([&] { return autograd::checkpoint(f, x); });
  check_equal(again[0], plain[0]);
  check_equal(again[1], plain[1]);
}
