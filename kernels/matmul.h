// Matrix products.
#pragma once

#include <utility>

#include "ferrite/kernels/activation.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

struct MatmulOptions {
  double alpha = 1;
  double beta = 0;  ///< 0: `out` is not read
  View bias = {};   ///< [columns], added to every row; data null: none
  /// Of all that; floating dtypes only.
  Activation activation = Activation::none;
  /// Gets what the activation is of, for its gradient: of out's shape, dtype and strides, with a
  /// beta of 0. Data null: not wanted.
  View before_activation = {};
  /// [rows], of out's dtype, gets the sums of a's rows: the gradient of a bias, beside that of a
  /// weight. For floating matrices without a batch. Data null: not wanted.
  View row_sums = {};
};

/// out = activation(alpha * a b + beta * out + bias), with a [m, k], b [k, n] and out [m, n] of one
/// dtype (any but uint8 and bool) and any strides: a transpose is a swap of strides. With three
/// dimensions the first is a batch, in which a and b may have a stride of 0. 16-bit types
/// accumulate in float, and are rounded once (a GELU behind cuBLASLt twice: before it and after
/// it); integers wrap around, and their alpha and beta are truncated. `out` must not overlap the
/// inputs. Where k is 0 the product is 0. On a CUDA device m, n and k are below 2^31, and
/// cuBLASLt's ReLU decides what becomes of a NaN.
FERRITE_KERNEL_FUNCTION(matmul, const View& out, const View& a, const View& b,
                        const MatmulOptions& options = {});

/// out[n] = the sum of a[:, n], for floating a [m, n] of any strides and out [n] of the same dtype.
FERRITE_KERNEL(column_sum, const View& out, const View& a);

/// The matrices of a view with rows and columns swapped.
inline View transposed(View v) {
  std::swap(v.sizes[v.ndim - 1], v.sizes[v.ndim - 2]);
  std::swap(v.strides[v.ndim - 1], v.strides[v.ndim - 2]);
  return v;
}

}  // namespace ferrite::kernels
