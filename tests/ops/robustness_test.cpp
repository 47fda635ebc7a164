// What every op must stand: undefined and empty tensors, all eight dimensions, memory beyond 32-bit
// offsets, and several host threads at once.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/join.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Unary = std::function<Tensor(const Tensor&)>;

struct Op {
  std::string name;
  Unary f;
};

/// Functions of one tensor of any number of dimensions.
const std::vector<Op> kAnyShape = {
    {"abs", [](const Tensor& x) { return abs(x); }},
    {"exp", [](const Tensor& x) { return exp(x); }},
    {"floor", [](const Tensor& x) { return floor(x); }},
    {"isnan", [](const Tensor& x) { return isnan(x); }},
    {"relu", [](const Tensor& x) { return relu(x); }},
    {"gelu", [](const Tensor& x) { return gelu(x); }},
    {"softplus", [](const Tensor& x) { return softplus(x); }},
    {"hardtanh", [](const Tensor& x) { return hardtanh(x); }},
    {"clamp", [](const Tensor& x) { return clamp(x, 0, 1); }},
    {"add", [](const Tensor& x) { return x + x; }},
    {"sub", [](const Tensor& x) { return 1 - x; }},
    {"mul", [](const Tensor& x) { return mul(x, 2); }},
    {"div", [](const Tensor& x) { return 1 / x; }},
    {"pow", [](const Tensor& x) { return pow(x, 3); }},
    {"pow of a scalar", [](const Tensor& x) { return pow(2, x); }},
    {"remainder", [](const Tensor& x) { return remainder(x, 2); }},
    {"floor_divide", [](const Tensor& x) { return floor_divide(x, 2); }},
    {"fmod", [](const Tensor& x) { return fmod(x, x); }},
    {"atan2", [](const Tensor& x) { return atan2(x, x); }},
    {"maximum", [](const Tensor& x) { return maximum(x, x); }},
    {"eq", [](const Tensor& x) { return eq(x, x); }},
    {"lt", [](const Tensor& x) { return lt(x, 0); }},
    {"isclose", [](const Tensor& x) { return isclose(x, x); }},
    {"where", [](const Tensor& x) { return where(gt(x, 0), x, 0); }},
    {"sum", [](const Tensor& x) { return sum(x); }},
    {"mean", [](const Tensor& x) { return mean(x); }},
    {"var", [](const Tensor& x) { return var(x); }},
    {"std", [](const Tensor& x) { return ferrite::std(x); }},
    {"norm", [](const Tensor& x) { return norm(x); }},
    {"prod", [](const Tensor& x) { return prod(x); }},
    {"any", [](const Tensor& x) { return any(x); }},
    {"all", [](const Tensor& x) { return all(x); }},
    {"count_nonzero", [](const Tensor& x) { return count_nonzero(x); }},
    {"mse_loss", [](const Tensor& x) { return mse_loss(x, x); }},
    {"l1_loss", [](const Tensor& x) { return l1_loss(x, x); }},
    {"smooth_l1_loss", [](const Tensor& x) { return smooth_l1_loss(x, x); }},
    {"huber_loss", [](const Tensor& x) { return huber_loss(x, x); }},
    {"bce_with_logits", [](const Tensor& x) { return binary_cross_entropy_with_logits(x, x); }},
    {"kl_div", [](const Tensor& x) { return kl_div(x, x); }},
    {"dropout", [](const Tensor& x) { return dropout(x); }},
    {"masked_fill", [](const Tensor& x) { return masked_fill(x, gt(x, 0), 1); }},
    {"masked_select", [](const Tensor& x) { return masked_select(x, gt(x, 0)); }},
    {"nonzero", [](const Tensor& x) { return nonzero(x); }},
    {"flip", [](const Tensor& x) { return flip(x, {}); }},
    {"roll", [](const Tensor& x) { return roll(x, {1}); }},
    {"clone", [](const Tensor& x) { return x.clone(); }},
    {"contiguous", [](const Tensor& x) { return x.contiguous(); }},
    {"to", [](const Tensor& x) { return x.to(kFloat16); }},
    {"to device", [](const Tensor& x) { return x.to(Device("cpu:1")).cpu(); }},
    {"reshape", [](const Tensor& x) { return x.reshape({x.defined() ? x.numel() : 1}); }},
    {"flatten", [](const Tensor& x) { return x.flatten(); }},
    {"squeeze", [](const Tensor& x) { return x.squeeze(); }},
    {"zeros_like", [](const Tensor& x) { return zeros_like(x); }},
    {"full_like", [](const Tensor& x) { return full_like(x, 2); }},
    {"rand_like", [](const Tensor& x) { return rand_like(x); }},
    {"bernoulli", [](const Tensor& x) { return bernoulli(x); }},
};

