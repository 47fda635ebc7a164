// Allocation of device and host memory.
#include <cstring>

#include "ferrite/tests/emulator/src/graph.h"
#include "ferrite/tests/emulator/src/memory.h"
#include "ferrite/tests/emulator/src/race.h"
#include "ferrite/tests/emulator/src/runtime.h"
#include "ferrite/tests/emulator/src/stream.h"

using namespace emulator;

namespace {

/// A call that a graph could not contain: an error while a capture forbids it.
template <class Body>
cudaError_t unsafe_api(const char* name, std::uint64_t HostWaits::*counted, Body body) {
  return api(name, [&](HeldLock& lock) {
    ++(waits_so_far.*counted);
    if (const cudaError_t error = check_unsafe(); error != cudaSuccess) return error;
    return body(lock);
  });
}

cudaError_t allocate(void** pointer, std::size_t bytes) {
  if (!pointer) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  *pointer = allocate_device(current_device(), bytes);
  return *pointer ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t release_host(const char* name, void* pointer) {
  return unsafe_api(name, &HostWaits::frees, [&](HeldLock& lock) {
    if (!pointer) return cudaSuccess;
    wait_for_device(current_device(), lock);
    return free_host(pointer) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

/// Applies `change` to the memory in stream order.
void change_in_order(cudaStream_t handle, const void* address, std::size_t bytes, const char* name,
                     void (*change)(const void*, std::size_t)) {
  const Lock lock;
  const StreamPtr stream = resolve(handle);
  if (!stream) return;
  if (stream->capture) {
    if (change == permit_device) change(address, bytes);
    return;
  }
  auto operation = std::make_shared<Operation>();
  operation->kind = Operation::Kind::memory;
  operation->name = name;
  operation->run = [=] {
    change(address, bytes);
    race_range(address, bytes, true);
  };
  enqueue(stream, std::move(operation));
}

int device_of(const void* pointer) {
  const Allocation* const a = find_live(pointer);
  return a ? a->device : current_device();
}

}  // namespace

namespace emulator {

void poison(cudaStream_t stream, const void* address, std::size_t bytes) {
  change_in_order(stream, address, bytes, "the allocator, to which the memory was given back",
                  forbid_device);
}
void unpoison(cudaStream_t stream, const void* address, std::size_t bytes) {
  change_in_order(stream, address, bytes, "the allocator, which hands the memory out",
                  permit_device);
}

}  // namespace emulator

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return unsafe_api("cudaMalloc", &HostWaits::allocations,
                    [&](HeldLock&) { return allocate(pointer, bytes); });
}

cudaError_t cudaFree(void* pointer) {
  return unsafe_api("cudaFree", &HostWaits::frees, [&](HeldLock& lock) {
    if (!pointer) return cudaSuccess;
    wait_for_device(device_of(pointer), lock);
    return free_device(pointer) || free_host(pointer) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return api("cudaMallocAsync", [&](HeldLock&) {
    const StreamPtr on = resolve(stream);
    if (!on) return cudaErrorInvalidResourceHandle;
    if (on->capture) return cudaErrorStreamCaptureUnsupported;  // graphs own no memory here
    return allocate(pointer, bytes);
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  return api("cudaFreeAsync", [&](HeldLock&) {
    const StreamPtr stream = resolve(handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    const Allocation* const a = find_live(pointer);
    if (!a || a->kind != Allocation::Kind::device) return cudaErrorInvalidValue;
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::memory;
    operation->name = "cudaFreeAsync";
    operation->run = [pointer] { free_device(pointer); };
    if (stream->capture) return cudaErrorStreamCaptureUnsupported;
    return issue(stream, std::move(operation));
  });
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return unsafe_api("cudaHostAlloc", &HostWaits::allocations, [&](HeldLock&) {
    if (!pointer) return cudaErrorInvalidValue;
    *pointer = nullptr;
    constexpr unsigned kKnown =
        cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    if (flags & ~kKnown) return cudaErrorInvalidValue;
    if (bytes == 0) return cudaSuccess;
    *pointer = allocate_host(bytes, current_device(), Allocation::Kind::pinned, flags);
    return *pointer ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* pointer) { return release_host("cudaFreeHost", pointer); }

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  return unsafe_api("cudaMallocManaged", &HostWaits::allocations, [&](HeldLock&) {
    if (!pointer || bytes == 0) return cudaErrorInvalidValue;
    *pointer = allocate_host(bytes, current_device(), Allocation::Kind::managed, flags);
    return *pointer ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return unsafe_api("cudaHostRegister", &HostWaits::allocations, [&](HeldLock&) {
    if (!pointer || bytes == 0 || in_device_range(pointer)) return cudaErrorInvalidValue;
    return register_host(pointer, bytes, current_device(), flags)
               ? cudaSuccess
               : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return unsafe_api("cudaHostUnregister", &HostWaits::frees, [&](HeldLock& lock) {
    wait_for_device(current_device(), lock);
    return unregister_host(pointer) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* pointer, unsigned flags) {
  return api("cudaHostGetDevicePointer", [&](HeldLock&) {
    if (!device_pointer || flags || !find_host(pointer)) return cudaErrorInvalidValue;
    *device_pointer = pointer;
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
  return api("cudaHostGetFlags", [&](HeldLock&) {
    const Allocation* const a = find_host(pointer);
    if (!flags || !a) return cudaErrorInvalidValue;
    *flags = a->flags;
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return api("cudaMemGetInfo", [&](HeldLock&) {
    const int device = current_device();
    const std::size_t all = memory_total(device), used = live_bytes(device);
    if (free) *free = used < all ? all - used : 0;
    if (total) *total = all;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return api("cudaPointerGetAttributes", [&](HeldLock&) {
    if (!attributes) return cudaErrorInvalidValue;
    *attributes = {};
    attributes->device = -2;  // the driver's value for unknown memory
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->hostPointer = const_cast<void*>(pointer);
    const Allocation* const a = find_live(pointer);
    if (!a) return cudaSuccess;
    attributes->device = a->device;
    attributes->devicePointer = const_cast<void*>(pointer);
    switch (a->kind) {
      case Allocation::Kind::device:
        attributes->type = cudaMemoryTypeDevice;
        attributes->hostPointer = nullptr;
        break;
      case Allocation::Kind::managed:
        attributes->type = cudaMemoryTypeManaged;
        break;
      default:
        attributes->type = cudaMemoryTypeHost;
    }
    return cudaSuccess;
  });
}

}  // extern "C"
