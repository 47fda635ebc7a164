// Linear algebra (torch.linalg), of matrices [..., m, n] in batches of any shape, float32 or
// float64 (DTypeError). A tensor that must be square is not: ShapeError. A matrix without the
// factors asked for (singular, not positive definite) is a ValueError; of a worker of the host it
// appears when the worker is synchronised.
//
// Factors are computed on the host, by Eigen in float64; for a tensor of a CUDA device by cuSOLVER
// and cuBLAS, in its dtype, many small matrices at once and few large ones one after the other, or,
// in a build without cuSOLVER, on the host, with copies there and back. Either waits for the
// device, which alone knows whether a matrix has factors, and cannot be part of a graph. Both leave
// open which sign vectors have. Gradients are products of matrices and solutions of systems,
// differentiable to any order unless noted.
#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>

#include "ferrite/core/tensor.h"
#include "ferrite/core/tensor_list.h"

namespace ferrite::linalg {

/// The lower triangular L with L L^T = x, [..., n, n], for symmetric positive definite x
/// [..., n, n]. ValueError if a matrix is not positive definite, ShapeError if it is not square,
/// DTypeError unless float32 or float64.
Tensor cholesky(const Tensor& x);
/// The x with a x = b, for square a [..., n, n]: b [..., n, k] gives [..., n, k], and b [n], or
/// [..., n] where a is [..., n, n] (a batch of vectors), gives the same shape. Batches broadcast.
/// ValueError if a is singular, ShapeError if sizes do not fit, DTypeError unless both are float32
/// or both float64.
///
///   Tensor x = linalg::solve(a, b);  // a [3, 3], b [3]: x [3], with a x = b
Tensor solve(const Tensor& a, const Tensor& b);
/// The x with a x = b, or with x a = b unless `left`, for triangular a [..., n, n], of which the
/// other triangle is not read, nor with `unitriangular` the diagonal, which counts as ones. b
/// [..., n, k], or [..., k, n] unless `left`, gives the same shape; batches broadcast. Errors are
/// those of solve(): ValueError for a zero on the diagonal, too.
///
///   Tensor z = linalg::solve_triangular(linalg::cholesky(covariance), x, false);  // whitened
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left = true,
                        bool unitriangular = false);
/// The inverse of square matrices, [..., n, n] of [..., n, n]. ValueError if one is singular;
/// solve() is faster and more accurate than a product with the inverse.
Tensor inv(const Tensor& x);
/// The determinant of square matrices: [...] of [..., n, n]. It has a gradient where x is singular
/// too, and a gradient of that gradient, which is right for matrices of any rank (PyTorch's is NaN
/// below n - 1). Derivatives of these need different singular values there.
Tensor det(const Tensor& x);
/// The sign and the logarithm of the absolute value of the determinant, [...] each of [..., n, n]:
/// 0 and -infinity for a singular matrix. It does not overflow where det() does.
///
///   auto [sign, logabsdet] = linalg::slogdet(x);
std::tuple<Tensor, Tensor> slogdet(const Tensor& x);

/// x = q r for x [..., m, n], with orthonormal columns in q and an upper triangular r: q
/// [..., m, k] and r [..., k, n], where k is the smaller of m and n ("reduced") or m ("complete").
/// ValueError for other modes. The gradient needs independent first k columns; "complete" has none
/// for m > n (AutogradError), where the further columns of q are not determined, as in PyTorch.
///
///   auto [q, r] = linalg::qr(randn({5, 3}));  // [5, 3] and [3, 3]
std::tuple<Tensor, Tensor> qr(const Tensor& x, std::string_view mode = "reduced");
/// Eigenvalues [..., n], ascending, and eigenvectors [..., n, n], as columns, of symmetric matrices
/// [..., n, n], of which the lower triangle is read. The gradient of eigenvectors needs different
/// eigenvalues.
///
///   auto [values, vectors] = linalg::eigh(x);  // x vectors = vectors diag(values)
std::tuple<Tensor, Tensor> eigh(const Tensor& x);
/// The eigenvalues of symmetric matrices, ascending: [..., n] of [..., n, n].
Tensor eigvalsh(const Tensor& x);
/// x = u diag(s) vh for x [..., m, n], with s [..., k] descending, where k is the smaller of m and
/// n; u [..., m, m] and vh [..., n, n], or without full_matrices u [..., m, k] and vh [..., k, n].
/// The gradient of vectors needs different numbers in s. Vectors beyond k are not determined; what
/// depends on them adds nothing to the gradient, as in PyTorch.
///
///   auto [u, s, vh] = linalg::svd(randn({5, 3}), false);  // [5, 3], [3], [3, 3]
std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& x, bool full_matrices = true);
/// The singular values, descending: [..., k] of [..., m, n], where k is the smaller of m and n.
Tensor svdvals(const Tensor& x);

