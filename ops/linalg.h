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

#include <limits>
#include <optional>
#include <string_view>
#include <tuple>

#include "ferrite/core/tensor.h"

namespace ferrite::linalg {

/// The lower triangular L with L L^T = x, for a symmetric positive definite x.
Tensor cholesky(const Tensor& x);
/// a^-1 b, with b [..., n, k], or [n] or [..., n] where a is [..., n, n] (a batch of vectors).
Tensor solve(const Tensor& a, const Tensor& b);
/// The inverse: ValueError for a singular matrix.
Tensor inv(const Tensor& x);
/// It has a gradient where x is singular too; a gradient of that gradient is an AutogradError
/// there.
Tensor det(const Tensor& x);
/// The sign and the logarithm of the absolute value of the determinant: 0 and -infinity for a
/// singular matrix.
std::tuple<Tensor, Tensor> slogdet(const Tensor& x);

/// x = q r with orthonormal columns in q and an upper triangular r. "reduced": [m, k] and [k, n]
/// with k the smaller of m and n; "complete": k = m. ValueError for other modes. The gradient is
/// for reduced factors of m >= n (AutogradError).
std::tuple<Tensor, Tensor> qr(const Tensor& x, std::string_view mode = "reduced");
/// Eigenvalues, ascending, and eigenvectors, as columns, of a symmetric matrix, of which the lower
/// triangle is read. The gradient of eigenvectors needs different eigenvalues.
std::tuple<Tensor, Tensor> eigh(const Tensor& x);
/// The eigenvalues of a symmetric matrix, in rising order.
Tensor eigvalsh(const Tensor& x);
/// x = u diag(s) vh with s descending: u [m, m] and vh [n, n], or only as many vectors as there are
/// numbers in s. The gradient of vectors needs different numbers, and full_matrices = false
/// (AutogradError).
std::tuple<Tensor, Tensor, Tensor> svd(const Tensor& x, bool full_matrices = true);
/// The singular values, in falling order.
Tensor svdvals(const Tensor& x);

/// The pseudoinverse: singular values below rcond (default: epsilon times the larger of m and n)
/// times the largest count as 0.
Tensor pinv(const Tensor& x, std::optional<double> rcond = {});
/// The shortest x that makes |a x - b| smallest, with b [..., m, k].
Tensor lstsq(const Tensor& a, const Tensor& b);
/// int64: how many singular values are above `tol`, by default as in pinv().
Tensor matrix_rank(const Tensor& x, std::optional<double> tol = {});
/// x to the n-th power; its inverse to the -n-th for a negative n.
Tensor matrix_power(const Tensor& x, std::int64_t n);

/// The p-norm of all elements, or along `dims`.
Tensor vector_norm(const Tensor& x, double p = 2, const Dims& dims = {}, bool keepdim = false);
/// The norm of the matrices in two dimensions: "fro", the root of the sum of squares, or "nuc", the
/// sum of singular values.
Tensor matrix_norm(const Tensor& x, std::string_view order = "fro", const Dims& dims = {-2, -1},
                   bool keepdim = false);
/// 1 and infinity: the largest sum of absolute values of a column or row; 2: the largest singular
/// value; and with a minus the smallest. ValueError for others.
Tensor matrix_norm(const Tensor& x, double order, const Dims& dims = {-2, -1},
                   bool keepdim = false);
/// vector_norm(x, 2) without an order or along one dimension, else matrix_norm().
Tensor norm(const Tensor& x, std::optional<double> order = {}, const Dims& dims = {},
            bool keepdim = false);

}  // namespace ferrite::linalg
