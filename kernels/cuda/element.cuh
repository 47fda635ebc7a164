// Access to single elements of any dtype, for operands so small that a kernel per type does not
// pay.
#pragma once

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/view.h"

namespace ferrite::kernels::cuda {

/// The memory of a view in the form for kernels; null if the view has no data.
struct Elements {
  Elements() = default;
  Elements(const View& v) : data(v.data), dtype(v.dtype) {}

  void* data = nullptr;
  DType dtype = kFloat32;

  /// The element at `offset`, converted as a C++ cast does.
  template <class E>
  __device__ E get(std::int64_t offset) const {
    switch (dtype) {
      case DType::float32:
        return static_cast<E>(at<const float>(offset));
      case DType::float16:
        return static_cast<E>(static_cast<float>(at<const Half>(offset)));
      case DType::bfloat16:
        return static_cast<E>(static_cast<float>(at<const BFloat16>(offset)));
      case DType::float64:
        return static_cast<E>(at<const double>(offset));
      case DType::int64:
        return static_cast<E>(at<const std::int64_t>(offset));
      case DType::int32:
        return static_cast<E>(at<const std::int32_t>(offset));
      case DType::int16:
        return static_cast<E>(at<const std::int16_t>(offset));
      case DType::int8:
        return static_cast<E>(at<const std::int8_t>(offset));
      default:
        return static_cast<E>(at<const std::uint8_t>(offset));
    }
  }
  template <class E>
  __device__ void set(std::int64_t offset, E value) const {
    switch (dtype) {
      case DType::float32:
        at<float>(offset) = static_cast<float>(value);
        return;
      case DType::float16:
        at<Half>(offset) = Half(static_cast<float>(value));
        return;
      case DType::bfloat16:
        at<BFloat16>(offset) = BFloat16(static_cast<float>(value));
        return;
      case DType::float64:
        at<double>(offset) = static_cast<double>(value);
        return;
      case DType::int64:
        at<std::int64_t>(offset) = static_cast<std::int64_t>(value);
        return;
      case DType::int32:
        at<std::int32_t>(offset) = static_cast<std::int32_t>(value);
        return;
      case DType::int16:
        at<std::int16_t>(offset) = static_cast<std::int16_t>(value);
        return;
      case DType::int8:
        at<std::int8_t>(offset) = static_cast<std::int8_t>(value);
        return;
      case DType::uint8:
        at<std::uint8_t>(offset) = static_cast<std::uint8_t>(value);
        return;
      default:
        at<bool>(offset) = value != E(0);
        return;
    }
  }

 private:
  template <class T>
  __device__ T& at(std::int64_t offset) const {
    return static_cast<T*>(data)[offset];
  }
};

}  // namespace ferrite::kernels::cuda
