// The profiler's per-thread state. For the sources of this folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <vector>

#include "ferrite/core/profiler/records.h"

namespace ferrite::profiler::detail {

/// The id of the session that is recording; 0: none.
inline constinit std::atomic<std::uint64_t> current_session{0};

/// The profiler's state of one thread.
struct ThreadState {
  struct Frame {
    const char* name;
    std::uint64_t session, begin, children, sequence;
    const void* module;
    std::int64_t host_bytes, device_bytes;
    std::uint32_t id, shapes;
    Kind kind;
    bool nvtx, recorded, traced;
  };

  std::shared_ptr<Session> session;  // the session that `log` belongs to
  std::shared_ptr<Log> log;
  std::vector<Frame> frames;
  std::uint32_t last_range = 0;
  const ferrite::detail::StreamImpl* last_stream = nullptr;
  std::unordered_map<std::string_view, const char*> names;
  std::unordered_map<const std::type_info*, const char*> types;

  /// The log in the session that is recording now; null if there is none.
  Log* current_log() {
    const std::uint64_t id = current_session.load(std::memory_order_acquire);
    if (id == 0) return nullptr;
    if (session && session->id == id) [[likely]]
      return log.get();
    return join_session();
  }

  /// The id of the innermost range in this session; 0: none.
  std::uint32_t innermost() const {
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
      if (frame->recorded && session && frame->session == session->id) return frame->id;
    return 0;
  }

 private:
  Log* join_session();
};

// A thread that ends releases its state, and records nothing after that.
inline thread_local constinit ThreadState* this_thread = nullptr;

/// Null if the thread is ending.
ThreadState* make_state();
inline ThreadState* state() { return this_thread ? this_thread : make_state(); }

}  // namespace ferrite::profiler::detail
