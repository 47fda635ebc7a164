// Every op on the host and on an asynchronous device: the same bits, forward and backward, without
// waiting for the device, whatever happens to the memory of temporaries while work is queued.
#include <doctest/doctest.h>

#include <optional>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/ops/op_run.h"
#include "ferrite/tests/ops/op_table.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

const Device kWorker("cpu:1");

void check_same(const Tensor& actual, const Tensor& expected) {
  REQUIRE(actual.defined() == expected.defined());
  if (!actual.defined()) return;
  CHECK(actual.shape() == expected.shape());
  CHECK(actual.strides() == expected.strides());
  check_equal(actual, expected);
}

}  // namespace

TEST_CASE("every op has the same bits on cpu and on cpu:1, forward and backward") {
  const Poisoned poison(kWorker);
  for (const Op& op : op_table()) {
    for (DType dtype : {kFloat32, kFloat16, kFloat64}) {
      if (!takes(op.takes, dtype)) continue;
      CAPTURE(op.name);
      CAPTURE(name(dtype));
      const OpRun host = run_op(op, make_leaves(op, dtype, {}), {});
      const OpRun worker = run_op(op, make_leaves(op, dtype, kWorker), kWorker);
      REQUIRE(host.outputs.size() == worker.outputs.size());
      for (std::size_t i = 0; i < host.outputs.size(); ++i)
        check_same(worker.outputs[i], host.outputs[i]);
      for (std::size_t i = 0; i < host.grads.size(); ++i)
        check_same(worker.grads[i], host.grads[i]);
    }
  }
}

TEST_CASE("no op waits for its device, but for those that say so") {
  for (const Op& op : op_table()) {
    if (op.on_host) continue;
    CAPTURE(op.name);
    const std::vector<Tensor> leaves = make_leaves(op, kFloat32, kWorker);
    std::vector<Tensor> weights;
    for (const Tensor& out : run_op(op, make_leaves(op, kFloat32, {}), {}).outputs)
      weights.push_back(make_weight(out, kWorker));
    synchronize(kWorker);
    TimedGate gate(current_stream(kWorker));
    run_op(op, leaves, kWorker, weights);
    CHECK(gate.open());
    CHECK(!gate.error());
  }
}

TEST_CASE("temporaries may go while the work that uses them is queued") {
  const Poisoned poison(kWorker);
  const auto train = [](const Device& device) {
    Tensor x = make_input({{16, 8}}, kFloat32, device),
           w = make_input({{8, 8}}, kFloat32, device, 1);
    const Tensor y = make_input({.shape = {16}, .fill = Fill::index, .limit = 8}, kFloat32, device);
    synchronize(device);
    w.set_requires_grad();
    std::optional<TimedGate> gate;
    if (!device.is_host()) gate.emplace(current_stream(device));
    for (int step = 0; step < 100; ++step) {
      w.set_grad({});
      Tensor h = x;
      for (int layer = 0; layer < 3; ++layer) h = relu(matmul(h, w) + 0.1) * 0.5;
      cross_entropy(h - mean(h, {1}, true), y).backward();
      no_grad([&] { w.sub_(w.grad() * 0.1); });
    }
    return w.detach();
  };
  check_equal(train(kWorker), train({}));
}

TEST_CASE("a number from the host goes along with queued work as it was") {
  const Tensor x = ones({3}, {.device = kWorker}), scale = tensor(2.0);
  synchronize(kWorker);
  TimedGate gate(current_stream(kWorker));
  const Tensor y = x * scale;
  scale.fill_(7);
  CHECK(gate.open());
  CHECK(y.to_vector<double>() == std::vector<double>{2, 2, 2});
}

TEST_CASE("errors of queued kernels surface when the device is synchronised, and once") {
  const std::vector<double> probabilities{0.5, 1.5};
  const Tensor p = from_vector(probabilities, {2}).to(kWorker);
  const Tensor result = binary_cross_entropy(p, zeros_like(p));
  CHECK_THROWS_WITH_AS(synchronize(kWorker), doctest::Contains("[binary_cross_entropy]"),
                       ValueError);
  synchronize(kWorker);

  const Tensor weight = make_input({{4, 2}}, kFloat32, kWorker);
  weight.set_requires_grad();
  const Tensor rows = embedding(from_vector<std::int64_t>({1, 4}, {2}).to(kWorker), weight);
  CHECK_THROWS_WITH_AS(rows.to_vector<float>(), doctest::Contains("[embedding] index 4"),
                       IndexError);
  synchronize(kWorker);
  sum(embedding(from_vector<std::int64_t>({1, 3}, {2}).to(kWorker), weight)).backward();
  CHECK(weight.grad().to_vector<double>() == std::vector<double>{0, 0, 1, 1, 0, 0, 1, 1});
}
