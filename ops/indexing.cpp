#include "ferrite/ops/indexing.h"

#include "ferrite/kernels/copy.h"

namespace ferrite::ops {

Tensor checked_index(const Tensor& index, const Tensor& x, const char* op) {
  FERRITE_CHECK(x.defined() && index.defined(), ValueError, op, "expected two tensors, got {}, {}",
                x.describe(), index.describe());
  FERRITE_CHECK(index.dtype() == kInt64 || index.dtype() == kInt32, DTypeError, op,
                "expected an index of int64 or int32, got {}", index.describe());
  FERRITE_CHECK(index.device() == x.device(), DeviceError, op,
                "the tensor is on {}, the index on {}; move one with to(device)", x.device(),
                index.device());
  return index.to(kInt64);
}

void check_fits(const Tensor& index, const Tensor& x, int dim, const char* what, const char* op) {
  bool fits = index.dim() == x.dim();
  for (int d = 0; fits && d < x.dim(); ++d) fits = d == dim || index.shape()[d] <= x.shape()[d];
  FERRITE_CHECK(fits || index.numel() == 0, ShapeError, op,
                "an index of {} does not fit {} of {}{}", index.shape(), what, x.shape(),
                dim < 0 ? "" : fmt::format(" outside dimension {}", dim));
}

void check_1d(const Tensor& index, const char* op) {
  FERRITE_CHECK(index.dim() <= 1, ShapeError, op, "expected an index of 1 dimension, got {}",
                index.shape());
}

Tensor zeros(const Shape& shape, DType dtype, const Device& device) {
  Tensor out = empty(shape, {.dtype = dtype, .device = device});
  kernels::fill(current_stream(device), out, 0);
  return out;
}

}  // namespace ferrite::ops
