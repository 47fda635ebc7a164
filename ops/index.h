// Reading and writing by index and by mask.
//
// Indices are int64 (or int32) tensors on the device of the data. An index out of range is an
// IndexError naming the value, its position and the dimension's size; it is thrown by the kernel,
// so on an asynchronous device it appears at the next synchronize(). Negative indices are out of
// range, as in PyTorch's functions of these names. A function whose name ends in _ changes `self`
// in place and returns it; if a source or an index shares its memory, its previous values are used.
#pragma once

#include <optional>

#include "ferrite/core/tensor.h"
#include "ferrite/ops/arithmetic.h"

namespace ferrite {

// x[mask] += y, and x.index({...}) *= 2: as Python reads, changes and writes.
template <class T>
Tensor operator+=(TensorView&& part, const T& other) {
  return part.is_copy() ? std::move(part) = part + other : part.add_(other);
}
template <class T>
Tensor operator-=(TensorView&& part, const T& other) {
  return part.is_copy() ? std::move(part) = part - other : part.sub_(other);
}
template <class T>
Tensor operator*=(TensorView&& part, const T& other) {
  return part.is_copy() ? std::move(part) = part * other : part.mul_(other);
}
template <class T>
Tensor operator/=(TensorView&& part, const T& other) {
  return part.is_copy() ? std::move(part) = part / other : part.div_(other);
}

/// out[i][j][k] = x[index[i][j][k]][j][k] for dim 0, and so on. `index` has the dimensions of x and
/// no larger sizes than x except along `dim`; the result has its shape.
Tensor gather(const Tensor& x, int dim, const Tensor& index);
/// x with out[index[i][j][k]][j][k] = source[i][j][k] (for dim 0). If an index occurs more than
/// once, the last source element in row-major order wins; as in PyTorch, the gradient of `source`
/// treats all of them as written.
Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& source);
Tensor scatter(const Tensor& x, int dim, const Tensor& index, Scalar value);
const Tensor& scatter_(const Tensor& self, int dim, const Tensor& index, const Tensor& source);
const Tensor& scatter_(const Tensor& self, int dim, const Tensor& index, Scalar value);
/// As scatter, but adds (bool: or), in row-major order of the source: the same bits on every run.
Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source);
const Tensor& scatter_add_(const Tensor& self, int dim, const Tensor& index, const Tensor& source);

/// The slices of `x` along `dim` given by the 1-dimensional `index`.
Tensor index_select(const Tensor& x, int dim, const Tensor& index);
/// x with alpha * source added (bool: or) to the slices given by `index`, in the order of `index`.
Tensor index_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                 Scalar alpha = 1);
const Tensor& index_add_(const Tensor& self, int dim, const Tensor& index, const Tensor& source,
                         Scalar alpha = 1);

/// x with `value` where the bool `mask` (broadcast to x) is true.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
/// The elements of `x` where `mask` is true (the two broadcast), as one dimension. Waits for the
/// device, because the size of the result depends on the values.
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// int64 [count, x.dim()]: the coordinates of nonzero elements. Waits for the device.
Tensor nonzero(const Tensor& x);

/// int64 [..., num_classes] with 1 at the class and 0 elsewhere. Without num_classes it is the
/// largest class + 1, which waits for the device.
Tensor one_hot(const Tensor& classes, std::int64_t num_classes = -1);

/// Rows of `weight` [num_embeddings, width]: [..., width]. The gradient of row `padding_idx` (may
/// be negative) stays zero. Gradients of rows used more than once are added in order of position.
Tensor embedding(const Tensor& indices, const Tensor& weight,
                 std::optional<std::int64_t> padding_idx = {});

}  // namespace ferrite
