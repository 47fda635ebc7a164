// How an op records itself on the tape: after its forward, it passes a lambda that computes its
// gradient.
//
//   Tensor mul(const Tensor& a, const Tensor& b) {
//     Tensor out = ...;
//     if (recording(a, b))
//       record(out, "mul", {a, b},
//              [a = Saved(a), b = Saved(b)](const Tensor& grad, Needs needs) -> Gradients {
//                return {needs[0] ? mul(grad, b.get()) : Tensor(),
//                        needs[1] ? mul(grad, a.get()) : Tensor()};
//              });
//     return out;
//   }
//
// A gradient has its input's shape, dtype and device; backward throws AutogradError if its shape is
// another. Gradients written with ops are themselves differentiable (create_graph); one that calls
// kernels directly must call `once_differentiable`.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <type_traits>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/meta.h"
#include "ferrite/autograd/saved.h"

namespace ferrite::autograd {

/// Whether an op on these inputs must be recorded on the tape.
template <class... Tensors>
bool recording(const Tensors&... inputs) {
  return grad_enabled() && ((inputs.defined() && inputs.requires_grad()) || ...);
}
bool recording(std::span<const Tensor> inputs);

/// Throws AutogradError under create_graph. Call it first in a gradient that calls kernels.
void once_differentiable();

namespace detail {

/// A node whose gradient is a lambda: (const Tensor& grad, Needs) for one output, (Gradients&,
/// Needs) for several. It returns Gradients, or a Tensor if there is one input.
template <class Backward>
class LambdaNode final : public Node {
 public:
  LambdaNode(const char* name, const Stream& stream, std::uint32_t outputs, Backward&& backward)
      : Node(name, stream, outputs), backward_(std::move(backward)) {}

  Gradients backward(Gradients grads) override {
    if (!backward_) fail_released(name);
    if constexpr (std::is_invocable_v<Backward&, const Tensor&, Needs>) {
      using R = std::invoke_result_t<Backward&, const Tensor&, Needs>;
      if constexpr (std::is_base_of_v<Tensor, R>) {
        Gradients result(1);
        result[0] = (*backward_)(grads[0], needs());
        return result;
      } else {
        return (*backward_)(grads[0], needs());
      }
    } else {
      return (*backward_)(grads, needs());
    }
  }
  /// A gradient that saved nothing may run any number of times.
  void release_saved() override {
    if constexpr (!std::is_trivially_destructible_v<Backward>) backward_.reset();
  }

 private:
  std::optional<Backward> backward_;
};

using Inputs = std::initializer_list<std::reference_wrapper<const Tensor>>;

void link_inputs(Node& node, Inputs inputs);
void link_inputs(Node& node, std::span<const Tensor> inputs);
/// AutogradError if `out` is on the tape already.
void check_result(const Tensor& out, const char* name);
void link_output(const Tensor& out, IntrusivePtr<Node> node, std::uint32_t output);
void link_inplace(const Tensor& self, IntrusivePtr<Node> node);

}  // namespace detail

/// Makes `out` the result of a node with these inputs (undefined ones are allowed). AutogradError
/// if it is on the tape already, as an input that requires a gradient is: return a view of that.
template <class Backward>
void record(const Tensor& out, const char* name, detail::Inputs inputs, Backward backward) {
  auto node = make_intrusive<detail::LambdaNode<Backward>>(name, current_stream(out.device()), 1u,
                                                           std::move(backward));
  node->output_shape = out.shape();
  detail::link_inputs(*node, inputs);
  detail::link_output(out, std::move(node), 0);
}
template <class Backward>
void record(const Tensor& out, const char* name, std::span<const Tensor> inputs,
            Backward backward) {
  auto node = make_intrusive<detail::LambdaNode<Backward>>(name, current_stream(out.device()), 1u,
                                                           std::move(backward));
  node->output_shape = out.shape();
  detail::link_inputs(*node, inputs);
  detail::link_output(out, std::move(node), 0);
}
/// Several outputs: `backward` takes (Gradients&, Needs); undefined gradients count as zero.
template <class Backward>
void record_many(std::span<const Tensor> outs, const char* name, std::span<const Tensor> inputs,
                 Backward backward) {
  for (const Tensor& out : outs) detail::check_result(out, name);
  auto node = make_intrusive<detail::LambdaNode<Backward>>(name, current_stream(outs[0].device()),
                                                           static_cast<std::uint32_t>(outs.size()),
                                                           std::move(backward));
  detail::link_inputs(*node, inputs);
  for (std::uint32_t i = 0; i < outs.size(); ++i) detail::link_output(outs[i], node, i);
}

/// Marks the node that made `out` as one that communicates (Node::communicates).
void mark_communicating(const Tensor& out);
/// How often this thread has called mark_communicating().
std::uint64_t communicating_nodes();

/// Records that `out` is a view of `base`, so that in-place changes of either reach the history of
/// both. View ops always call it, after record(). Under no_grad, `out` stays off the tape, and
/// check_inplace refuses to change it while recording if its base requires a gradient.
void link_view(const Tensor& out, const Tensor& base);

/// Call before an in-place op writes `self`. Throws AutogradError while recording if `self` is a
/// leaf that requires a gradient, a view of one, or a view made under no_grad; ValueError if
/// elements of `self` share memory (expand, overlapping windows of unfold).
void check_inplace(const Tensor& self, const char* op);
/// Call after the write: counts the change. `op` must be a string literal.
inline void changed_inplace(const Tensor& self, const char* op) {
  self.storage()->bump_version(op);
}
/// If recording(self, others...): makes `self` the result of a node whose first input is its
/// previous value. Call after changed_inplace. `backward` as in record().
template <class Backward>
void record_inplace(const Tensor& self, const char* name, detail::Inputs inputs,
                    Backward backward) {
  auto node = make_intrusive<detail::LambdaNode<Backward>>(name, current_stream(self.device()), 1u,
                                                           std::move(backward));
  node->output_shape = self.shape();
  detail::link_inputs(*node, inputs);
  detail::link_inplace(self, std::move(node));
}

}  // namespace ferrite::autograd
