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

/// The elements of `x` at `index` along `dim`: out[i][j][k] = x[index[i][j][k]][j][k] for dim 0,
/// and so on. `index`, int64 or int32, has as many dimensions as x and no larger sizes than x
/// except along `dim` (ShapeError); the result has its shape and the dtype of x. IndexError for an
/// index or a `dim` out of range, DTypeError for an index of another dtype.
///
///   Tensor best = logits.argmax(1, true);     // [N, 1] of logits [N, C]
///   Tensor values = gather(logits, 1, best);  // [N, 1]
Tensor gather(const Tensor& x, int dim, const Tensor& index);
/// A copy of x with out[index[i][j][k]][j][k] = source[i][j][k] (for dim 0), or with `value` there.
/// `index` is as for gather() and in no dimension larger than `source` (ShapeError); DTypeError
/// unless `source` has the dtype of x. If an index occurs more than once, the last source element
/// in row-major order wins; as in PyTorch, the gradient of `source` treats all of them as written.
///
///   Tensor y = scatter(zeros({2, 3}), 1, from_vector<std::int64_t>({2, 0}, {2, 1}), 1);
///   // [[0, 0, 1], [1, 0, 0]]
Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& source);
Tensor scatter(const Tensor& x, int dim, const Tensor& index, Scalar value);
const Tensor& scatter_(const Tensor& self, int dim, const Tensor& index, const Tensor& source);
const Tensor& scatter_(const Tensor& self, int dim, const Tensor& index, Scalar value);
/// A copy of x to which out[index[i][j][k]][j][k] += source[i][j][k] (for dim 0) is applied; for
/// bool it is or. Additions are in row-major order of the source: the same bits on every run.
/// Arguments and errors as for scatter().
Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source);
const Tensor& scatter_add_(const Tensor& self, int dim, const Tensor& index, const Tensor& source);

/// A copy of the slices of `x` along `dim` at the 1-dimensional `index`, int64 or int32, in its
/// order: the shape of x with index.numel() in place of the size of `dim`. An index may occur more
/// than once. ShapeError for an index of more dimensions, IndexError for an index or a `dim` out of
/// range.
///
///   Tensor rows = index_select(x, 0, from_vector<std::int64_t>({2, 0}, {2}));  // [2, ...]
Tensor index_select(const Tensor& x, int dim, const Tensor& index);
/// A copy of x with alpha * source added (bool: or) to the slices along `dim` at the 1-dimensional
/// `index`, in its order. `source` has the shape of x with index.numel() in place of the size of
/// `dim` (ShapeError), and the dtype of x (DTypeError). IndexError for an index or a `dim` out of
/// range.
Tensor index_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source,
                 Scalar alpha = 1);
const Tensor& index_add_(const Tensor& self, int dim, const Tensor& index, const Tensor& source,
                         Scalar alpha = 1);

/// A copy of x with `value` where the bool `mask` (DTypeError for other dtypes) is true. Shapes
/// broadcast; the result has the dtype of x.
///
///   Tensor y = masked_fill(x, x < 0, 0);
Tensor masked_fill(const Tensor& x, const Tensor& mask, Scalar value);
/// The elements of `x` where the bool `mask` (DTypeError for other dtypes) is true, in row-major
/// order, as one dimension: [count]. x and mask broadcast to each other. It waits for the device,
/// because the size of the result depends on the values.
///
///   Tensor positive = masked_select(x, x > 0);
Tensor masked_select(const Tensor& x, const Tensor& mask);
/// The coordinates of the elements that are not zero, in row-major order: int64 [count, x.dim()].
/// It waits for the device.
Tensor nonzero(const Tensor& x);
/// The same, as an index for each dimension: x.dim() tensors, int64 [count]. Of a 0-dimensional
/// tensor there is one, too: it counts as a row of one element.
///
///   std::vector<Tensor> at = where(x > 0);  // the coordinates of positive elements
std::vector<Tensor> where(const Tensor& condition);

/// 1 at the class and 0 elsewhere: int64 [*classes.shape(), num_classes], for classes of int64 or
/// int32 (DTypeError for others). Without num_classes it is the largest class + 1, which waits for
/// the device. IndexError for a class below 0 or not below num_classes, ValueError for a
/// num_classes of 0 and for no classes without it.
///
///   Tensor y = one_hot(labels, 10);  // [N] gives [N, 10]
Tensor one_hot(const Tensor& classes, std::int64_t num_classes = -1);

/// The options of embedding() and nn::Embedding.
struct EmbeddingOptions {
  /// A row that receives no gradient; negative values count from the end. In nn::Embedding it
  /// starts as zero.
  std::optional<std::int64_t> padding_idx = {};
  /// If set, the rows that are looked up and whose p-norms exceed it are scaled to this norm first,
  /// in place and not recorded for autograd. ValueError if it is negative.
  std::optional<double> max_norm = {};
  double norm_type = 2;  ///< the p of the p-norm that max_norm limits
  /// Whether the gradient of a row is divided by how often the indices contain it.
  bool scale_grad_by_freq = false;
};

/// The rows of `weight` [num_embeddings, width] at `indices`, int64 or int32 of any shape:
/// [*indices.shape(), width]. The gradient of row `padding_idx`, which may be negative, stays zero.
/// Gradients of rows used more than once are added in order of position. IndexError for an index or
/// a padding_idx out of range, ShapeError unless `weight` has two dimensions, DTypeError for other
/// indices.
///
///   Tensor y = embedding(tokens, weight, 0);  // tokens [N, T], weight [V, E]: [N, T, E]
Tensor embedding(const Tensor& indices, const Tensor& weight,
                 std::optional<std::int64_t> padding_idx = {});
/// The same with all options. With `max_norm`, `weight` must be floating (DTypeError) and changes
/// in place: backward through an earlier op that needs its old values is an AutogradError.
///
///   Tensor y = embedding(tokens, weight, {.max_norm = 1, .scale_grad_by_freq = true});
Tensor embedding(const Tensor& indices, const Tensor& weight, const EmbeddingOptions& options);

}  // namespace ferrite
