// Running the tape backward.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/core/tensor_list.h"

namespace ferrite {

/// A handle that can remove its hook; destroying the handle keeps the hook.
class TensorHook {
 public:
  TensorHook() = default;
  explicit TensorHook(std::function<void()> remove) : remove_(std::move(remove)) {}
  /// The hook is not called from here on.
  void remove() {
    if (remove_) std::exchange(remove_, nullptr)();
  }

 private:
  std::function<void()> remove_;
};

template <std::invocable<const Tensor&> F>
requires std::is_void_v<std::invoke_result_t<F&, const Tensor&>> TensorHook
Tensor::register_hook(F hook)
const {
  return register_hook(std::function<Tensor(const Tensor&)>(
      [hook = std::move(hook)](const Tensor& grad) mutable -> Tensor {
        hook(grad);
        return {};
      }));
}

namespace autograd {

/// Whether the backward pass running in this thread records itself (create_graph).
bool creating_graph();

/// Whether the backward pass running in this thread accumulates into grad() of leaves: true for
/// backward(), false for grad(). The second form also asks whether the pass reaches this leaf.
bool accumulates();
/// Whether a gradient would be added into this tensor.
bool accumulates_into(const Tensor& leaf);

/// In the backward of a node: what has reached the target of its edge `input` from other nodes so
/// far, if the caller alone sees it and may overwrite it on the current stream; otherwise
/// undefined. The node's gradient for that edge must then be the sum of both, so that an op that
/// can add as it writes saves a pass over the data.
Tensor take_partial(std::size_t input);

/// For hooks: `f` is called once, by the thread that called backward() or grad(), when the
/// innermost pass running in this thread is complete and that thread's current streams wait for all
/// of its work. Callbacks run in the order of these calls, and not at all if the pass fails. Their
/// exceptions come out of backward(). AutogradError outside a pass.
void queue_callback(std::function<void()> f);

/// Accumulates into grad() of every leaf that `outputs` depend on. `gradients`: one per output, of
/// the same shape and device, and of a floating type for a floating output; undefined (or an empty
/// list) means 1 for one-element outputs. The graph is kept for further passes with retain_graph,
/// and always with create_graph. AutogradError if an output requires no gradient or the graph was
/// released.
///
///   autograd::backward({loss, other});
void backward(TensorList outputs, TensorList gradients = {}, std::optional<bool> retain_graph = {},
              bool create_graph = false);

/// torch.autograd.grad: returns the gradients of `inputs` (any tensors on the tape) without
/// changing any grad(). For an input that the outputs do not depend on, throws AutogradError, or
/// returns an undefined tensor if `allow_unused`. Other arguments and errors are those of
/// backward().
///
///   std::vector<Tensor> gradients = autograd::grad({loss}, {x, y});
///   gradients = autograd::grad(loss, net.parameters(), {}, std::nullopt, /*create_graph=*/true);
std::vector<Tensor> grad(TensorList outputs, TensorList inputs, TensorList gradients = {},
                         std::optional<bool> retain_graph = {}, bool create_graph = false,
                         bool allow_unused = false);

}  // namespace autograd
}  // namespace ferrite
