// Gradient checkpointing: memory for time (Chen et al., "Training Deep Nets with Sublinear Memory
// Cost", 2016).
//
//   Tensor y = autograd::checkpoint([&](const Tensor& x) { return block(x); }, x);
//
// Tensors that the function's operations save for backward are discarded, and recomputed when
// backward first needs one of them. The tape itself is recorded as usual, so everything works as
// without checkpoint: several inputs and results, parameters that the function uses, grad(), hooks,
// create_graph, nested checkpoints.
//
// The function runs twice and must do the same both times. Random numbers from the default
// generators (of the host and of the inputs' devices), the autocast state and the default device
// are the same in both runs. Code that counts or averages must check is_recomputing(), as batch
// norms do for their running statistics. The function is kept until backward, so what it refers to
// must live as long. Tensors that it captures instead of receiving as inputs must not be changed in
// between.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ferrite/autograd/autocast.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/saved.h"
#include "ferrite/core/device.h"
#include "ferrite/core/generator.h"

namespace ferrite::autograd {

/// Whether this thread is rerunning a checkpointed function for its backward.
bool is_recomputing();

/// While it lives, functions that this thread checkpoints keep `owner` alive until they can no
/// longer be rerun. For callers that own a module and may be destroyed before backward runs.
class CheckpointOwner {
 public:
  explicit CheckpointOwner(std::shared_ptr<const void> owner)
      : outer_(std::exchange(current(), std::move(owner))) {}
  ~CheckpointOwner() { current() = std::move(outer_); }
  CheckpointOwner(const CheckpointOwner&) = delete;
  CheckpointOwner& operator=(const CheckpointOwner&) = delete;

  /// The region that is being recomputed.
  static std::shared_ptr<const void>& current();

 private:
  std::shared_ptr<const void> outer_;
};

namespace detail {

/// One run of a checkpointed function, and the means to rerun it.
class CheckpointRegion : public std::enable_shared_from_this<CheckpointRegion> {
 public:
  using Function = std::function<void(const std::vector<Tensor>&)>;

  CheckpointRegion(Function function, const std::vector<Tensor>& inputs);

  /// Receives a tensor saved by an operation of the function: in the first run to be recomputed
  /// later, in the rerun as the recomputed value.
  void save(Saved& saved);
  /// Reruns the function unless `wanted` has its value already.
  void compute(const RecomputedTensor& wanted);
  /// Reruns it ahead of time if backward will need any of its tensors; returns whether it did.
  bool recompute();

 private:
  void collect(Saved& saved);
  void run_again();

  const std::shared_ptr<const void> owner_;  // keeps alive what the function refers to
  const Function function_;
  const IntrusivePtr<AutocastState> autocast_;
  const Device default_device_ = get_default_device();
  std::vector<Saved> inputs_;
  std::vector<std::pair<Device, PhiloxState>> random_states_;
  std::vector<std::weak_ptr<RecomputedTensor>> tensors_;  // in the order in which they were saved
  std::mutex mutex_;
  bool running_again_ = false;
  std::size_t collected_ = 0;
};

/// A saved tensor that is not kept. Dies with the last Saved that refers to it.
struct RecomputedTensor {
  RecomputedTensor(std::shared_ptr<CheckpointRegion> region, const Tensor& like);
  Tensor get();

  const std::shared_ptr<CheckpointRegion> region;
  const Shape shape;
  const DType dtype;
  Tensor value;
  Stream stream;  ///< the stream that `value` was computed on
  std::uint32_t version = 0;
};

/// Makes a region the current one of this thread for the scope of the object.
class CheckpointScope {
 public:
  explicit CheckpointScope(CheckpointRegion& region)
      : outer_(std::exchange(checkpoint_region, &region)) {}
  ~CheckpointScope() { checkpoint_region = outer_; }
  CheckpointScope(const CheckpointScope&) = delete;
  CheckpointScope& operator=(const CheckpointScope&) = delete;

 private:
  CheckpointRegion* outer_;
};

template <class F, std::size_t... I>
decltype(auto) call_with(F& f, const std::vector<Tensor>& inputs, std::index_sequence<I...>) {
  return f(inputs[I]...);
}

}  // namespace detail

/// f(inputs), a function of a vector of tensors; it may return anything.
template <class F>
auto checkpoint(F f, const std::vector<Tensor>& inputs) {
  if (!grad_enabled()) return f(inputs);
  const auto region = std::make_shared<detail::CheckpointRegion>(
      [f](const std::vector<Tensor>& again) mutable { f(again); }, inputs);
  detail::CheckpointScope scope(*region);
  return f(inputs);
}

/// f(inputs...), a function of tensors.
template <class F, class... Inputs>
requires(std::is_base_of_v<Tensor, Inputs>&&...) auto checkpoint(F f, const Inputs&... inputs) {
  return checkpoint(
      [f](const std::vector<Tensor>& list) mutable {
        return detail::call_with(f, list, std::index_sequence_for<Inputs...>{});
      },
      std::vector<Tensor>{inputs...});
}

}  // namespace ferrite::autograd
