// Reductions, with PyTorch's names, argument order and treatment of NaN.
//
// `dims` lists the dimensions to reduce, negative ones counting from the end; an empty list means
// all of them. With `keepdim` they stay as size 1. IndexError for a dimension out of range,
// ValueError for one given twice. Memory formats do not affect speed: contiguous and channels-last
// inputs, and strided views, are reduced in place, without a copy. The result has the same bits for
// every number of threads. 16-bit types accumulate in float32, integers and bool in int64.
#pragma once

#include <concepts>
#include <optional>
#include <tuple>

#include "ferrite/core/named_tuple.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// Sums `t` to `shape`, undoing a broadcast: leading dimensions are removed, dimensions of 1 stay.
/// Differentiable. Returns `t` if it has that shape.
Tensor sum_to(const Tensor& t, const Shape& shape);

/// The result has `dtype`, by default that of `t`, int64 for integers and bool; values are
/// converted before the summation. Differentiable, to any order.
Tensor sum(const Tensor& t, const Dims& dims = {}, bool keepdim = false,
           std::optional<DType> dtype = {});
/// DTypeError for integers and bool without a floating `dtype`. The mean of no elements is NaN.
Tensor mean(const Tensor& t, const Dims& dims = {}, bool keepdim = false,
            std::optional<DType> dtype = {});
// A template, so that sum(t, {}) still means a list of dimensions.
template <std::same_as<DType> D>
Tensor sum(const Tensor& t, D dtype) {
  return sum(t, {}, false, dtype);
}
template <std::same_as<DType> D>
Tensor mean(const Tensor& t, D dtype) {
  return mean(t, {}, false, dtype);
}

/// Variance with divisor n - `correction`: 1 for the unbiased, 0 for the biased one (`true` and
/// `false` read like PyTorch's `unbiased`). NaN or infinity if the divisor is not above 0. Floating
/// types only.
Tensor var(const Tensor& t, const Dims& dims = {}, int correction = 1, bool keepdim = false);
/// Its square root.
Tensor std(const Tensor& t, const Dims& dims = {}, int correction = 1, bool keepdim = false);

/// A NamedTuple, as below.
struct ValuesIndices {
  Tensor values, indices;  ///< indices are int64
  /// The parts, for structured bindings.
  auto fields() { return std::tie(values, indices); }
  auto fields() const { return std::tie(values, indices); }
  operator std::tuple<Tensor&, Tensor&>() && { return fields(); }
  // For std::tie(values, std::ignore) = x.max(1).
  /// std::ignore, in std::tie().
  using Ignored = decltype((std::ignore));
  operator std::tuple<Tensor&, Ignored>() && { return std::tie(values, std::ignore); }
  operator std::tuple<Ignored, Tensor&>() && { return std::tie(std::ignore, indices); }
  operator std::tuple<Tensor, Tensor>() const { return fields(); }
};

/// The largest element, NaN if there is one. ValueError for an empty tensor. The gradient is shared
/// equally among equal elements.
Tensor max(const Tensor& t);
/// The smallest element, or those along a dimension with their indices; NaN wins.
Tensor min(const Tensor& t);
/// Along one dimension, with the index of the first of equal elements (of the first NaN), which
/// gets the gradient.
ValuesIndices max(const Tensor& t, int dim, bool keepdim = false);
ValuesIndices min(const Tensor& t, int dim, bool keepdim = false);
/// Along several dimensions; the gradient is shared equally among equal elements.
Tensor amax(const Tensor& t, const Dims& dims = {}, bool keepdim = false);
/// The smallest of all elements, or over dimensions, which keepdim leaves as size 1. IndexError for
/// a dimension that the tensor does not have.
Tensor amin(const Tensor& t, const Dims& dims = {}, bool keepdim = false);
/// int64 indices along `dim`, or into the flattened (row-major) tensor: the first of equal
/// elements, the first NaN.
Tensor argmax(const Tensor& t, std::optional<int> dim = {}, bool keepdim = false);
/// The index of the smallest element, of all or along a dimension, which keepdim leaves as size 1.
Tensor argmin(const Tensor& t, std::optional<int> dim = {}, bool keepdim = false);

