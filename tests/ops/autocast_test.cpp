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
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/ops/op_table.h"
#include "ferrite/tests/ops/outcome.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

Tensor random(const Shape& shape, DType dtype = kFloat32, std::uint64_t seed = 1) {
  Generator generator(seed);
  return (randn(shape, {}, &generator) * 0.5).to(dtype);
}
Tensor leaf(const Shape& shape, std::uint64_t seed = 1) {
  return random(shape, kFloat32, seed).set_requires_grad();
}

using In = std::vector<Tensor>;

std::vector<Tensor> in_dtype(const std::vector<Tensor>& inputs, DType dtype) {
  std::vector<Tensor> converted;
  for (const Tensor& t : inputs)
    converted.push_back(t.defined() && is_floating(t.dtype()) ? t.detach().to(dtype) : t);
  return converted;
}

/// What `op` gives with the same random numbers every time.
std::vector<Tensor> results(const Op& op, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> own = inputs;
  if (changes_input(op)) own[0] = own[0].clone();
  manual_seed(1);
  return op.call(own);
}

/// With the last input in 16 bits beside others in float32; empty where there are none such.
std::vector<Tensor> mixed(const Op& op, std::vector<Tensor> inputs, DType half) {
  const auto is_number = [&](std::size_t i) {
    // Weights and statistics of norms are float32, or all of the input's dtype.
    const Arg& arg = op.args[i];
    return arg.fill == Fill::real || (arg.fill == Fill::positive && !arg.optional);
  };
  for (std::size_t i = inputs.size(), numbers = 0, last = 0; i-- > 0;) {
    if (!is_number(i)) continue;
    if (numbers++ == 0) last = i;
    if (numbers < 2) continue;
    inputs[last] = inputs[last].to(half);
    return inputs;
  }
  return {};
}

enum class Same { bits, values };

void check_results(const std::vector<Tensor>& got, const std::vector<Tensor>& expected, Same same) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i].dtype() == expected[i].dtype());
    // A sum of 16-bit numbers is one pass, in the order of its own.
    if (same == Same::bits)
      check_equal(got[i], expected[i]);
    else
      check_close(got[i], expected[i], 1e-6, 1e-7);
  }
}

/// The ops whose inputs a region treats so, with float32 inputs.
template <class F>
void for_each_op(CastPolicy policy, DType half, F f) {
  int ops = 0;
  for (const Op& op : op_table()) {
    if (op.autocast != policy) continue;
    ++ops;
    CAPTURE(op.name);
    CAPTURE(name(half));
    // Numbers that 16 bits hold.
    f(op, in_dtype(in_dtype(make_inputs(op, kFloat32, {}), half), kFloat32));
  }
  CHECK(ops > 10);
}

std::size_t allocated() { return memory_allocated(Device()); }

}  // namespace

TEST_CASE("products compute in the region's dtype, as if their arguments were of it") {
  for (DType half : {kFloat16, kBFloat16})
    for_each_op(CastPolicy::lower_precision, half, [&](const Op& op, const In& inputs) {
      const In expected = results(op, in_dtype(inputs, half));
      CHECK(expected[0].dtype() == half);
      const AutocastGuard guard({.dtype = half});
      check_results(results(op, inputs), expected, Same::bits);
      // Of operands that differ too: the first has the dtype already.
      In some = inputs;
      some[0] = some[0].to(half);
      check_results(results(op, some), expected, Same::bits);
    });
}

TEST_CASE("what 16 bits are too few for computes in float32") {
  for (DType half : {kFloat16, kBFloat16})
    for_each_op(CastPolicy::float32, half, [&](const Op& op, const In& inputs) {
      const In expected = results(op, inputs);
      CHECK(itemsize(expected[0].dtype()) >= itemsize(kFloat32));
      const AutocastGuard guard({.dtype = half});
      check_results(results(op, in_dtype(inputs, half)), expected, Same::values);
      check_results(results(op, inputs), expected, Same::bits);
    });
}

TEST_CASE("operands of several dtypes are promoted; what has no policy stays as it is") {
  for (DType half : {kFloat16, kBFloat16}) {
    for_each_op(CastPolicy::promote, half, [&](const Op& op, const In& inputs) {
      const In expected = results(op, inputs), in_half = results(op, in_dtype(inputs, half));
      const In several = mixed(op, inputs, half);
      const AutocastGuard guard({.dtype = half});
      if (!several.empty()) check_results(results(op, several), expected, Same::bits);
      check_results(results(op, inputs), expected, Same::bits);
      check_results(results(op, in_dtype(inputs, half)), in_half, Same::bits);
    });
    for_each_op(CastPolicy::unchanged, half, [&](const Op& op, const In& inputs) {
      for (const In& given : {inputs, in_dtype(inputs, half), mixed(op, inputs, half)}) {
        if (given.empty()) continue;
        In expected;
        if (!outcome([&] { expected = results(op, given); }).empty()) continue;
        const AutocastGuard guard({.dtype = half});
        check_results(results(op, given), expected, Same::bits);
      }
    });
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
