// The tape: one Node an operation that was recorded, linked from outputs to inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/inline_vector.h"
#include "core/stream.h"
#include "core/tensor.h"

namespace ferrite::autograd {

/// One gradient an input (or output), undefined where there is none.
using Gradients = InlineVector<Tensor, 3>;

class Node;

/// Where a gradient goes: output number `output` of `node`, or a leaf tensor, or nowhere.
struct Edge {
  IntrusivePtr<Node> node;
  Tensor leaf;
  std::uint32_t output = 0;

  bool valid() const { return node || leaf.defined(); }
};

/// Which inputs want a gradient: a backward computes no other.
class Needs {
 public:
  explicit Needs(const InlineVector<Edge, 3>& edges) : edges_(&edges) {}
  bool operator[](std::size_t input) const { return (*edges_)[input].valid(); }

 private:
  const InlineVector<Edge, 3>* edges_;
};

using GradientHook = std::function<Tensor(const Tensor&)>;

class Node : public RefCounted {
 public:
  /// `name` is a string literal. The sequence number is above that of every node it links to.
  Node(const char* name, const Stream& stream, std::uint32_t outputs = 1);
  virtual ~Node() = default;

  /// Gradients of the inputs from those of the outputs (undefined ones count as zero).
  virtual Gradients backward(Gradients outputs) = 0;
  /// Lets go of what forward saved; a second backward() then throws AutogradError.
  virtual void release_saved() = 0;

  Needs needs() const { return Needs(edges); }

  /// Runs on the gradient of output `output` before backward(); returns an id for remove_hook.
  std::uint64_t add_hook(std::uint32_t output, GradientHook hook);
  void remove_hook(std::uint64_t id);
  void run_hooks(Gradients& outputs) const;

  /// Chains of any length go away without recursion.
  static void release_last(Node* node);

  const char* const name;
  const std::uint64_t sequence;
  const std::uint32_t outputs;
  const Stream stream;          ///< of forward; backward runs on it too
  InlineVector<Edge, 3> edges;  ///< one an input

 private:
  struct Hook {
    std::uint64_t id;
    std::uint32_t output;
    GradientHook call;
  };
  std::unique_ptr<std::vector<Hook>> hooks_;
};

/// A fresh id for a hook of any kind.
std::uint64_t next_hook_id();

/// Throws the error of a second backward() through a released node.
[[noreturn]] void fail_released(const char* name);

/// The node whose backward() runs in this thread; null outside.
Node* current_node();

}  // namespace ferrite::autograd
