// Gradients on cuda:0, emulated or real, beyond one backward pass: of gradients, by finite
// differences, and their bits under deterministic algorithms.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/ops/op_run.h"
#include "ferrite/tests/ops/op_table.h"
#include "ferrite/tests/ops/outcome.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

const char* const kCuda = "cuda:0";

/// The gradients, and then those of their squares, as far as either can be had.
OpRun run_twice_differentiated(const Op& op, const Device& device) {
  const std::vector<Tensor> leaves = make_leaves(op, kFloat64, device);
  manual_seed(1);
  std::vector<Tensor> inputs = leaves;
  if (changes_input(op)) inputs[0] = leaves[0].clone();
  OpRun r{op.call(inputs, device), {}};
  std::vector<Tensor> wanted;
  for (const Tensor& leaf : leaves)
    if (leaf.requires_grad()) wanted.push_back(leaf);
  for (const Tensor& out : r.outputs) {
    if (!out.requires_grad() || wanted.empty()) continue;
    const Tensor weight = make_weight(out, out.device());
    const std::vector<Tensor> first =
        autograd::grad({&out, 1}, wanted, {&weight, 1}, true, true, /*allow_unused=*/true);
    Tensor total;
    for (const Tensor& g : first) {
      r.grads.push_back(g.defined() ? g.detach() : g);
      if (!g.defined() || !g.requires_grad()) continue;
      const Tensor squares = sum(g * g);
      total = total.defined() ? total + squares : squares;
    }
    if (!total.defined()) continue;
    for (const Tensor& g :
         autograd::grad({&total, 1}, wanted, {}, true, false, /*allow_unused=*/true))
      r.grads.push_back(g);
  }
  synchronize(device);
  return r;
}

}  // namespace

TEST_CASE("in a backward pass Device(cuda) is the device of the node") {
  REQUIRE_CUDA(3);
  std::array<std::atomic<int>, 3> seen{-1, -1, -1};
  const auto output = [&](int device) {
    const Tensor x = ones({2}, {.device = Device(kCUDA, device)}).requires_grad_();
    const Tensor y = x * 2;
    y.register_hook([&seen, device](const Tensor&) {
      seen[static_cast<std::size_t>(device)] = Device(kCUDA).index();
      return Tensor();
    });
    return sum(y);
  };
  output(1).backward();  // by the calling thread
  CHECK(seen[1] == 1);
  CHECK(cuda::current_device() == 0);
  const std::vector<Tensor> outputs = {output(2), output(1), output(0)};
  seen[1] = -1;
  autograd::backward(outputs);
  for (int device = 0; device < 3; ++device)
    CHECK(seen[static_cast<std::size_t>(device)] == device);
  CHECK(cuda::current_device() == 0);
}

TEST_CASE("gradients of gradients on a CUDA device") {
  REQUIRE_CUDA(1);
  const Poisoned poison{Device(kCuda)};
  int twice = 0;
  for (const Op& op : op_table()) {
    if (!takes(op.takes, kFloat64)) continue;
    OpRun host, device;
    const std::string on_host = outcome([&] { host = run_twice_differentiated(op, {}); });
    const std::string on_device =
        outcome([&] { device = run_twice_differentiated(op, Device(kCuda)); });
    CHECK_MESSAGE(on_device.empty() == on_host.empty(),
                  op.name << ": " << on_device << ", on the host: " << on_host);
    if (!on_host.empty() || !on_device.empty()) continue;
    CHECK_MESSAGE(device.grads.size() == host.grads.size(), op.name);
    // Squares of gradients, differentiated, are rounded a few times more; some are 0 but for that.
    const std::string text = compare(device, host, 10, 1);
    CHECK_MESSAGE(text.empty(), op.name << text);
    twice += host.grads.size() > 1;
  }
  CHECK(twice > 100);
}