/// Functions along one dimension, here the last.
const std::vector<Op> kAlongDim = {
    {"sum", [](const Tensor& x) { return sum(x, {-1}); }},
    {"mean", [](const Tensor& x) { return mean(x, {-1}, true); }},
    {"var", [](const Tensor& x) { return var(x, {-1}); }},
    {"norm", [](const Tensor& x) { return norm(x, 3, {-1}); }},
    {"prod", [](const Tensor& x) { return prod(x, -1); }},
    {"any", [](const Tensor& x) { return any(x, -1); }},
    {"amax", [](const Tensor& x) { return amax(x, {-1}); }},
    {"max", [](const Tensor& x) { return max(x, -1).values; }},
    {"argmin", [](const Tensor& x) { return argmin(x, -1); }},
    {"cumsum", [](const Tensor& x) { return cumsum(x, -1); }},
    {"sort", [](const Tensor& x) { return sort(x, -1).values; }},
    {"argsort", [](const Tensor& x) { return argsort(x, -1); }},
    {"topk", [](const Tensor& x) { return topk(x, 2, -1).values; }},
    {"softmax", [](const Tensor& x) { return softmax(x, -1); }},
    {"log_softmax", [](const Tensor& x) { return log_softmax(x, -1); }},
    {"flip", [](const Tensor& x) { return flip(x, {-1}); }},
    {"roll", [](const Tensor& x) { return roll(x, {1}, {-1}); }},
    {"pad",
     [](const Tensor& x) {
       return pad(x, {1, 2});
     }},
    {"pad reflect",
     [](const Tensor& x) {
       return pad(x, {1, 1}, PadMode::reflect);
     }},
    {"cat",
     [](const Tensor& x) {
       return cat({x, x}, -1);
     }},
    {"chunk", [](const Tensor& x) { return chunk(x, 2, -1)[0]; }},
    {"split", [](const Tensor& x) { return split(x, 2, -1)[0]; }},
    {"unbind", [](const Tensor& x) { return unbind(x, -1)[0]; }},
    {"select", [](const Tensor& x) { return x.select(-1, 0); }},
    {"slice", [](const Tensor& x) { return x.slice(-1, 1); }},
    {"narrow", [](const Tensor& x) { return x.narrow(-1, 1, 1); }},
    {"index_select",
     [](const Tensor& x) {
       return index_select(x, -1, tensor({2, 0}));
     }},
    {"index_add",
     [](const Tensor& x) {
       return index_add(x, -1, tensor({2, 0}), index_select(x, -1, tensor({1, 1})));
     }},
    {"gather", [](const Tensor& x) { return gather(x, -1, argsort(x, -1)); }},
    {"scatter", [](const Tensor& x) { return scatter(x, -1, argsort(x, -1), x * 2); }},
    {"scatter_add", [](const Tensor& x) { return scatter_add(x, -1, argsort(x, -1), x); }},
    {"layer_norm", [](const Tensor& x) { return layer_norm(x, {x.size(-1)}); }},
    {"matmul",
     [](const Tensor& x) {
       return matmul(x, ones({x.size(-1), 2}));
     }},
    {"matmul of a vector", [](const Tensor& x) { return matmul(x, ones({x.size(-1)})); }},
    {"linear",
     [](const Tensor& x) {
       return linear(x, ones({2, x.size(-1)}), ones({2}));
     }},
    {"linear_relu",
     [](const Tensor& x) {
       return linear_relu(x, ones({2, x.size(-1)}), ones({2}));
     }},
    {"linear_gelu",
     [](const Tensor& x) {
       return linear_gelu(x, ones({2, x.size(-1)}), ones({2}));
     }},
};

