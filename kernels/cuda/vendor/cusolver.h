// Factors of matrices by cuSOLVER and cuBLAS. The folders cusolver/ and no_cusolver/ define these;
// one of them is built.
//
// Matrices are column-major, in batches [n, columns, rows] of contiguous memory (vectors [n,
// size]), float32 or float64, on a CUDA device; none is empty. Work is launched on the stream: one
// call of a library for a batch of small matrices, or one after the other for each of a few large
// ones; where cuSOLVER wants scratch memory on the host, the call waits. `info`, [n] of int32, gets
// 0 for a matrix whose factors were found, else what LAPACK's routine of that name says; it stays
// as it was where cuBLAS has none (getrs and geqrf of a batch).
#pragma once

#include "ferrite/kernels/view.h"

namespace ferrite::kernels::cuda::solver {

/// Whether the library can be loaded and is not switched off (kernels/vendor.h).
bool is_usable();

/// The upper triangle of `a` becomes U with U^T U = a; the rest is neither read nor written. info:
/// the order of a minor that is not positive definite.
void potrf(const Stream& stream, const View& a, const View& info);
/// The dtype of the pivots of a batch: int32 from cuBLAS, int64 from cuSOLVER.
DType pivots_of(const View& a);
/// a becomes L and U with P a = L U; pivots, [n, rows] of pivots_of(a): row i was swapped with row
/// pivots[i], counted from 1. Square. info: the number of a pivot that is 0.
void getrf(const Stream& stream, const View& a, const View& pivots, const View& info);
/// b becomes the solution of a x = b, from what getrf() made of a.
void getrs(const Stream& stream, const View& a, const View& pivots, const View& b,
           const View& info);
/// The upper triangle of a becomes r, the rest and tau, [n, min(rows, columns)], what q is made of.
void geqrf(const Stream& stream, const View& a, const View& tau, const View& info);
/// q, a copy of the first columns of a, which geqrf() made, becomes the first columns of q.
void orgqr(const Stream& stream, const View& q, const View& a, const View& tau, const View& info);
/// Eigenvalues, ascending, of the symmetric matrix of which a has the upper triangle; a becomes the
/// eigenvectors, as columns. info: above 0 where the values did not converge.
void syevd(const Stream& stream, const View& a, const View& values, const View& info);
/// Whether gesvdj() takes the batch: more than one matrix, of at most 32 rows and columns.
bool has_gesvdj(const View& a);
/// a = u diag(s) v^T with s descending, u and v square. Destroys a. info: above 0 where the values
/// did not converge; those of gesvd() converge in more cases.
void gesvdj(const Stream& stream, const View& a, const View& u, const View& s, const View& v,
            const View& info);
/// a = u diag(s) vt with s descending, for rows >= columns; u has as many columns as a, or is
/// square. Destroys a. info: above 0 where the values did not converge.
void gesvd(const Stream& stream, const View& a, const View& u, const View& s, const View& vt,
           const View& info);

}  // namespace ferrite::kernels::cuda::solver
