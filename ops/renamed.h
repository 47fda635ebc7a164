// Functions made of others: their errors carry their own names.
#pragma once

#include <utility>

#include "ferrite/core/error.h"

namespace ferrite::ops {

namespace detail {
/// Throws the error being handled again, tagged with `op`.
[[noreturn]] void rethrow_as(const char* op);
}  // namespace detail

/// f(), whose errors are tagged with `op` instead of the names of its parts.
template <class F>
decltype(auto) renamed(const char* op, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const Error&) {
    detail::rethrow_as(op);
  }
}

}  // namespace ferrite::ops
