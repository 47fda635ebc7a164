// The autocast state of this thread, as far as the tape must know it. The user interface is in
// ops/autocast.h.
#pragma once

#include <utility>

#include "ferrite/core/intrusive_ptr.h"

namespace ferrite::autograd {

/// The settings of an autocast region.
class AutocastState : public RefCounted {
 public:
  virtual ~AutocastState() = default;
  /// A copy with the same settings and an empty cache, for work that is repeated or runs in another
  /// thread.
  virtual IntrusivePtr<AutocastState> renewed() const = 0;
  /// Whether autocast does the same under both.
  virtual bool same_settings(const AutocastState& other) const = 0;

 protected:
  AutocastState() = default;
};

namespace detail {
inline thread_local AutocastState* current_autocast = nullptr;
}

/// Null if autocast is off.
inline AutocastState* autocast_state() { return detail::current_autocast; }

/// Sets this thread's state to `state`, which must outlive the scope; null turns autocast off.
class AutocastScope {
 public:
  explicit AutocastScope(AutocastState* state)
      : outer_(std::exchange(detail::current_autocast, state)) {}
  ~AutocastScope() { detail::current_autocast = outer_; }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastState* outer_;
};

}  // namespace ferrite::autograd
