// The tape's data of a tensor.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "ferrite/autograd/node.h"

namespace ferrite::autograd {

struct Meta final : AutogradMeta {
  std::string note(const Tensor& tensor) const override;

  bool requires_grad = false;  ///< for leaves; other tensors require a gradient because they have a
                               ///< node
  std::uint32_t output = 0;    ///< index among the node's outputs
  IntrusivePtr<Node> node;

  // A view follows the history of its `base`: `base_rebases` is the base's counter when the view's
  // node was created; if the base's has advanced since, the node is created again.
  Tensor base;
  std::uint32_t base_rebases = 0;
  /// A view created under no_grad of a tensor that required a gradient: it is treated as a
  /// constant, whatever happens to its base.
  bool unrecorded_view = false;
  std::uint32_t rebases = 0;  ///< in-place changes recorded through this tensor or views of it

  /// Guards `grad`: several backward passes may reach a leaf at once.
  std::mutex mutex;
  Tensor grad;

  /// The gradient of a tensor that is not a leaf (retain_grad); its node's hook writes it.
  struct Retained {
    std::mutex mutex;
    Tensor grad;
  };
  std::shared_ptr<Retained> retained;

  struct LeafHooks {
    struct Pre {
      std::uint64_t id;
      GradientHook call;
    };
    struct Post {
      std::uint64_t id;
      std::function<void(const Tensor&)> call;
    };
    std::vector<Pre> pre;    // run on the final gradient, before it is accumulated
    std::vector<Post> post;  // after
  };
  std::unique_ptr<LeafHooks> leaf_hooks;
};

/// Null if the tensor has none.
inline Meta* meta_of(const Tensor& t) { return static_cast<Meta*>(t.impl()->autograd.get()); }
/// Created if missing.
Meta& require_meta(const Tensor& t);

/// Where the gradient of `t` goes; an invalid edge if it requires none.
Edge gradient_edge(const Tensor& t);

/// Writes `from` into a view of zeros. Where elements of the view share memory, theirs add up.
void add_into_zeros(const Tensor& view, const Tensor& from);

/// A new handle on the same memory and geometry, off the tape.
Tensor alias(const Tensor& t);

/// Gives `t` itself the geometry of view(t), and the history, whatever the grad mode: its gradients
/// have another shape from here on. AutogradError for a leaf that requires a gradient while
/// recording.
void set_geometry(const Tensor& t, const char* op,
                  const std::function<Tensor(const Tensor&)>& view);

}  // namespace ferrite::autograd
