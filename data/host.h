// Tensors in the form that files store: dense, row-major, on the host.
#pragma once

#include <string_view>

#include "ferrite/core/tensor.h"

namespace ferrite::data {

/// `tensor` itself if it is contiguous and the host can read it, else a row-major copy; waits for
/// queued work on its device. Throws ValueError for undefined tensors, tagged with `op`.
Tensor host_contiguous(const Tensor& tensor, std::string_view op);

/// A row-major copy of `tensor` in page-locked memory; the tensor itself if it is undefined or
/// already there. Waits for queued work on its device. DeviceError if there is no CUDA device.
Tensor pinned(const Tensor& tensor);

/// A row-major copy of elements at `source` with strides `strides`, in elements.
Tensor gather_strided(const void* source, const Shape& shape, const Strides& strides, DType dtype);

}  // namespace ferrite::data
