// Whether the operations of this thread choose their arguments' dtypes, as far as the tape must
// know of it. What users call is in ops/autocast.h.
#pragma once

#include <utility>

#include "ferrite/core/intrusive_ptr.h"

namespace ferrite::autograd {

/// The settings of a region.
class AutocastState : public RefCounted {
 public:
  virtual ~AutocastState() = default;
  /// The same settings and nothing cached, for work that is done again, or in another thread.
  virtual IntrusivePtr<AutocastState> renewed() const = 0;
  virtual bool same_settings(const AutocastState& other) const = 0;

 protected:
  AutocastState() = default;
};

namespace detail {
inline thread_local AutocastState* current_autocast = nullptr;
}

/// Null where autocast is off.
inline AutocastState* autocast_state() { return detail::current_autocast; }

/// Makes `state`, which must stay, this thread's until the scope ends; null turns autocast off.
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