TEST_CASE("finite differences on a CUDA device agree with the tape") {
  REQUIRE_CUDA(1);
  const Device device(kCuda);
  struct Case {
    const char* name;
    autograd::GradcheckFunction function;
    std::vector<Shape> shapes;
    bool second_order;
  };
  using In = const std::vector<Tensor>&;
  const std::vector<Case> cases{
      {"arithmetic", [](In x) { return x[0] * x[1] / (x[1] * x[1] + 1); }, {{3, 4}, {4}}, true},
      {"tanh", [](In x) { return tanh(x[0]); }, {{5}}, true},
      {"matmul", [](In x) { return matmul(x[0], x[1]); }, {{2, 3}, {3, 2}}, true},
      {"conv2d",
       [](In x) { return conv2d(x[0], x[1], x[2], {.stride = 2, .padding = 1}); },
       {{1, 2, 4, 3}, {2, 2, 3, 2}, {2}},
       false},
      {"avg_pool2d", [](In x) { return avg_pool2d(x[0], 2); }, {{1, 2, 4, 4}}, false},
      {"batch_norm",
       [](In x) { return batch_norm(x[0], {}, {}, x[1], x[2], true); },
       {{3, 2, 2}, {2}, {2}},
       true},
      {"layer_norm",
       [](In x) { return layer_norm(x[0], {3}, x[1], x[2]); },
       {{2, 3}, {3}, {3}},
       true},
      {"group_norm",
       [](In x) { return group_norm(x[0], 2, x[1], x[2]); },
       {{2, 4}, {4}, {4}},
       true},
      {"prod", [](In x) { return prod(x[0], 1); }, {{2, 3}}, true},
      {"log_softmax", [](In x) { return log_softmax(x[0], 1); }, {{3, 4}}, true},
      {"mse_loss", [](In x) { return mse_loss(x[0], x[1]); }, {{6}, {6}}, true},
  };
  for (const Case& c : cases) {
    std::vector<Tensor> inputs;
    for (const Shape& shape : c.shapes) {
      inputs.push_back(make_input({shape}, kFloat64, device, static_cast<int>(inputs.size())));
      inputs.back().set_requires_grad();
    }
    const std::string result =
        outcome([&] { autograd::gradcheck(c.function, inputs, {.second_order = c.second_order}); });
    CHECK_MESSAGE(result.empty(), c.name << ": " << result);
  }

  // A gradient that is wrong is seen there too, also through strides.
  const Tensor x = make_input({{2, 3}}, kFloat64, device).transpose(0, 1).detach();
  x.set_requires_grad();
  CHECK(autograd::gradcheck([](In in) { return exp(in[0]); }, {x}));
  CHECK_THROWS_WITH_AS(autograd::gradcheck([](In in) { return exp(in[0]) + in[0].detach(); }, {x}),
                       doctest::Contains("input 0, element 0"), AutogradError);
}

TEST_CASE("every op has a deterministic algorithm on CUDA devices, whatever the order of threads") {
  REQUIRE_CUDA(1);
  const Device device(kCuda);
  const Deterministic deterministic;
  for (const DType dtype : {kFloat32, kFloat16})
    for (const Op& op : op_table()) {
      if (!takes(op.takes, dtype)) continue;
      OpRun runs[2];
      std::uint64_t seed = 1;
      const std::string result = outcome([&] {
        for (OpRun& run : runs) {
          const ShuffledThreads shuffled(seed++);
          run = run_op(op, make_leaves(op, dtype, device), device);
          synchronize(device);
        }
      });
      CHECK_MESSAGE(result.empty(), op.name << ": " << result);
      const std::string text = compare(runs[1], runs[0], 0);
      CHECK_MESSAGE(text.empty(), op.name << " of " << name(dtype) << text);
    }
}

TEST_CASE("sums over many blocks have the same bits, whatever the order of threads") {
  REQUIRE_CUDA(1);
  const Device device(kCuda);
  for (const bool always : {true, false}) {
    // What libraries choose by default is not Ferrite's to promise.
    if (!always && !is_emulated()) break;
    const Deterministic mode(always);
    for (Op op : op_table()) {
      if (op.large.empty()) continue;
      for (std::size_t i = 0; i < op.args.size(); ++i) op.args[i].shape = op.large.at(i);
      OpRun runs[2];
      std::uint64_t seed = 1;
      for (OpRun& run : runs) {
        const ShuffledThreads shuffled(seed++);
        run = run_op(op, make_leaves(op, kFloat32, device), device);
        synchronize(device);
      }
      const std::string text = compare(runs[1], runs[0], 0);
      CHECK_MESSAGE(text.empty(), op.name << text);
    }
  }
}