/// (sum |x|^p)^(1/p); p = infinity is the largest |x|, -infinity the smallest, 0 the number of
/// nonzeros. The gradient is 0 where the norm is 0. Floating types only.
Tensor norm(const Tensor& t, double p = 2, const Dims& dims = {}, bool keepdim = false);

/// The result's dtype is as for sum().
Tensor prod(const Tensor& t);
Tensor prod(const Tensor& t, int dim, bool keepdim = false);

/// bool results, but uint8 for uint8; NaN counts as true. Any dtype.
Tensor any(const Tensor& t);
Tensor any(const Tensor& t, int dim, bool keepdim = false);
/// Whether all elements, or all along a dimension, are true.
Tensor all(const Tensor& t);
Tensor all(const Tensor& t, int dim, bool keepdim = false);
/// int64.
Tensor count_nonzero(const Tensor& t, const Dims& dims = {});

/// log(sum(exp(t))), without overflow; -infinity of no elements. Integers become floating.
Tensor logsumexp(const Tensor& t, const Dims& dims = {}, bool keepdim = false);
/// sum() and mean() of what is not NaN.
Tensor nansum(const Tensor& t, const Dims& dims = {}, bool keepdim = false,
              std::optional<DType> dtype = {});
/// The mean of the elements that are not NaN, of all or over dimensions, which keepdim leaves as
/// size 1.
Tensor nanmean(const Tensor& t, const Dims& dims = {}, bool keepdim = false);
/// The variance (standard deviation) and the mean.
std::tuple<Tensor, Tensor> var_mean(const Tensor& t, const Dims& dims = {}, int correction = 1,
                                    bool keepdim = false);
/// The standard deviation and the mean, over all elements or over dimensions, which keepdim leaves
/// as size 1.
std::tuple<Tensor, Tensor> std_mean(const Tensor& t, const Dims& dims = {}, int correction = 1,
                                    bool keepdim = false);
/// amin() and amax(), along one dimension or all.
std::tuple<Tensor, Tensor> aminmax(const Tensor& t, std::optional<int> dim = {},
                                   bool keepdim = false);
/// The sum of the diagonal of a matrix (ShapeError).
Tensor trace(const Tensor& t);
/// The differences of neighbours along `dim`, n times, with `prepend` and `append`, if given, at
/// the ends; of bool, whether they differ.
Tensor diff(const Tensor& t, std::int64_t n = 1, int dim = -1, const Tensor& prepend = {},
            const Tensor& append = {});

// Along `dim`, of the elements up to each.
/// Sums; the result's dtype is as for sum().
Tensor cumsum(const Tensor& t, int dim, std::optional<DType> dtype = {});
/// In place, in the dtype of `self` (bool: DTypeError).
const Tensor& cumsum_(const Tensor& self, int dim);
/// Products. If its gradient is to be differentiated again, the gradient takes as many steps as
/// there are elements along `dim`.
Tensor cumprod(const Tensor& t, int dim, std::optional<DType> dtype = {});
const Tensor& cumprod_(const Tensor& self, int dim);
/// log(sum(exp(t))). Floating types (DTypeError).
Tensor logcumsumexp(const Tensor& t, int dim);
/// The largest (smallest) element and its index: the last of equal ones, the last NaN.
ValuesIndices cummax(const Tensor& t, int dim);
/// The smallest so far along a dimension, and where.
ValuesIndices cummin(const Tensor& t, int dim);

/// The k largest (smallest) elements along `dim` and their indices, in descending (ascending)
/// order; NaN counts as larger than every number. Ties are in input order. ValueError unless 0 <= k
/// <= size.
ValuesIndices topk(const Tensor& t, std::int64_t k, int dim = -1, bool largest = true,
                   bool sorted = true);
/// Sorts along `dim`, always stably; NaN counts as larger than every number.
ValuesIndices sort(const Tensor& t, int dim = -1, bool descending = false);
/// The indices that sort along a dimension.
Tensor argsort(const Tensor& t, int dim = -1, bool descending = false);

}  // namespace ferrite
