// Sums of products beyond those of ops/matmul.h, and distances. Operands have one dtype and one
// device, as there. All gradients are differentiable to any order.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "ferrite/core/tensor.h"
#include "ferrite/ops/pair.h"

namespace ferrite {

/// Einstein's summation, torch.einsum: labels a-z and A-Z name dimensions, "..." stands for those
/// that broadcast; a label that occurs twice in an operand takes its diagonal. Without "->" the
/// result has the labels that occur once, in alphabetical order, after those of "...". Operands are
/// contracted from left to right, each pair by one product of matrices. ValueError for equations
/// that cannot be read, ShapeError where an operand has not as many dimensions as labels or sizes
/// of a label differ (unless one is 1), DTypeError for two dtypes and for bool.
///
///   Tensor c = einsum("bij,bjk->bik", {randn({8, 2, 3}), randn({8, 3, 4})});  // [8, 2, 4]
Tensor einsum(std::string_view equation, std::span<const Tensor> operands);
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands) {
  return einsum(equation, std::span(operands.begin(), operands.size()));
}
/// The sum of products over the last `dims` dimensions of a and the first of b, or over dims_a[i]
/// of a and dims_b[i] of b: the other dimensions of a, then those of b. ShapeError where sizes
/// differ (unless one is 1), ValueError for more dimensions than there are, for lists of different
/// lengths and for a dimension given twice.
///
///   Tensor c = tensordot(randn({2, 3, 4}), randn({3, 4, 5}));  // [2, 5]
Tensor tensordot(const Tensor& a, const Tensor& b, int dims = 2);
Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& dims_a, const Shape& dims_b);
/// The sum of products over the last dimensions of both, of one size: [*a, *b] of [*a, n] and
/// [*b, n]. The product if one has no dimensions.
Tensor inner(const Tensor& a, const Tensor& b);
/// Every element of a times all of b, in place of the element: [m * p, n * q] of [m, n] and [p, q].
/// Four dimensions at most (ShapeError).
Tensor kron(const Tensor& a, const Tensor& b);

// beta * input + alpha * product, for an input that broadcasts to the product. With beta = 0 the
// input's values are ignored.
/// beta * input + alpha * bmm(a, b): [b, m, n] for a [b, m, k], b [b, k, n] and an input that
/// broadcasts to that (ShapeError). With beta = 0 the input's values are ignored. DTypeError unless
/// dtypes agree.
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
               Scalar alpha = 1);
/// beta * input + alpha * the sum of bmm(a, b) over the batch: [m, n] for a [b, m, k] and b
/// [b, k, n]. Otherwise as baddbmm().
Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
              Scalar alpha = 1);
/// beta * input + alpha * mv(a, b): [m] for a [m, k] and b [k]. Otherwise as baddbmm().
Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
             Scalar alpha = 1);
/// beta * input + alpha * outer(a, b): [m, n] for a [m] and b [n]. Otherwise as baddbmm().
Tensor addr(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
            Scalar alpha = 1);

/// The vector products along `dim`, of size 3 (ShapeError); by default the first dimension of that
/// size. The operands broadcast.
Tensor cross(const Tensor& a, const Tensor& b, std::optional<int> dim = {});

// Distances of rows, of floating types (DTypeError), by norm().
/// The p-norms of the differences between all rows of a [..., m, k] and of b [..., n, k]: [..., m,
/// n]. For p = 2 and more than 25 rows they come from a product of matrices, as PyTorch's do, so
/// that of rows far from 0 and close to each other few digits are right. Differences are in memory
/// in blocks of some MiB, except for gradients of gradients.
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);
/// The p-norms of a - b + eps along the last dimension, of operands that broadcast: [N] of [N, D],
/// or [N, 1] with keepdim. DTypeError for other than floating types.
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2, double eps = 1e-6,
                         bool keepdim = false);
/// The p-norms of the differences between every two rows of x [n, m], in the order of
/// triu_indices(n, n, 1): [n (n - 1) / 2]. Differences are in memory all at once.
Tensor pdist(const Tensor& x, double p = 2);
/// The cosine of the angle between vectors along `dim`, of operands that broadcast: the sum of a
/// b / (max(|a|, eps) max(|b|, eps)), in their shape without `dim`. DTypeError for other than
/// floating types.
///
///   Tensor c = cosine_similarity(randn({8, 16}), randn({8, 16}));  // [8]
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int dim = 1, double eps = 1e-8);
/// x / max(norm, eps), with the p-norm along `dim`, in the shape of x: vectors along `dim` get the
/// length 1. DTypeError for other than floating types.
Tensor normalize(const Tensor& x, double p = 2, int dim = 1, double eps = 1e-12);
/// The arguments of normalize() by name.
struct NormalizeFuncOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  double p = 2;        ///< of the norm
  int dim = 1;         ///< along which norms are taken
  double eps = 1e-12;  ///< the least divisor
};
inline Tensor normalize(const Tensor& x, const NormalizeFuncOptions& options) {
  return normalize(x, options.p, options.dim, options.eps);
}

}  // namespace ferrite
