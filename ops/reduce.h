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
#include <string_view>
#include <tuple>

#include "ferrite/core/named_tuple.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// Sums `t` to `shape`, undoing a broadcast: leading dimensions are removed, dimensions of 1 stay.
/// Differentiable. Returns `t` if it has that shape.
Tensor sum_to(const Tensor& t, const Shape& shape);

/// The sum of all elements, or over `dims`. The result has `dtype`, by default that of `t`, int64
/// for integers and bool; values are converted before the summation. 0 for no elements.
/// Differentiable, to any order.
///
///   Tensor x = ones({2, 3});
///   Tensor all = sum(x);              // 6, 0-dimensional
///   Tensor rows = sum(x, {1}, true);  // [[3], [3]]
Tensor sum(const Tensor& t, const Dims& dims = {}, bool keepdim = false,
           std::optional<DType> dtype = {});
/// The mean of all elements, or over `dims`. DTypeError for integers and bool without a floating
/// `dtype`. The mean of no elements is NaN.
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
/// The square root of var(), of the same arguments.
Tensor std(const Tensor& t, const Dims& dims = {}, int correction = 1, bool keepdim = false);

/// Values and where they are, a NamedTuple (core/named_tuple.h): `auto [values, indices] =
/// x.max(1)`.
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

/// The largest element, 0-dimensional; NaN if there is one. ValueError for an empty tensor. The
/// gradient is shared equally among equal elements.
Tensor max(const Tensor& t);
/// The smallest element; otherwise as max().
Tensor min(const Tensor& t);
/// The largest elements along one dimension, and their indices, int64: the shape of t without
/// `dim`, which keepdim leaves as size 1. Of equal elements the first (of NaNs the first one)
/// counts, and gets the gradient. ValueError if the dimension is empty, IndexError if t does not
/// have it.
///
///   auto [values, indices] = max(logits, 1);  // [N] each of [N, C]
ValuesIndices max(const Tensor& t, int dim, bool keepdim = false);
/// The smallest elements along one dimension, and their indices; otherwise as max() along one.
ValuesIndices min(const Tensor& t, int dim, bool keepdim = false);
/// The largest element over several dimensions, by default all; the gradient is shared equally
/// among equal elements. ValueError if there are none.
Tensor amax(const Tensor& t, const Dims& dims = {}, bool keepdim = false);
/// The smallest element over several dimensions; otherwise as amax().
Tensor amin(const Tensor& t, const Dims& dims = {}, bool keepdim = false);
/// The index of the largest element, int64: along `dim`, in the shape of t without it (keepdim
/// leaves it as size 1), or in the flattened (row-major) tensor, 0-dimensional. Of equal elements
/// the first, of NaNs the first one. ValueError for no elements, IndexError for a dimension that t
/// does not have.
///
///   Tensor predicted = argmax(logits, 1);  // [N] of [N, C]
Tensor argmax(const Tensor& t, std::optional<int> dim = {}, bool keepdim = false);
/// The index of the smallest element; otherwise as argmax().
Tensor argmin(const Tensor& t, std::optional<int> dim = {}, bool keepdim = false);

/// (sum |x|^p)^(1/p); p = infinity is the largest |x|, -infinity the smallest, 0 the number of
/// nonzeros. The gradient is 0 where the norm is 0. Floating types only.
Tensor norm(const Tensor& t, double p = 2, const Dims& dims = {}, bool keepdim = false);
/// "fro": norm() with p = 2; "nuc": the sum of the singular values of matrices in two dimensions,
/// those of t if it has no others. Errors as of linalg::matrix_norm().
Tensor norm(const Tensor& t, std::string_view p, const Dims& dims = {}, bool keepdim = false);
/// The slices of t along `dim` whose p-norm exceeds `maxnorm`, scaled down to this norm; in the
/// shape of t. ShapeError below 2 dimensions, ValueError unless p > 0 and maxnorm >= 0, DTypeError
/// for other than floating types.
///
///   Tensor limited = renorm(weight, 2, 0, 1);  // rows of a length up to 1
Tensor renorm(const Tensor& t, double p, int dim, double maxnorm);

