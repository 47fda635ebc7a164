// Whether operations of this thread are recorded.
#pragma once

#include <utility>

namespace ferrite {

namespace detail {
inline thread_local bool grad_mode = true;
}

/// Independent of eval mode (nn::Module::eval) and of freezing (set_requires_grad(false)).
inline bool grad_enabled() { return detail::grad_mode; }

/// Turns recording on or off for the scope of the guard.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool enabled) : previous_(std::exchange(detail::grad_mode, enabled)) {}
  ~GradModeGuard() { detail::grad_mode = previous_; }
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool previous_;
};

/// torch.no_grad().
class NoGradGuard : public GradModeGuard {
 public:
  NoGradGuard() : GradModeGuard(false) {}
};

/// torch.enable_grad().
class EnableGradGuard : public GradModeGuard {
 public:
  EnableGradGuard() : GradModeGuard(true) {}
};

// libtorch's names.
using AutoGradMode = GradModeGuard;
/// As NoGradGuard, unless `enabled` is false.
class InferenceMode : public GradModeGuard {
 public:
  explicit InferenceMode(bool enabled = true) : GradModeGuard(!enabled && grad_enabled()) {}
};
struct GradMode {
  static bool is_enabled() { return grad_enabled(); }
  static void set_enabled(bool on) { detail::grad_mode = on; }
};

/// Calls `body` without recording.
template <class F>
decltype(auto) no_grad(F&& body) {
  NoGradGuard guard;
  return std::forward<F>(body)();
}

}  // namespace ferrite
