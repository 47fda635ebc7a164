// Views: other shapes and strides on the same memory, differentiable. Most are members of Tensor
// (view, reshape, flatten, transpose, permute, select, slice, narrow, expand, squeeze, unsqueeze,
// unfold); this header has the function forms and functions built on them.
//
// Dimensions may be negative. Errors are IndexError (dimension or index out of range), ShapeError
// and ValueError, tagged with the view's name. An in-place change of a view changes its base, and
// the tape follows it.
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite {

inline Tensor reshape(const Tensor& x, const Shape& shape) { return x.reshape(shape); }
inline Tensor flatten(const Tensor& x, int start_dim = 0, int end_dim = -1) {
  return x.flatten(start_dim, end_dim);
}
inline Tensor transpose(const Tensor& x, int dim0, int dim1) { return x.transpose(dim0, dim1); }
inline Tensor permute(const Tensor& x, const Dims& dims) { return x.permute(dims); }
inline Tensor select(const Tensor& x, int dim, std::int64_t index) { return x.select(dim, index); }
inline Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length) {
  return x.narrow(dim, start, length);
}
inline Tensor squeeze(const Tensor& x) { return x.squeeze(); }
inline Tensor squeeze(const Tensor& x, int dim) { return x.squeeze(dim); }
inline Tensor unsqueeze(const Tensor& x, int dim) { return x.unsqueeze(dim); }

/// x.expand(shape), under its name in NumPy and PyTorch.
inline Tensor broadcast_to(const Tensor& x, const Shape& shape) { return x.expand(shape); }
inline Tensor view_as(const Tensor& x, const Tensor& other) { return x.view(other.shape()); }
inline Tensor reshape_as(const Tensor& x, const Tensor& other) { return x.reshape(other.shape()); }
inline Tensor expand_as(const Tensor& x, const Tensor& other) { return x.expand(other.shape()); }

/// Moves dimension `source[i]` to `destination[i]`; the others keep their order.
Tensor movedim(const Tensor& x, const Shape& source, const Shape& destination);
Tensor movedim(const Tensor& x, int source, int destination);

/// Splits dimension `dim` into `sizes`, one of which may be -1: the inverse of flatten.
Tensor unflatten(const Tensor& x, int dim, const Shape& sizes);

/// The elements x[..., i, i + offset, ...] of two dimensions as a new last one.
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, int dim1 = 0, int dim2 = 1);

}  // namespace ferrite
