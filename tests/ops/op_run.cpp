#include "ferrite/tests/ops/op_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "ferrite/core/allocator.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/copy.h"
#include "ferrite/tests/support/close.h"

namespace ferrite::test {

Poisoned::Poisoned(const Device& device) : device_(device) { allocator(device).set_poison(true); }

Poisoned::~Poisoned() {
  synchronize(device_);
  allocator(device_).set_poison(false);
}

std::vector<Tensor> as_leaves(const Op& op, std::vector<Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if ((op.args[i].fill == Fill::real || op.args[i].fill == Fill::positive) &&
        is_floating(inputs[i].dtype()))
      inputs[i].set_requires_grad();
  return inputs;
}

std::vector<Tensor> make_leaves(const Op& op, DType dtype, const Device& device) {
  return as_leaves(op, make_inputs(op, dtype, device));
}

Tensor make_weight(const Tensor& out, const Device& device) {
  return make_input({out.shape()}, out.dtype(), device, 5);
}

OpRun run_op(const Op& op, const std::vector<Tensor>& leaves, const Device& device,
             const std::vector<Tensor>& weights) {
  manual_seed(1);
  return run_unseeded(op, leaves, device, weights);
}

OpRun run_unseeded(const Op& op, const std::vector<Tensor>& leaves, const Device& device,
                   const std::vector<Tensor>& weights) {
  std::vector<Tensor> inputs = leaves;
  if (changes_input(op)) inputs[0] = leaves[0].clone();
  OpRun r{op.call(inputs, device), {}};
  for (std::size_t i = 0; i < r.outputs.size(); ++i) {
    const Tensor& out = r.outputs[i];
    if (!out.requires_grad()) continue;
    out.backward(i < weights.size() ? weights[i] : make_weight(out, out.device()), true);
  }
  for (const Tensor& leaf : leaves) r.grads.push_back(leaf.grad());
  return r;
}

std::string compare(const Tensor& actual, const Tensor& expected, double factor, double largest) {
  if (actual.defined() != expected.defined())
    return actual.defined() ? "is defined" : "is undefined";
  if (!actual.defined()) return "";
  // A copy from one device to another fills gaps, where a tensor that stays is handed on.
  const bool handed_on = actual.device() == expected.device();
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape() ||
      (actual.strides() != expected.strides() && !handed_on))
    return fmt::format("got {} of strides {}, expected {} of strides {}", actual.describe(),
                       actual.strides(), expected.describe(), expected.strides());
  const std::vector<double> values = expected.to_vector<double>();
  for (double v : values)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  const double rounding = rounding_of(expected.dtype());
  return difference(actual, values, 2 * factor * rounding, factor * rounding * largest);
}

std::string compare(const OpRun& actual, const OpRun& expected, double factor, double largest) {
  std::string text;
  const auto add = [&](const char* what, std::size_t i, const Tensor& a, const Tensor& e) {
    const std::string difference = compare(a, e, factor, largest);
    if (!difference.empty()) text += fmt::format("\n{} {}: {}", what, i, difference);
  };
  for (std::size_t i = 0; i < expected.outputs.size(); ++i)
    add("output", i, actual.outputs.at(i), expected.outputs[i]);
  for (std::size_t i = 0; i < expected.grads.size(); ++i)
    add("gradient of input", i, actual.grads.at(i), expected.grads[i]);
  return text;
}

TimedGate::TimedGate(const Stream& stream) : stream_(stream) {
  stream.enqueue([this] {
    std::unique_lock lock(mutex_);
    timed_out_ = !changed_.wait_for(lock, std::chrono::seconds(20), [this] { return open_; });
  });
}

bool TimedGate::open() {
  {
    std::lock_guard lock(mutex_);
    open_ = true;
  }
  changed_.notify_all();
  try {
    stream_.synchronize();
  } catch (...) {
    if (std::uncaught_exceptions() == 0) error_ = std::current_exception();
  }
  return !timed_out_;
}

}  // namespace ferrite::test
