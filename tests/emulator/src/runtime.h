// Common state of all runtime functions: one lock, the current device, the errors.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "ferrite/tests/emulator/src/settings.h"

namespace emulator {

/// The emulator's only lock, held for everything including kernels; it is released while a host
/// function runs or a thread waits for one.
extern std::mutex runtime_mutex;
extern std::condition_variable work_done;

class Lock {
 public:
  Lock() : lock_(runtime_mutex) {}
  std::unique_lock<std::mutex>& get() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

int current_device();
void set_current_device(int device);

/// The error that a trapped kernel left on a device: every call fails with it until a reset.
cudaError_t sticky_error(int device);
void set_sticky_error(int device, cudaError_t error);

/// See emulator::has_context(); cudaDeviceReset() drops it.
void drop_context(int device);

/// Stores `error` for cudaGetLastError of this thread, unless it is success; returns it.
cudaError_t remember(cudaError_t error);
cudaError_t last_error_of_thread();
void clear_error();

/// The value of host_waits(); with the lock held.
extern HostWaits waits_so_far;

/// Runs before the body of the runtime function `name`: errors requested by fail_next, sticky
/// errors of the device, calls from inside a kernel.
cudaError_t begin_call(const char* name);

/// Runs the body of a runtime function with the lock held.
template <class Body>
cudaError_t api(const char* name, Body body) {
  if (const cudaError_t error = begin_call(name); error != cudaSuccess) return remember(error);
  Lock lock;
  return remember(body(lock.get()));
}

}  // namespace emulator
