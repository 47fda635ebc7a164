// Matrix products.
#pragma once

#include "kernels/view.h"

namespace ferrite::kernels {

struct MatmulOptions {
  double alpha = 1;
  double beta = 0;  ///< 0: `out` is not read
  View bias = {};   ///< [columns], added to every row; data null: none
};

/// out = alpha * a b + beta * out + bias, with a [m, k], b [k, n] and out [m, n] of one dtype (any
/// but uint8 and bool) and any strides: a transpose is a swap of strides. With three dimensions the
/// first is a batch, in which a and b may have a stride of 0. 16-bit types accumulate in float;
/// integers wrap around, and their alpha and beta are truncated. `out` must not overlap the inputs.
/// Where k is 0 the product is 0. On a CUDA device m, n and k are below 2^31.
void matmul(const Stream& stream, const View& out, const View& a, const View& b,
            const MatmulOptions& options = {});

/// out[n] = the sum of a[:, n], for floating a [m, n] of any strides and out [n] of the same dtype.
void column_sum(const Stream& stream, const View& out, const View& a);

}  // namespace ferrite::kernels
