// Whether operations of this thread are recorded.
#pragma once

#include <utility>

#include "ferrite/core/storage.h"

namespace ferrite {

namespace detail {
inline thread_local bool grad_mode = true;
}

/// Independent of eval mode (nn::Module::eval) and of freezing (set_requires_grad(false)).
inline bool grad_enabled() { return detail::grad_mode; }

/// Whether InferenceMode is on in this thread.
inline bool inference_mode() { return detail::inference_mode; }

/// Turns recording on or off for the scope of the guard. Under InferenceMode it stays off.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool enabled)
      : previous_(std::exchange(detail::grad_mode, enabled && !detail::inference_mode)) {}
  ~GradModeGuard() { detail::grad_mode = previous_; }
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool previous_;
};

/// torch.no_grad(): nothing is recorded in this thread while it lives.
///
///   NoGradGuard guard;
///   Tensor logits = model(images);  // requires no gradient
class NoGradGuard : public GradModeGuard {
 public:
  NoGradGuard() : GradModeGuard(false) {}
};

/// torch.enable_grad().
class EnableGradGuard : public GradModeGuard {
 public:
  EnableGradGuard() : GradModeGuard(true) {}
};

/// torch.inference_mode(), c10::InferenceMode: nothing is recorded, as under NoGradGuard, and
/// tensors that are made in its scope are inference tensors, for which autograd notes nothing:
/// their version cannot be asked for, views have no bases. Later, outside, they may be read,
/// and be inputs of operations that are not recorded or need not save them; changing them in place,
/// set_requires_grad(true), and saving them for backward are AutogradErrors, and clone() makes a
/// normal tensor. Views of normal tensors are normal tensors, whose changes count.
/// InferenceMode(false) returns to recording for its scope.
class InferenceMode {
 public:
  explicit InferenceMode(bool enabled = true)
      : previous_(std::exchange(detail::inference_mode, enabled)), grad_mode_(!enabled) {}
  ~InferenceMode() { detail::inference_mode = previous_; }
  InferenceMode(const InferenceMode&) = delete;
  InferenceMode& operator=(const InferenceMode&) = delete;

 private:
  bool previous_;
  GradModeGuard grad_mode_;
};

// libtorch's names.
/// Recording is on or off while it lives; libtorch's name of GradModeGuard.
using AutoGradMode = GradModeGuard;
/// Whether operations of this thread are recorded; libtorch's name.
struct GradMode {
  static bool is_enabled() { return grad_enabled(); }
  /// Turns recording on or off in this thread, from here on. Under InferenceMode it stays off.
  static void set_enabled(bool on) { detail::grad_mode = on && !detail::inference_mode; }
};

/// Calls `body` without recording.
template <class F>
decltype(auto) no_grad(F&& body) {
  NoGradGuard guard;
  return std::forward<F>(body)();
}

}  // namespace ferrite
