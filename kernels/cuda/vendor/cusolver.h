// Factors of matrices by cuSOLVER. The folders cusolver/ and no_cusolver/ define these; one of them
// is built.
//
// Matrices are column-major, in batches [n, columns, rows] of contiguous memory (vectors [n,
// size]), float32 or float64, on a CUDA device; none is empty. Work is launched on the stream, one
// matrix after the other; where cuSOLVER wants scratch memory on the host, the call waits. `info`,
// [n] of int32, gets 0 for a matrix whose factors were found, else what LAPACK's routine of that
// name says.
#pragma once

#include "ferrite/kernels/view.h"

namespace ferrite::kernels::cuda::solver {

/// Whether the library can be loaded and is not switched off (kernels/vendor.h).
bool is_usable();

/// The upper triangle of `a` becomes U with U^T U = a; the rest is neither read nor written. info:
/// the order of a minor that is not positive definite.
void potrf(const Stream& stream, const View& a, const View& info);
/// a becomes L and U with P a = L U; pivots, [n, rows] of int64: row i was swapped with row
/// pivots[i], counted from 1. Square. info: the number of a pivot that is 0.
void getrf(const Stream& stream, const View& a, const View& pivots, const View& info);
/// b becomes the solution of a x = b, from what getrf() made of a.
void getrs(const Stream& stream, const View& a, const View& pivots, const View& b,
           const View& info);
/// The upper triangle of a becomes r, the rest and tau, [n, min(rows, columns)], what q is made of.
void geqrf(const Stream& stream, const View& a, const View& tau, const View& info);
/// a, whose first columns are those of geqrf(), becomes the first columns of q.
void orgqr(const Stream& stream, const View& a, const View& tau, const View& info);
/// Eigenvalues, ascending, of the symmetric matrix of which a has the upper triangle; a becomes the
/// eigenvectors, as columns. info: above 0 where the values did not converge.
void syevd(const Stream& stream, const View& a, const View& values, const View& info);
/// a = u diag(s) vt with s descending, for rows >= columns; u has as many columns as a, or is
/// square. Destroys a. info: above 0 where the values did not converge.
void gesvd(const Stream& stream, const View& a, const View& u, const View& s, const View& vt,
           const View& info);

}  // namespace ferrite::kernels::cuda::solver