/// Functions with conditions on their shape; here only for what they say of undefined tensors.
const std::vector<Op> kOthers = {
    {"max", [](const Tensor& x) { return max(x); }},
    {"argmax", [](const Tensor& x) { return argmax(x); }},
    {"max along", [](const Tensor& x) { return max(x, 0).values; }},
    {"amax", [](const Tensor& x) { return amax(x); }},
    {"softmax", [](const Tensor& x) { return softmax(x, 0); }},
    {"cumsum", [](const Tensor& x) { return cumsum(x, 0); }},
    {"sort", [](const Tensor& x) { return sort(x).values; }},
    {"argsort", [](const Tensor& x) { return argsort(x); }},
    {"topk", [](const Tensor& x) { return topk(x, 1).values; }},
    {"matmul", [](const Tensor& x) { return matmul(x, ones({1})); }},
    {"mm",
     [](const Tensor& x) {
       return mm(ones({1, 1}), x);
     }},
    {"bmm", [](const Tensor& x) { return bmm(x, x); }},
    {"mv", [](const Tensor& x) { return mv(x, ones({1})); }},
    {"dot", [](const Tensor& x) { return dot(ones({1}), x); }},
    {"outer", [](const Tensor& x) { return outer(ones({1}), x); }},
    {"addmm",
     [](const Tensor& x) {
       return addmm(x, ones({1, 1}), ones({1, 1}));
     }},
    {"linear",
     [](const Tensor& x) {
       return linear(ones({1, 1}), x);
     }},
    {"conv1d",
     [](const Tensor& x) {
       return conv1d(x, ones({1, 1, 1}));
     }},
    {"conv2d",
     [](const Tensor& x) {
       return conv2d(x, ones({1, 1, 1, 1}));
     }},
    {"conv2d weight",
     [](const Tensor& x) {
       return conv2d(ones({1, 1, 1, 1}), x);
     }},
    {"conv_transpose2d", [](const Tensor& x) { return conv_transpose2d(x, x); }},
    {"max_pool2d", [](const Tensor& x) { return max_pool2d(x, 2); }},
    {"avg_pool2d", [](const Tensor& x) { return avg_pool2d(x, 2); }},
    {"adaptive_avg_pool2d", [](const Tensor& x) { return adaptive_avg_pool2d(x, 1); }},
    {"adaptive_max_pool2d", [](const Tensor& x) { return adaptive_max_pool2d(x, 1); }},
    {"batch_norm", [](const Tensor& x) { return batch_norm(x, {}, {}, {}, {}, true); }},
    {"layer_norm", [](const Tensor& x) { return layer_norm(x, {1}); }},
    {"group_norm", [](const Tensor& x) { return group_norm(x, 1); }},
    {"dropout2d", [](const Tensor& x) { return dropout2d(x); }},
    {"cross_entropy", [](const Tensor& x) { return cross_entropy(x, tensor({0})); }},
    {"cross_entropy target",
     [](const Tensor& x) {
       return cross_entropy(ones({1, 2}), x);
     }},
    {"nll_loss", [](const Tensor& x) { return nll_loss(x, x); }},
    {"binary_cross_entropy", [](const Tensor& x) { return binary_cross_entropy(x, x); }},
    {"cat",
     [](const Tensor& x) {
       return cat({ones({1}), x});
     }},
    {"stack", [](const Tensor& x) { return stack({x}); }},
    {"split", [](const Tensor& x) { return split(x, 1)[0]; }},
    {"chunk", [](const Tensor& x) { return chunk(x, 1)[0]; }},
    {"unbind", [](const Tensor& x) { return unbind(x)[0]; }},
    {"repeat", [](const Tensor& x) { return repeat(x, {2}); }},
    {"tile", [](const Tensor& x) { return tile(x, {2}); }},
    {"gather", [](const Tensor& x) { return gather(ones({1}), 0, x); }},
    {"gather from", [](const Tensor& x) { return gather(x, 0, tensor({0})); }},
    {"scatter", [](const Tensor& x) { return scatter(ones({1}), 0, tensor({0}), x); }},
    {"scatter a value", [](const Tensor& x) { return scatter(x, 0, tensor({0}), 1); }},
    {"scatter_add", [](const Tensor& x) { return scatter_add(x, 0, tensor({0}), x); }},
    {"index_select", [](const Tensor& x) { return index_select(x, 0, tensor({0})); }},
    {"index_add", [](const Tensor& x) { return index_add(x, 0, tensor({0}), x); }},
    {"masked_fill mask", [](const Tensor& x) { return masked_fill(ones({1}), x, 1); }},
    {"one_hot", [](const Tensor& x) { return one_hot(x); }},
    {"embedding",
     [](const Tensor& x) {
       return embedding(x, ones({1, 1}));
     }},
    {"embedding weight", [](const Tensor& x) { return embedding(tensor({0}), x); }},
    {"pad",
     [](const Tensor& x) {
       return pad(x, {1, 1});
     }},
    {"tril", [](const Tensor& x) { return tril(x); }},
    {"diagonal", [](const Tensor& x) { return diagonal(x); }},
    {"movedim", [](const Tensor& x) { return movedim(x, 0, 0); }},
    {"unflatten", [](const Tensor& x) { return unflatten(x, 0, {1}); }},
    {"where", [](const Tensor& x) { return where(x, ones({1}), 0); }},
    {"allclose", [](const Tensor& x) { return tensor(allclose(x, x)); }},
    {"equal", [](const Tensor& x) { return tensor(equal(x, x)); }},
    {"view", [](const Tensor& x) { return x.view({1}); }},
    {"t", [](const Tensor& x) { return x.t(); }},
    {"transpose", [](const Tensor& x) { return x.transpose(0, 1); }},
    {"permute", [](const Tensor& x) { return x.permute({0}); }},
    {"select", [](const Tensor& x) { return x[0]; }},
    {"slice", [](const Tensor& x) { return x.slice(0, 0); }},
    {"narrow", [](const Tensor& x) { return x.narrow(0, 0, 0); }},
    {"unfold", [](const Tensor& x) { return x.unfold(0, 1, 1); }},
    {"expand", [](const Tensor& x) { return x.expand({1}); }},
    {"squeeze", [](const Tensor& x) { return x.squeeze(0); }},
    {"unsqueeze", [](const Tensor& x) { return x.unsqueeze(0); }},
    {"sum_to", [](const Tensor& x) { return sum_to(x, {1}); }},
    {"copy_", [](const Tensor& x) { return ones({1}).copy_(x); }},
    {"copy_ to", [](const Tensor& x) { return x.copy_(ones({1})); }},
    {"add_", [](const Tensor& x) { return ones({1}).add_(x); }},
    {"add_ to", [](const Tensor& x) { return x.add_(ones({1})); }},
    {"mul_", [](const Tensor& x) { return x.mul_(2); }},
    {"relu_", [](const Tensor& x) { return relu_(x); }},
    {"clamp_", [](const Tensor& x) { return x.clamp_(0, 1); }},
    {"fill_", [](const Tensor& x) { return x.fill_(1); }},
    {"zero_", [](const Tensor& x) { return x.zero_(); }},
    {"masked_fill_", [](const Tensor& x) { return x.masked_fill_(tensor({true}), 1); }},
    {"pow_", [](const Tensor& x) { return pow_(x, 2); }},
    {"scatter_", [](const Tensor& x) { return scatter_(x, 0, tensor({0}), 1); }},
    {"uniform_", [](const Tensor& x) { return x.uniform_(); }},
    {"normal_", [](const Tensor& x) { return x.normal_(); }},
    {"detach", [](const Tensor& x) { return x.detach(); }},
};

}  // namespace

