// Cross-entropy of class indices, fused: log-softmax, selection and reduction in one pass, and the
// gradient in another, or for small problems in the same.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// The operands of both passes. A position is one index into all dimensions of `logits` except the
/// class dimension `dim`. Views over positions have the sizes of `logits` with 1 in dimension
/// `dim`, and share their strides.
struct CrossEntropyArgs {
  View logits;  ///< dense, floating
  int dim = 1;
  View target;  ///< int64, over positions
  View weight;  ///< [C] contiguous, float32 (float64 for float64 logits); null data: all 1
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
  /// Whether logits are log probabilities (nll_loss): they are then not normalised.
  bool log_probabilities = false;
};

/// Results of the forward pass; null data means that a result is not wanted.
struct CrossEntropyResult {
  View losses;     ///< over positions, floating; 0 where ignored
  View log_sums;   ///< over positions, float32 (float64): log(sum(exp(logits)))
  View sum, mean;  ///< one element, floating
  View divisor;    ///< one element, float32 (float64): the divisor of the mean
  /// The gradient of the logits if that of `mean` is 1, with their dtype and strides. Needs
  /// log_sums, divisor and computes_gradient_in_forward(args); on CUDA devices only.
  View gradient;
};

/// Whether the forward pass can compute the gradient as well: for few positions and classes, which
/// one block of a CUDA device reads.
inline bool computes_gradient_in_forward(const CrossEntropyArgs& args) {
  constexpr std::int64_t kPositions = 256, kClasses = 16;
  const View& x = args.logits;
  return !args.log_probabilities && x.ndim == 2 && args.dim == 1 && x.numel > 0 &&
         x.sizes[0] <= kPositions && x.sizes[1] <= kClasses && x.strides[1] == 1 &&
         (x.sizes[0] == 1 || x.strides[0] == x.sizes[1]);
}

/// Reports an IndexError on the stream for a class out of range.
FERRITE_KERNEL(cross_entropy, const CrossEntropyArgs& args, const CrossEntropyResult& result);

/// out (strides of the logits) = the gradient of the logits. `grad` is the gradient of the losses
/// over positions, or one element (all strides 0) for their sum; it is divided by `divisor` if that
/// has data.
FERRITE_KERNEL(cross_entropy_backward, const View& out, const CrossEntropyArgs& args,
               const View& log_sums, const View& grad, const View& divisor);

}  // namespace ferrite::kernels
