// core/cuda/memory_pool.h for builds without CUDA.
#include "ferrite/core/cuda/memory_pool.h"

#include "ferrite/core/error.h"

namespace ferrite::cuda {

namespace {

[[noreturn]] void fail_absent(const Device& device) {
  fail<DeviceError>("memory_pool", "{} has no private pools", device);
}

}  // namespace

PoolId create_pool(const Device& device) { fail_absent(device); }
void begin_pool(const Device& device, PoolId, StreamFilter) { fail_absent(device); }
void end_pool(const Device& device, PoolId) { fail_absent(device); }
void release_pool(const Device&, PoolId) noexcept {}
std::size_t MemoryPool::reserved() const { return 0; }

}  // namespace ferrite::cuda