TEST_CASE("an undefined tensor is a ValueError that names the op") {
  for (const auto* list : {&kAnyShape, &kOthers})
    for (const Op& op : *list) {
      CAPTURE(op.name);
      CHECK_THROWS_AS(op.f(Tensor()), ValueError);
    }
}

TEST_CASE("tensors without elements, and their gradients") {
  for (const Shape& shape : {Shape{0}, Shape{2, 0, 3}, Shape{0, 3, 2, 4}, Shape{3, 0}}) {
    CAPTURE(shape);
    for (const Op& op : kAnyShape) {
      CAPTURE(op.name);
      const Tensor x = empty(shape).set_requires_grad();
      const Tensor y = op.f(x);
      if (!y.requires_grad()) continue;
      y.backward(ones_like(y));
      CHECK(x.grad().shape() == shape);
    }
  }
  for (const Shape& shape : {Shape{0, 3}, Shape{2, 0, 4}, Shape{0, 3, 2, 4}}) {
    for (const Op& op : kAlongDim) {
      CAPTURE(op.name);
      const Tensor x = empty(shape).set_requires_grad();
      const Tensor y = op.f(x);
      if (!y.requires_grad()) continue;
      y.backward(ones_like(y));
      CHECK(x.grad().shape() == shape);
    }
  }
}

