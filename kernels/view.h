// What kernels work on: raw strided memory, and the stream they run on.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace ferrite::kernels {

/// A tensor's memory and geometry by value, safe to carry into queued work: the allocator is
/// ordered by stream, so the memory outlives the work. Converts from Tensor.
struct View {
  View() = default;
  View(const Tensor& t) : data(t.data_ptr()), numel(t.numel()), ndim(t.dim()), dtype(t.dtype()) {
    for (int i = 0; i < ndim; ++i) sizes[i] = t.shape()[i], strides[i] = t.strides()[i];
  }

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }

  bool is_contiguous() const {
    std::int64_t expected = 1;
    for (int i = ndim - 1; i >= 0; --i) {
      if (sizes[i] != 1 && strides[i] != expected) return false;
      expected *= sizes[i];
    }
    return true;
  }

  void* data = nullptr;
  std::int64_t numel = 0;
  int ndim = 0;
  DType dtype = kFloat32;
  std::int64_t sizes[kMaxDims];    // the first ndim are set
  std::int64_t strides[kMaxDims];  // in elements
};

/// Runs the CPU form of a kernel on `stream`, or throws where the device has no such kernel.
template <class F>
void launch(const Stream& stream, const char* op, F&& cpu) {
  if (!stream.device().is_cpu()) [[unlikely]]
    fail<DeviceError>(op, "has no kernel for {}", stream.device());
  stream.enqueue(std::forward<F>(cpu));
}

}  // namespace ferrite::kernels
