// Factors of matrices, computed by Eigen in float64 on the host. All views are batches [n, rows,
// columns] (vectors [n, size]), contiguous, of float32 or float64, on the host or one of its
// workers: CUDA devices have cuSOLVER (kernels/cuda/vendor/cusolver.h), or copies to the host. A
// matrix that has no such factors is a ValueError, tagged with `op`.
#pragma once

#include "ferrite/kernels/view.h"

namespace ferrite::kernels {

/// The lower triangle L with L L^T = `in`, of which it reads the lower triangle.
void cholesky(const Stream& stream, const char* op, const View& out, const View& in);
/// out = a^-1 b.
void solve(const Stream& stream, const char* op, const View& out, const View& a, const View& b);
/// The sign of the determinant (0 for a singular matrix), and the logarithm of its absolute value.
void slogdet(const Stream& stream, const char* op, const View& sign, const View& log,
             const View& in);
/// q [n, rows, k] and r [n, k, columns], with k = rows or the smaller of the two.
void qr(const Stream& stream, const char* op, const View& q, const View& r, const View& in);
/// Eigenvalues in ascending order and eigenvectors, as columns, of the symmetric matrix of which
/// `in` has the lower triangle.
void eigh(const Stream& stream, const char* op, const View& values, const View& vectors,
          const View& in);
/// u diag(s) vh, with s in descending order; u and vh are square, or as narrow as s is long.
void svd(const Stream& stream, const char* op, const View& u, const View& s, const View& vh,
         const View& in);

}  // namespace ferrite::kernels
