// View: the raw strided memory that kernels work on.
#pragma once

#include <concepts>
#include <cstdint>

#include "ferrite/core/dtype.h"
#include "ferrite/core/fwd.h"
#include "ferrite/core/scalar.h"
#include "ferrite/core/shape.h"
#if !defined(__CUDACC__)  // CUDA sources compile in half the time without Tensor
#include "ferrite/core/tensor.h"
#endif

namespace ferrite::kernels {

/// A tensor's memory and geometry by value. It is safe to capture in queued work: the allocator is
/// stream-ordered, so the memory outlives the work. Converts from Tensor.
struct View {
  View() = default;
  /// A tensor's memory with its sizes and strides, as kernels take it.
  template <std::derived_from<Tensor> T>
  View(const T& t) : data(t.data_ptr()), numel(t.numel()), ndim(t.dim()), dtype(t.dtype()) {
    for (int i = 0; i < ndim; ++i) sizes[i] = t.shape()[i], strides[i] = t.strides()[i];
  }

  /// The address of the first element, as a pointer to T.
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }

  /// Whether the elements lie in row-major order, without gaps.
  bool is_contiguous() const {
    std::int64_t expected = 1;
    for (int i = ndim - 1; i >= 0; --i) {
      if (sizes[i] != 1 && strides[i] != expected) return false;
      expected *= sizes[i];
    }
    return true;
  }

  void* data = nullptr;  ///< the address of the first element
  std::int64_t numel = 0;
  int ndim = 0;  ///< the number of dimensions
  DType dtype = kFloat32;
  /// The size of each dimension; the first ndim are set.
  std::int64_t sizes[kMaxDims];  // the first ndim are set
  /// The step of each dimension, in elements; the first ndim are set.
  std::int64_t strides[kMaxDims];  // in elements
};

}  // namespace ferrite::kernels
