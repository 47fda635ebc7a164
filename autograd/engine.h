// Running the tape backward.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite {

/// Removes its hook when told to; letting the handle go keeps the hook.
class TensorHook {
 public:
  TensorHook() = default;
  explicit TensorHook(std::function<void()> remove) : remove_(std::move(remove)) {}
  void remove() {
    if (remove_) std::exchange(remove_, nullptr)();
  }

 private:
  std::function<void()> remove_;
};

namespace autograd {

/// Whether the backward pass that runs in this thread was asked to record itself.
bool creating_graph();

/// Whether the backward pass that runs in this thread adds to grad() of leaves: backward(), and not
/// grad(); and whether it leads to this leaf.
bool accumulates();
bool accumulates_into(const Tensor& leaf);

/// For hooks: `f` is called once by the thread that called backward() or grad(), when the innermost
/// pass that runs in this thread is complete and that thread's current streams wait for all of its
/// work; in the order of these calls, and not at all where the pass fails. What it throws comes out
/// of backward(). AutogradError outside a pass.
void queue_callback(std::function<void()> f);

/// Accumulates into grad() of every leaf that `outputs` depend on. `gradients`: one an output of
/// the same shape, dtype and device; undefined (or an empty list) means 1 for one-element outputs.
/// AutogradError where an output requires no gradient or the graph was released.
void backward(std::span<const Tensor> outputs, std::span<const Tensor> gradients = {},
              bool retain_graph = false, bool create_graph = false);

/// torch.autograd.grad: the gradients of `inputs` (any tensors on the tape), touching no grad().
/// An input that the outputs do not depend on is an AutogradError, or an undefined result where
/// `allow_unused`.
std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> gradients = {}, bool retain_graph = false,
                         bool create_graph = false, bool allow_unused = false);

}  // namespace autograd
}  // namespace ferrite
