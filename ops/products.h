// Sums of products beyond those of ops/matmul.h, and distances. Operands have one dtype and one
// device, as there. All gradients are differentiable to any order.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "ferrite/core/tensor.h"

namespace ferrite {

/// Einstein's summation, torch.einsum: labels a-z and A-Z name dimensions, "..." stands for those
/// that broadcast; a label that occurs twice in an operand takes its diagonal. Without "->" the
/// result has the labels that occur once, in alphabetical order, after those of "...". Operands are
/// contracted from left to right, each pair by one product of matrices. ValueError for equations
/// that cannot be read, ShapeError where sizes of a label differ (unless one is 1).
Tensor einsum(std::string_view equation, std::span<const Tensor> operands);
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands) {
  return einsum(equation, std::span(operands.begin(), operands.size()));
}
/// Sums over the last `dims` dimensions of a and the first of b, or over those listed.
Tensor tensordot(const Tensor& a, const Tensor& b, int dims = 2);
Tensor tensordot(const Tensor& a, const Tensor& b, const Shape& dims_a, const Shape& dims_b);
/// Sums over the last dimensions of both; the product if one has none.
Tensor inner(const Tensor& a, const Tensor& b);
/// Every element of a times all of b, in place of the element: [m * p, n * q] of [m, n] and [p, q].
/// Four dimensions at most (ShapeError).
Tensor kron(const Tensor& a, const Tensor& b);

// beta * input + alpha * product, for an input that broadcasts to the product. With beta = 0 the
// input's values are ignored.
/// [b, m, k] times [b, k, n].
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
               Scalar alpha = 1);
/// The sum over the batch of the same products: [m, n].
Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
              Scalar alpha = 1);
/// [m, k] times [k].
Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
             Scalar alpha = 1);
/// outer(a, b).
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
/// norm(a - b + eps) along the last dimension.
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2, double eps = 1e-6,
                         bool keepdim = false);
/// The p-norms of the differences between every two rows of x [n, m], in the order of
/// triu_indices(n, n, 1): [n (n - 1) / 2]. Differences are in memory all at once.
Tensor pdist(const Tensor& x, double p = 2);
/// a b / (max(|a|, eps) max(|b|, eps)) along `dim`, of operands that broadcast.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int dim = 1, double eps = 1e-8);
/// x / max(norm(x), eps) along `dim`.
Tensor normalize(const Tensor& x, double p = 2, int dim = 1, double eps = 1e-12);

}  // namespace ferrite
