// Matrix products.
#pragma once

#include <utility>

#include "ferrite/kernels/activation.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

struct MatmulOptions {
  double alpha = 1;
  double beta = 0;  ///< if 0, `out` is not read
  View bias = {};   ///< [columns], added to every row; null data: none
  /// Applied to the sum of product and bias; floating dtypes only.
  Activation activation = Activation::none;
  /// Receives the activation's input, which its gradient needs. It has the shape, dtype and strides
  /// of `out`, and beta must be 0. Null data: not wanted.
  View before_activation = {};
  /// [rows], of out's dtype; receives the sums of the rows of `a`. When the product is the gradient
  /// of a weight, these are the gradient of the bias. For floating matrices without a batch. Null
  /// data: not wanted.
  View row_sums = {};
  /// The result y of a ReLU. The product is then the gradient of y, and `out` becomes the gradient
  /// of the ReLU's input: the product where y > 0, else 0. Where y is NaN, the value depends on the
  /// library. y has the shape, dtype (floating) and strides of `out`; there must be no beta, bias,
  /// activation or row_sums. Null data: not wanted.
  View relu_of = {};
  /// uint8 [rows, relu_bits_size(columns)], contiguous, aligned to 16 bytes: a bit for each element
  /// of a ReLU's result, which cuBLASLt reads in place of relu_of. With a ReLU as activation,
  /// cuBLASLt may write the bits; *has_relu_bits becomes true if it did. With relu_of, give only
  /// bits that a forward product has written. Null data: there are none.
  View relu_bits = {};
  bool* has_relu_bits = nullptr;  ///< given together with the bits that may be written
};

/// Bytes of a row of MatmulOptions::relu_bits: 128 bits at a time.
constexpr std::int64_t relu_bits_size(std::int64_t columns) { return (columns + 127) / 128 * 16; }

/// out = activation(alpha * a b + beta * out + bias), with a [m, k], b [k, n] and out [m, n] of one
/// dtype (floating, int32 or int64) and any strides: a transpose is a swap of strides. With three
/// dimensions, the first is a batch, in which a and b may have a stride of 0. 16-bit types
/// accumulate in float32 and are rounded once (with cuBLASLt, a GELU's input is rounded too).
/// Integers wrap around, and their alpha and beta are truncated. `out` must not overlap the inputs.
/// If k is 0, the product is 0. On a CUDA device m, n and k must be below 2^31, and a ReLU fused by
/// cuBLASLt may replace NaN.
FERRITE_KERNEL_FUNCTION(matmul, const View& out, const View& a, const View& b,
                        const MatmulOptions& options = {});

/// out[n] = the sum of a[:, n], for floating a [m, n] of any strides and out [n] of the same dtype.
FERRITE_KERNEL(column_sum, const View& out, const View& a);

/// `v` with the last two dimensions swapped.
inline View transposed(View v) {
  std::swap(v.sizes[v.ndim - 1], v.sizes[v.ndim - 2]);
  std::swap(v.strides[v.ndim - 1], v.strides[v.ndim - 2]);
  return v;
}

}  // namespace ferrite::kernels
