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

/// The elements in another shape, a view where strides allow it; see Tensor::reshape().
inline Tensor reshape(const Tensor& x, const Shape& shape) { return x.reshape(shape); }
/// The dimensions from start_dim to end_dim as one; see Tensor::flatten().
inline Tensor flatten(const Tensor& x, int start_dim = 0, int end_dim = -1) {
  return x.flatten(start_dim, end_dim);
}
/// Two dimensions swapped: a view; see Tensor::transpose().
inline Tensor transpose(const Tensor& x, int dim0, int dim1) { return x.transpose(dim0, dim1); }
/// The dimensions in another order: a view; see Tensor::permute().
inline Tensor permute(const Tensor& x, const Dims& dims) { return x.permute(dims); }
/// The part at an index of a dimension, without this dimension: a view; see Tensor::select().
inline Tensor select(const Tensor& x, int dim, std::int64_t index) { return x.select(dim, index); }
/// The indices of a dimension from start on: a view; see Tensor::narrow().
inline Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length) {
  return x.narrow(dim, start, length);
}
/// The tensor without dimensions of size 1: a view; see Tensor::squeeze().
inline Tensor squeeze(const Tensor& x) { return x.squeeze(); }
inline Tensor squeeze(const Tensor& x, int dim) { return x.squeeze(dim); }
inline Tensor squeeze(const Tensor& x, const Dims& dims) { return x.squeeze(dims); }
/// The tensor with a further dimension of size 1: a view; see Tensor::unsqueeze().
inline Tensor unsqueeze(const Tensor& x, int dim) { return x.unsqueeze(dim); }

/// x.expand(shape), under its name in NumPy and PyTorch.
inline Tensor broadcast_to(const Tensor& x, const Shape& shape) { return x.expand(shape); }
/// view() with the shape of another tensor.
inline Tensor view_as(const Tensor& x, const Tensor& other) { return x.view(other.shape()); }
/// reshape() to the shape of another tensor.
inline Tensor reshape_as(const Tensor& x, const Tensor& other) { return x.reshape(other.shape()); }
/// expand() to the shape of another tensor: a view.
inline Tensor expand_as(const Tensor& x, const Tensor& other) { return x.expand(other.shape()); }

/// A view with dimension `source[i]` at `destination[i]`; the others keep their order. ShapeError
/// for lists of different lengths, ValueError for a dimension given twice, IndexError for one that
/// x does not have.
///
///   Tensor images = movedim(randn({2, 32, 32, 3}), -1, 1);  // [2, 3, 32, 32]
Tensor movedim(const Tensor& x, const Shape& source, const Shape& destination);
Tensor movedim(const Tensor& x, int source, int destination);

/// Dimension `dim` split into `sizes`, one of which may be -1: the inverse of flatten(), and a view
/// where strides allow it. ShapeError unless the sizes' product is that of the dimension.
///
///   Tensor heads = unflatten(randn({2, 10, 64}), -1, {8, -1});  // [2, 10, 8, 8]
Tensor unflatten(const Tensor& x, int dim, const Shape& sizes);

/// A view of the diagonals of two dimensions, as a new last one: the elements
/// x[..., i, i + offset, ...]; [..., k] of [..., m, n]. ValueError unless dim1 and dim2 are two
/// dimensions.
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, int dim1 = 0, int dim2 = 1);

}  // namespace ferrite