/// The pseudoinverse, [..., n, m] of [..., m, n]: singular values below rcond (default: epsilon
/// times the larger of m and n) times the largest count as 0.
Tensor pinv(const Tensor& x, std::optional<double> rcond = {});
/// The shortest x that makes |a x - b| smallest: [..., n, k] for a [..., m, n] and b [..., m, k].
/// ShapeError unless b has two dimensions or more, and as many rows as a.
Tensor lstsq(const Tensor& a, const Tensor& b);
/// How many singular values of each matrix are above `tol`, by default as in pinv(): int64 [...] of
/// [..., m, n].
Tensor matrix_rank(const Tensor& x, std::optional<double> tol = {});
/// The product of two matrices or more, in the order that costs the fewest multiplications; the
/// first and the last may be vectors. ValueError for fewer, ShapeError if sizes do not fit.
///
///   Tensor y = linalg::multi_dot({a, b, c});  // [10, 1000], [1000, 5], [5, 300]: [10, 300]
Tensor multi_dot(TensorList tensors);
/// The sums of conj(x) y along a dimension; shapes broadcast, dtypes are promoted.
Tensor vecdot(const Tensor& x, const Tensor& y, int dim = -1);
/// The condition number of matrices, [...] of [..., m, n]: for 2 (the default) the largest singular
/// value divided by the smallest, for -2 its inverse; for another order of matrix_norm() the norm
/// of a square matrix times that of its inverse, infinity where there is none. 0 for matrices
/// without elements.
Tensor cond(const Tensor& x, std::optional<double> order = {});
/// Square matrices to the n-th power, [..., m, m]; for a negative n the inverse to the -n-th
/// (ValueError if it is singular), for 0 the identity.
Tensor matrix_power(const Tensor& x, std::int64_t n);

/// The p-norm of all elements, or along `dims`, which keepdim leaves as size 1: (sum of
/// |x|^p)^(1/p); for an infinite p the largest or smallest |x|, for 0 the number of nonzeros.
/// DTypeError for other than floating types, IndexError for a dimension out of range.
///
///   Tensor lengths = linalg::vector_norm(x, 2, {-1});  // [N] of [N, D]
Tensor vector_norm(const Tensor& x, double p = 2, const Dims& dims = {}, bool keepdim = false);
/// The norm of the matrices in two dimensions, by default the last ones: [...] of [..., m, n].
/// "fro": the root of the sum of squares; "nuc": the sum of singular values. ValueError for other
/// orders and for equal dimensions, ShapeError unless two are given.
Tensor matrix_norm(const Tensor& x, std::string_view order = "fro", const Dims& dims = {-2, -1},
                   bool keepdim = false);
/// The same for an order that is a number. 1 and infinity: the largest sum of absolute values of a
/// column or row; 2: the largest singular value; with a minus the smallest. ValueError for others.
Tensor matrix_norm(const Tensor& x, double order, const Dims& dims = {-2, -1},
                   bool keepdim = false);
/// Without an order or with one dimension vector_norm(), 2 being the default of `order`; otherwise
/// matrix_norm() of that order. ShapeError for an order without `dims` unless x is a vector or a
/// matrix.
Tensor norm(const Tensor& x, std::optional<double> order = {}, const Dims& dims = {},
            bool keepdim = false);
/// matrix_norm() of the order "fro" or "nuc", by default of the last dimensions.
template <std::convertible_to<std::string_view> Order>
Tensor norm(const Tensor& x, const Order& order, const Dims& dims = {}, bool keepdim = false) {
  return matrix_norm(x, std::string_view(order), dims.empty() ? Dims{-2, -1} : dims, keepdim);
}

}  // namespace ferrite::linalg

// The names of before torch.linalg.
namespace ferrite {

/// linalg::det().
inline Tensor det(const Tensor& x) { return linalg::det(x); }
/// linalg::slogdet().
inline std::tuple<Tensor, Tensor> slogdet(const Tensor& x) { return linalg::slogdet(x); }
/// The logarithm of the determinant, [...] of [..., n, n]: NaN where that is negative, -infinity
/// where it is 0. Errors as for linalg::slogdet().
Tensor logdet(const Tensor& x);
/// linalg::inv().
inline Tensor inverse(const Tensor& x) { return linalg::inv(x); }
/// linalg::pinv(), but that only singular values below `rcond` times the largest count as 0.
inline Tensor pinverse(const Tensor& x, double rcond = 1e-15) { return linalg::pinv(x, rcond); }
/// The x with a x = b, [..., n, k] of that shape, for a symmetric positive definite a of which
/// `factor` [..., n, n] is linalg::cholesky(), or with `upper` its transpose. Errors are those of
/// linalg::solve_triangular().
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper = false);
/// The inverse of that matrix a, [..., n, n].
Tensor cholesky_inverse(const Tensor& factor, bool upper = false);
/// linalg::cholesky(), or with `upper` its conjugate transpose.
inline Tensor cholesky(const Tensor& x, bool upper = false) {
  const Tensor lower = linalg::cholesky(x);
  return upper ? lower.adjoint() : lower;
}

}  // namespace ferrite