TEST_CASE("eight dimensions give what fewer give") {
  Generator generator(1);
  const Shape shape{2, 1, 3, 2, 1, 2, 2, 3};
  const Tensor flat = randn({24 * 2, 3}, {}, &generator) + 3;
  // Dense, and with every stride its own.
  const Tensor dense = flat.reshape(shape);
  const Tensor strided =
      dense.permute({7, 6, 5, 4, 3, 2, 1, 0}).contiguous().permute({7, 6, 5, 4, 3, 2, 1, 0});
  const auto check = [&](const Op& op) {
    CAPTURE(op.name);
    for (const char* other : {"dropout", "bernoulli", "rand_like", "nonzero"})
      if (op.name == other) return;  // random, or of a result that has coordinates
    const Tensor a = flat.detach().set_requires_grad(), b = dense.detach().set_requires_grad(),
                 c = strided.detach().set_requires_grad();
    const Tensor y = op.f(a), z = op.f(b), w = op.f(c);
    check_close(z.reshape(y.shape()), y, 1e-5, 1e-5);
    check_close(w.reshape(y.shape()), y, 1e-5, 1e-5);
    if (!y.requires_grad()) return;
    const Tensor grad = randn(y.shape()).to(y.dtype());
    y.backward(grad);
    z.backward(grad.reshape(z.shape()));
    w.backward(grad.reshape(w.shape()));
    check_close(b.grad().reshape(flat.shape()), a.grad(), 1e-4, 1e-5);
    check_close(c.grad().reshape(flat.shape()), a.grad(), 1e-4, 1e-5);
  };
  for (const Op& op : kAnyShape) check(op);
  for (const Op& op : kAlongDim) check(op);
  CHECK_THROWS_AS(dense.unsqueeze(0), ShapeError);
  CHECK_THROWS_AS(stack({dense, dense}), ShapeError);
  CHECK_THROWS_AS(dense.unfold(0, 1, 1), ShapeError);
  CHECK_THROWS_AS(one_hot(zeros_like(dense).to(kInt64), 2), ShapeError);
  CHECK_THROWS_AS(embedding(zeros_like(dense).to(kInt64), ones({1, 1})), ShapeError);
}

