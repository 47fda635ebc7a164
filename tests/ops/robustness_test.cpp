// What every op must stand: empty tensors, all eight dimensions, memory beyond 32-bit offsets, and
// several host threads at once.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/ops/op_run.h"
#include "ferrite/tests/ops/op_table.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// Leaves for an op of the table, all of this shape where the row does not fix theirs.
std::vector<Tensor> leaves_of(const Op& op, const Shape& shape) {
  Op shaped = op;
  for (Arg& arg : shaped.args)
    if (!arg.fixed) arg.shape = shape;
  return make_leaves(shaped, kFloat32, {});
}

/// The ops of the table that take tensors of one shape; along the last dimension where they have
/// one.
template <class F>
void for_each_op(Shapes shapes, F f) {
  int ops = 0;
  for (Op op : op_table()) {
    if (op.shapes != shapes) continue;
    ++ops;
    if (op.dim) op.dim = -1;
    CAPTURE(op.name);
    f(op);
  }
  CHECK(ops > 40);
}

/// `got`, reshaped as `expected`.
void check_reshaped(const Tensor& got, const Tensor& expected, double rtol, double atol) {
  REQUIRE(got.defined() == expected.defined());
  if (got.defined()) check_close(got.reshape(expected.shape()), expected, rtol, atol);
}

}  // namespace

TEST_CASE("tensors without elements, and their gradients") {
  const auto check = [](const Op& op, const Shape& shape) {
    CAPTURE(shape);
    const std::vector<Tensor> leaves = leaves_of(op, shape);
    run_op(op, leaves, {});
    for (const Tensor& leaf : leaves)
      if (leaf.grad().defined()) CHECK(leaf.grad().shape() == leaf.shape());
  };
  for (const Shape& shape : {Shape{0}, Shape{2, 0, 3}, Shape{0, 3, 2, 4}, Shape{3, 0}})
    for_each_op(Shapes::any, [&](const Op& op) { check(op, shape); });
  for (const Shape& shape : {Shape{0, 3}, Shape{2, 0, 4}, Shape{0, 3, 2, 4}})
    for_each_op(Shapes::rows, [&](const Op& op) { check(op, shape); });
}

TEST_CASE("eight dimensions give what fewer give") {
  const Shape shape{2, 1, 3, 2, 1, 2, 2, 3};
  const Tensor dense = ones(shape);
  const auto check = [&](const Op& op) {
    // Random, or of a result that has coordinates.
    if (op.random || op.name == "nonzero") return;
    const std::vector<Tensor> flat = leaves_of(op, {48, 3});
    const OpRun expected = run_op(op, flat, {});
    // Dense, and with every stride its own.
    for (const bool strided : {false, true}) {
      std::vector<Tensor> leaves;
      for (std::size_t i = 0; i < flat.size(); ++i) {
        Tensor t = flat[i].detach();
        if (!op.args[i].fixed) t = t.reshape(shape);
        if (!op.args[i].fixed && strided)
          t = t.permute({7, 6, 5, 4, 3, 2, 1, 0}).contiguous().permute({7, 6, 5, 4, 3, 2, 1, 0});
        leaves.push_back(t.detach());
      }
      const OpRun run = run_op(op, as_leaves(op, leaves), {});
      for (std::size_t i = 0; i < run.outputs.size(); ++i)
        check_reshaped(run.outputs[i], expected.outputs.at(i), 1e-5, 1e-5);
      for (std::size_t i = 0; i < run.grads.size(); ++i)
        check_reshaped(run.grads[i], expected.grads.at(i), 1e-4, 1e-5);
    }
  };
  for_each_op(Shapes::any, check);
  for_each_op(Shapes::rows, check);
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
  for_each_op(Shapes::rows, [&](const Op& op) {
    if (changes_input(op)) return;  // of a copy, which is near
    std::vector<Tensor> leaves = leaves_of(op, near.shape()), distant = leaves;
    leaves[0] = near.detach(), distant[0] = far.detach();
    const OpRun expected = run_op(op, as_leaves(op, leaves), {}),
                run = run_op(op, as_leaves(op, distant), {});
    for (std::size_t i = 0; i < run.outputs.size(); ++i)
      check_close(run.outputs[i], expected.outputs.at(i));
    CHECK(run.grads[0].defined() == expected.grads[0].defined());
    if (run.grads[0].defined()) check_close(run.grads[0], expected.grads[0]);
  });
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
