// Helpers for the tests of the runtime.
#pragma once

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/emulator/emulator.h"

/// The call succeeds.
#define OK(call) CHECK(std::string(cudaGetErrorName(call)) == "cudaSuccess")
/// Checks that the call fails with this error, which cudaGetLastError then returns once.
#define FAILS(error, call)                    \
  do {                                        \
    cudaGetLastError();                       \
    CHECK((call) == (error));                 \
    CHECK(cudaGetLastError() == (error));     \
    CHECK(cudaGetLastError() == cudaSuccess); \
  } while (false)

namespace emulator_test {

/// While one of these lives, streams run only when a host thread waits.
class Deferred {
 public:
  explicit Deferred(bool deferred = true) : before_(emulator::settings().deferred) {
    emulator::set_deferred(deferred);
  }
  ~Deferred() { emulator::set_deferred(before_); }
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;

 private:
  bool before_;
};

/// Sets the calling thread's device for the scope of the object.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    cudaGetDevice(&before_);
    OK(cudaSetDevice(device));
  }
  ~OnDevice() { cudaSetDevice(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
};

class TestStream {
 public:
  explicit TestStream(unsigned flags = cudaStreamNonBlocking) {
    OK(cudaStreamCreateWithFlags(&handle_, flags));
  }
  ~TestStream() { cudaStreamDestroy(handle_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

class TestEvent {
 public:
  explicit TestEvent(unsigned flags = cudaEventDefault) {
    OK(cudaEventCreateWithFlags(&handle_, flags));
  }
  ~TestEvent() { cudaEventDestroy(handle_); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  operator cudaEvent_t() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

/// ints in device memory.
class Ints {
 public:
  explicit Ints(std::size_t size) : size_(size) { OK(cudaMalloc(&data_, size * sizeof(int))); }
  explicit Ints(const std::vector<int>& values) : Ints(values.size()) {
    OK(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice));
  }
  ~Ints() { cudaFree(data_); }
  Ints(const Ints&) = delete;
  Ints& operator=(const Ints&) = delete;

  int* get() const { return data_; }
  std::size_t bytes() const { return size_ * sizeof(int); }
  std::vector<int> values() const {
    std::vector<int> host(size_);
    OK(cudaMemcpy(host.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return host;
  }
  int value() const { return values().at(0); }

 private:
  int* data_ = nullptr;
  std::size_t size_;
};

template <class... P, class... A>
cudaError_t run(cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(P...),
                A&&... arguments) {
  return emulator::launch("kernel", __FILE__, __LINE__, grid, block, 0, stream, kernel,
                          std::forward<A>(arguments)...);
}

// Kernels. Each is launched with one thread unless a test says otherwise.
__global__ inline void set_to(int* x, int value) { *x = value; }
__global__ inline void add_to(int* x, int value) { *x += value; }
__global__ inline void copy_to(int* to, const int* from) { *to = *from; }
__global__ inline void trap_at(unsigned thread) {
  if (threadIdx.x == thread) __trap();
  __syncthreads();
}

}  // namespace emulator_test
