// The gradients of a small linear layer, in one launch.
#pragma once

#include <algorithm>

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// The gradients of y = x w^T + b, with x [N, in], w [out, in], b [out] and y [N, out]. All have
/// the dtype of the operands.
struct LinearGradients {
  View input;      ///< [N, in]
  View weight;     ///< [out, in]
  View bias = {};  ///< [out]; null data: not wanted
  /// x is the result of a ReLU: `input` is the gradient of the ReLU's input, 0 where x is not above
  /// 0, and has the strides of x.
  bool after_relu = false;
};

/// Whether a layer of `weight` [out, in] is so small for inputs of `rows` rows that its gradients
/// are faster in one launch than in one each. The bounds: a GPU of 60 TFLOP/s, of which the kernel
/// reaches about half, takes some 2 us for both products, and as long for the longest sum. A launch
/// costs as much, so that neither cuBLASLt nor TF32 gains anything. Only for float32.
inline bool is_small_linear(std::int64_t rows, const View& weight) {
  constexpr std::int64_t kProducts = std::int64_t{1} << 24, kTerms = 512;
  const std::int64_t outs = weight.sizes[0], ins = weight.sizes[1];
  return weight.dtype == kFloat32 && std::max(rows, outs) <= kTerms &&
         ins <= kProducts / std::max<std::int64_t>(1, rows * outs);
}

/// Computes the gradients from `grad` [N, out], that of y, and the layer's `input` x and `weight`
/// w, of any strides. Sums have a fixed order. On the host it takes all floating dtypes, on a CUDA
/// device float32, else it throws a DTypeError. The results must not overlap the operands.
FERRITE_KERNEL(linear_gradients, const LinearGradients& out, const View& grad, const View& input,
               const View& weight);

}  // namespace ferrite::kernels
