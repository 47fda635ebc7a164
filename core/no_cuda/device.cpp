// core/cuda.h for builds without CUDA.
#include "ferrite/core/cuda.h"
#include "ferrite/core/error.h"

namespace ferrite::cuda {

namespace {

[[noreturn]] void fail_absent(const char* op) {
  fail<DeviceError>(op, "there are no CUDA devices: {}", why_unavailable());
}

}  // namespace

bool is_available() { return false; }
int device_count() { return 0; }
std::string why_unavailable() { return "this build of Ferrite is without CUDA"; }

const DeviceProperties& properties(int) { fail_absent("properties"); }
MemoryInfo memory_info(int) { fail_absent("memory_info"); }
bool can_access_peer(int, int) { fail_absent("can_access_peer"); }
int current_device() { fail_absent("current_device"); }
void set_device(int) { fail_absent("set_device"); }

Versions versions() { return {"not built in", "none", "not built in", "not built in"}; }

void detail::push_range(const char*) {}
void detail::pop_range() {}

}  // namespace ferrite::cuda
