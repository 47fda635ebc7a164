// What all runtime functions share: one lock, the current device, the errors.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "ferrite/tests/emulator/src/settings.h"

namespace emulator {

/// Everything in the emulator is done under this one lock, kernels included; it is given up while
/// a host function runs or somebody waits for one.
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

/// Remembers `error` for cudaGetLastError of this thread, unless it is success; returns it.
cudaError_t remember(cudaError_t error);
cudaError_t last_error_of_thread();
void clear_error();

/// What host_waits() says; under the lock.
extern HostWaits waits_so_far;

/// What stands between the user and the body of the runtime function `name`: errors asked for by
/// fail_next, sticky errors of the device, calls from inside a kernel.
cudaError_t begin_call(const char* name);

/// Runs the body of a runtime function under the lock.
template <class Body>
cudaError_t api(const char* name, Body body) {
  if (const cudaError_t error = begin_call(name); error != cudaSuccess) return remember(error);
  Lock lock;
  return remember(body(lock.get()));
}

}  // namespace emulator
