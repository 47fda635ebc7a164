// core/cuda_backend.h for builds without CUDA: no CUDA device can be constructed there, so most of
// this is never reached.
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/core/late_errors.h"

namespace ferrite::detail::cuda {

namespace {

[[noreturn]] void fail_absent(const char* op) {
  fail<DeviceError>(op, "this build of Ferrite has no CUDA");
}

}  // namespace

StreamImpl* default_stream(int) { fail_absent("stream"); }
StreamImpl* pooled_stream(int, StreamPriority) { fail_absent("stream"); }
void synchronize(int) { fail_absent("synchronize"); }
void drain(int) { fail_absent("synchronize"); }
void throw_late_errors(StreamImpl&) {}
int current_device() { fail_absent("device"); }
void restore_device(int) noexcept {}
Allocator& allocator(int) { fail_absent("allocator"); }
Allocator& pinned_allocator() { fail_absent("pin_memory"); }
void copy_bytes(const Stream&, void*, const Device&, const void*, const Device&, std::size_t) {
  fail_absent("copy");
}
bool is_capturing(const Stream&) { return false; }
std::uint64_t capture_id(const Stream&) { return 0; }
void captured_seek(const Stream&, Generator&, const PhiloxState&) {}
void captured_before_replay(const Stream&, std::function<void()>) {}
std::optional<PhiloxState> captured_draw(const Stream&, Generator&, std::uint64_t) { return {}; }

}  // namespace ferrite::detail::cuda