namespace {

/// Zeros over more memory than 32-bit offsets reach, of which only what is touched exists.
Tensor vast(const Shape& shape, const Strides& strides) {
  constexpr std::int64_t kElements = (std::int64_t{1} << 33) + 4096;
  void* memory = mmap(nullptr, kElements * sizeof(float), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const Tensor whole = from_blob(memory, {kElements}, kFloat32,
                                 [memory] { munmap(memory, kElements * sizeof(float)); });
  return as_strided(whole, shape, strides, 0);
}

}  // namespace

TEST_CASE("strides and offsets beyond 32 bits") {
  constexpr std::int64_t kFar = (std::int64_t{1} << 31) + 64;
  Generator generator(1);
  const Tensor near = randn({3, 12}, {}, &generator);
  const Tensor far = vast({3, 12}, {kFar, 1}), apart = vast({3, 3, 4}, {kFar, 16, 4});
  far.copy_(near);
  check_equal(far, near);
  check_equal(far.t().contiguous(), near.t());
  for (const Op& op : kAlongDim) {
    CAPTURE(op.name);
    const Tensor a = near.detach().set_requires_grad(), b = far.detach().set_requires_grad();
    const Tensor y = op.f(a), z = op.f(b);
    check_close(z, y);
    if (!y.requires_grad()) continue;
    y.backward(ones_like(y));
    z.backward(ones_like(z));
    check_close(b.grad(), a.grad());
  }
  check_close(exp(far), exp(near));
  check_close(far * near + far, near * near + near, 1e-5, 1e-6);
  check_close(mm(far, far.t()), mm(near, near.t()), 1e-5, 1e-5);
  check_close(sum(far, {0}), sum(near, {0}), 1e-5, 1e-5);
  check_equal(argmax(far, 0), argmax(near, 0));
  check_equal(index_select(far, 0, tensor({2, 0, 2})), index_select(near, 0, tensor({2, 0, 2})));
  far.mul_(2);
  check_equal(far, near * 2);

  apart.copy_(near.reshape({3, 3, 4}));
  const Tensor images = apart.reshape({3, 1, 3, 4}), same = near.reshape({3, 1, 3, 4});
  CHECK(images.shares_storage(apart));
  const Tensor weight = randn({2, 1, 2, 2}, {}, &generator);
  check_close(conv2d(images, weight), conv2d(same, weight), 1e-5, 1e-5);
  check_equal(max_pool2d(images, 2), max_pool2d(same, 2));
  check_close(avg_pool2d(images, 2), avg_pool2d(same, 2));
  check_close(batch_norm(images, {}, {}, {}, {}, true), batch_norm(same, {}, {}, {}, {}, true));
}

TEST_CASE("host threads that compute at once get what each gets alone") {
  Generator generator(1);
  const Tensor x = randn({6, 3, 12, 12}, {}, &generator);
  const Tensor conv = randn({8, 3, 3, 3}, {}, &generator);
  const Tensor fc = randn({4, 8 * 25}, {}, &generator), target = tensor({0, 1, 2, 3, 0, 1});
  // Forward and backward through kernels of every family; in one tensor, to compare.
  const auto step = [&](std::uint64_t seed) {
    Generator own(seed);
    const Tensor w = conv.clone().set_requires_grad(), v = fc.clone().set_requires_grad();
    const Tensor input = seed % 2 ? x.to(kChannelsLast) : x;
    Tensor h = batch_norm(conv2d(input, w), {}, {}, {}, {}, true);
    h = dropout(max_pool2d(relu(h), 2), 0.3, true, &own).flatten(1);
    const Tensor loss = cross_entropy(linear(h, v), target);
    loss.backward();
    return cat({loss.detach().reshape({1}), w.grad().flatten(), v.grad().flatten(),
                randn({5}, {}, &own), sort(x.flatten()).values.slice(0, 0, 5)});
  };
  constexpr int kThreads = 4, kRounds = 5;
  std::vector<Tensor> alone;
  for (int t = 0; t < kThreads; ++t) alone.push_back(step(static_cast<std::uint64_t>(t)));

  const int before = num_threads();
  std::vector<std::string> wrong(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        set_num_threads(1 + (t + i) % 3);
        // The shared generator may give any thread any numbers, but must stay whole.
        const Tensor shared = rand({1000});
        if (!(sum(shared).item<double>() > 0)) wrong[static_cast<std::size_t>(t)] = "rand";
        const Tensor got = step(static_cast<std::uint64_t>(t));
        if (!equal(got, alone[static_cast<std::size_t>(t)]))
          wrong[static_cast<std::size_t>(t)] =
              difference(got, alone[static_cast<std::size_t>(t)].to_vector<double>(), 0, 0);
      }
    });
  for (std::thread& t : threads) t.join();
  set_num_threads(before);
  for (const std::string& text : wrong) CHECK_MESSAGE(text.empty(), text);
}
