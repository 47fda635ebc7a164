// Saved: a tensor kept for backward, checked against in-place changes.
#pragma once

#include <memory>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/node.h"

namespace ferrite::autograd {

namespace detail {
struct RecomputedTensor;
class CheckpointRegion;
/// The checkpointed function running in this thread (autograd/checkpoint.h).
inline thread_local CheckpointRegion* checkpoint_region = nullptr;
}  // namespace detail

class Saved {
 public:
  Saved() = default;
  /// Keeps an input: its memory and history as they are now rather than the tensor itself, since an
  /// in-place op may later give the tensor a history that leads back here.
  Saved(const Tensor& input);
  /// Keeps the op's own output without a reference to the node that holds this, which would be a
  /// cycle. `number` is its place among the outputs.
  static Saved output(const Tensor& out, std::uint32_t number = 0);

  /// The tensor as it was saved. AutogradError, naming both ops, if it was changed in place since.
  Tensor get() const {
    if (!tensor_.defined()) return recomputed_ ? get_recomputed() : Tensor();
    if (tensor_.storage()->version() != version_) [[unlikely]]
      fail_changed(tensor_, version_);
    return grad_enabled() ? with_history(tensor_) : tensor_;
  }
  /// Whether a tensor was saved.
  bool defined() const { return tensor_.defined() || recomputed_; }

 private:
  friend class detail::CheckpointRegion;

  [[noreturn]] static void fail_changed(const Tensor& tensor, std::uint32_t version);
  Tensor with_history(const Tensor& tensor) const;
  Tensor get_recomputed() const;

  Tensor tensor_;                                         // a leaf itself, any other tensor off the
                                                          // tape
  std::shared_ptr<detail::RecomputedTensor> recomputed_;  // used instead inside a checkpoint
  IntrusivePtr<Node> node_;
  std::uint32_t output_number_ = 0;
  std::uint32_t version_ = 0;
  bool is_output_ = false;
};

}  // namespace ferrite::autograd
