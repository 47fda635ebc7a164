// The tape: one Node per recorded operation, linked from outputs to inputs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ferrite/autograd/module_path.h"
#include "ferrite/core/inline_vector.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"

namespace ferrite::autograd {

/// One gradient per input (or output), undefined if there is none.
using Gradients = InlineVector<Tensor, 3>;

class Node;

/// Where a gradient goes: output number `output` of `node`, or a leaf tensor, or nowhere.
struct Edge {
  IntrusivePtr<Node> node;   ///< the node that the gradient goes to
  Tensor leaf;               ///< the leaf tensor that the gradient goes to
  std::uint32_t output = 0;  ///< the number of the node's output

  /// Whether the gradient goes anywhere.
  bool valid() const { return node || leaf.defined(); }
};

namespace detail {
/// One bit per input (the first 64): whether the pass in this thread needs its gradient. grad()
/// does not need all.
inline thread_local std::uint64_t wanted_edges = ~std::uint64_t{0};

/// Anomaly mode (autograd/anomaly.h): whether new nodes keep their call stacks.
inline constinit std::atomic<bool> keeps_call_stacks{false};
std::vector<void*> call_stack();
}  // namespace detail

/// Which inputs need a gradient: a backward computes no others.
class Needs {
 public:
  explicit Needs(const InlineVector<Edge, 3>& edges)
      : edges_(&edges), wanted_(detail::wanted_edges) {}
  /// Whether the gradient of this input is needed.
  bool operator[](std::size_t input) const {
    return (*edges_)[input].valid() && (input >= 64 || (wanted_ >> input & 1u));
  }

 private:
  const InlineVector<Edge, 3>* edges_;
  std::uint64_t wanted_;
};

/// A function that sees gradients and may replace them.
using GradientHook = std::function<Tensor(const Tensor&)>;

class Node : public RefCounted {
 public:
  /// `name` is a string literal. Newer nodes of a thread have higher sequence numbers.
  Node(const char* name, const Stream& stream, std::uint32_t outputs = 1);
  virtual ~Node() = default;

  /// Gradients of the inputs from those of the outputs (undefined ones count as zero).
  virtual Gradients backward(Gradients outputs) = 0;
  /// Releases the tensors that forward saved; a second backward() then throws AutogradError.
  virtual void release_saved() = 0;
  /// The gradient of the only input if that of the only output is 1, where it need not be computed:
  /// a backward pass whose root this is then begins at the input.
  virtual Tensor gradient_of_one() { return {}; }

  /// Which inputs need a gradient.
  Needs needs() const { return Needs(edges); }

  /// Calls `hook` on the gradient of output `output` before backward(), in the order added; returns
  /// an id for remove_hook.
  std::uint64_t add_hook(std::uint32_t output, GradientHook hook);
  /// Called after those hooks, with the gradient they produced.
  void add_observer(std::uint32_t output, GradientHook hook);
  /// Removes the hook that has this id.
  void remove_hook(std::uint64_t id);
  /// Whether a hook or an observer is registered.
  bool has_hooks() const { return hooks_ && !hooks_->empty(); }
  /// Runs the hooks and observers on the gradients of the outputs.
  void run_hooks(Gradients& outputs) const;

  /// Destroys chains of any length without recursion.
  static void release_last(Node* node);

  const char* const name;
  /// The position in the order of recording: newer nodes of a thread have higher numbers.
  const std::uint64_t sequence;
  const std::uint32_t outputs;                     ///< the number of outputs
  const char* const module = detail::module_path;  ///< in whose forward() it was made, or null
  const Stream stream;          ///< the stream of forward; backward runs on it too
  InlineVector<Edge, 3> edges;  ///< one per input
  /// The shape of the only output, which a gradient for it must have; unset for other nodes.
  std::optional<Shape> output_shape;
  /// Whether backward() communicates with other processes: a pass over several devices runs such
  /// nodes one at a time, newest first, so that all processes come to them in the same order.
  bool communicates = false;
  /// Return addresses, innermost first, if the node was made in anomaly mode.
  const std::vector<void*> call_stack;

 private:
  struct Hook {
    std::uint64_t id;
    std::uint32_t output;  ///< the number of the node's output
    GradientHook call;
    bool observes = false;
  };
  std::unique_ptr<std::vector<Hook>> hooks_;
};

/// Throws ShapeError, DTypeError or DeviceError if the gradient returned by a hook on the result of
/// `name` cannot replace `grad`.
void check_replacement(const Tensor& grad, const Tensor& replaced, const char* name);

/// A fresh id for a hook of any kind.
std::uint64_t next_hook_id();

/// Throws the error for a second backward() through a released node.
[[noreturn]] void fail_released(const char* name);

/// The node whose backward() is running in this thread; null outside.
Node* current_node();

/// Makes `node` the current one until the scope ends.
class CurrentNodeScope {
 public:
  explicit CurrentNodeScope(Node* node);
  ~CurrentNodeScope();
  CurrentNodeScope(const CurrentNodeScope&) = delete;
  CurrentNodeScope& operator=(const CurrentNodeScope&) = delete;

 private:
  Node* outer_;
};

}  // namespace ferrite::autograd
