// Thread names, shown by debuggers, `top -H` and the profiler.
#pragma once

#include <pthread.h>

#include <string>

namespace ferrite::detail {

/// Names the calling thread; the system keeps 15 characters.
inline void name_thread(std::string name) {
  constexpr std::size_t kMost = 15;
  if (name.size() > kMost) name.resize(kMost);
  pthread_setname_np(pthread_self(), name.c_str());
}

}  // namespace ferrite::detail