/// The product of all elements, or along `dim`; 1 for no elements. The result's dtype is as for
/// sum().
Tensor prod(const Tensor& t);
Tensor prod(const Tensor& t, int dim, bool keepdim = false);

/// Whether any element, or any along `dim`, is not zero: bool, but uint8 for uint8. NaN counts as
/// true. Any dtype.
Tensor any(const Tensor& t);
Tensor any(const Tensor& t, int dim, bool keepdim = false);
/// Whether all elements, or all along `dim`, are not zero; otherwise as any().
Tensor all(const Tensor& t);
Tensor all(const Tensor& t, int dim, bool keepdim = false);
/// The number of elements that are not zero, of all or over `dims`: int64.
Tensor count_nonzero(const Tensor& t, const Dims& dims = {});

/// log(sum(exp(t))), without overflow; -infinity of no elements. Integers become floating.
Tensor logsumexp(const Tensor& t, const Dims& dims = {}, bool keepdim = false);
/// sum() of the elements that are not NaN.
Tensor nansum(const Tensor& t, const Dims& dims = {}, bool keepdim = false,
              std::optional<DType> dtype = {});
/// mean() of the elements that are not NaN; NaN where there is none.
Tensor nanmean(const Tensor& t, const Dims& dims = {}, bool keepdim = false);
/// var() and mean() of the same elements: `auto [variance, average] = var_mean(x, {0})`.
std::tuple<Tensor, Tensor> var_mean(const Tensor& t, const Dims& dims = {}, int correction = 1,
                                    bool keepdim = false);
/// std() and mean() of the same elements.
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
/// The sums of the elements up to each along `dim`, in the shape of t; the result's dtype is as for
/// sum(). IndexError for a dimension that t does not have.
///
///   Tensor y = cumsum(arange(4), 0);  // 0, 1, 3, 6
Tensor cumsum(const Tensor& t, int dim, std::optional<DType> dtype = {});
/// In place, in the dtype of `self` (bool: DTypeError).
const Tensor& cumsum_(const Tensor& self, int dim);
/// The products of the elements up to each along `dim`, as cumsum(). If its gradient is to be
/// differentiated again, the gradient takes as many steps as there are elements along `dim`.
Tensor cumprod(const Tensor& t, int dim, std::optional<DType> dtype = {});
const Tensor& cumprod_(const Tensor& self, int dim);
/// log(sum(exp(t))) of the elements up to each along `dim`, without overflow. Floating types
/// (DTypeError).
Tensor logcumsumexp(const Tensor& t, int dim);
/// The largest element up to each along `dim`, and its index, int64, both in the shape of t: of
/// equal elements the last, of NaNs the last one.
ValuesIndices cummax(const Tensor& t, int dim);
/// The smallest element up to each along `dim`, and its index; otherwise as cummax().
ValuesIndices cummin(const Tensor& t, int dim);

/// The k largest elements along `dim`, or the k smallest, and their indices, int64: the shape of t
/// with k in place of the size of `dim`, in descending (ascending) order. NaN counts as larger than
/// every number. Ties are in input order. ValueError unless 0 <= k <= size, IndexError for a
/// dimension that t does not have.
///
///   auto [values, classes] = topk(logits, 5);  // [N, 5] each of [N, C]
ValuesIndices topk(const Tensor& t, std::int64_t k, int dim = -1, bool largest = true,
                   bool sorted = true);
/// The elements sorted along `dim`, always stably, and the indices, int64, that they had: both in
/// the shape of t. NaN counts as larger than every number. IndexError for a dimension that t does
/// not have.
ValuesIndices sort(const Tensor& t, int dim = -1, bool descending = false);
/// In libtorch's order of arguments; whether `stable` or not, equal elements keep their order.
inline ValuesIndices sort(const Tensor& t, std::optional<bool> /*stable*/, int dim,
                          bool descending) {
  return sort(t, dim, descending);
}
/// The indices of sort(): int64, in the shape of t.
Tensor argsort(const Tensor& t, int dim = -1, bool descending = false);
inline Tensor argsort(const Tensor& t, bool /*stable*/, int dim, bool descending) {
  return argsort(t, dim, descending);
}

}  // namespace ferrite
