#include "ferrite/core/tracing.h"

#include <mutex>

namespace ferrite::tracing {

namespace {

std::mutex mutex;
int scopes = 0;  // in all threads

}  // namespace

Scope::Scope(Recorder& recorder) : listening_(&recorder) {
  const std::lock_guard lock(mutex);
  if (scopes++ == 0)
    profiler::detail::flags.hooks.fetch_or(profiler::detail::kTrace, std::memory_order_relaxed);
}

Scope::~Scope() {
  const std::lock_guard lock(mutex);
  if (--scopes == 0)
    profiler::detail::flags.hooks.fetch_and(~std::uint32_t{profiler::detail::kTrace},
                                            std::memory_order_relaxed);
}

}  // namespace ferrite::tracing
