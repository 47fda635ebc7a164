// Products of Householder reflectors, for batches of small matrices.
#pragma once

#include "ferrite/kernels/view.h"

namespace ferrite::kernels::cuda {

inline constexpr std::int64_t kHouseholderRows = 256;

/// q becomes the first columns of H_0 H_1 ... H_(k-1), with H_j = I - tau_j v_j v_j^T, where v_j is
/// 0 above row j, 1 in it, and the column j of `a` below: what LAPACK's orgqr makes of the result
/// of geqrf. Column-major: q [n, columns, rows], a [n, at least k, rows], tau [n, k], float32 or
/// float64, contiguous, of at most kHouseholderRows rows.
void householder_product(const Stream& stream, const View& q, const View& a, const View& tau);

}  // namespace ferrite::kernels::cuda
