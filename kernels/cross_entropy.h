// Cross-entropy of class indices, fused: log-softmax, pick and reduce in one pass, the gradient in
// another.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// What both passes read. Views over positions (all that `logits` has beside the classes in
/// dimension `dim`) have the dimensions of `logits`, with 1 class, and equal strides.
struct CrossEntropyArgs {
  View logits;  ///< dense, floating
  int dim = 1;
  View target;  ///< int64, over positions
  View weight;  ///< [C] contiguous, float32 (float64 for float64 logits); data null: all 1
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
  /// Whether logits are log probabilities (nll_loss): nothing is normalised then.
  bool log_probabilities = false;
};

/// Results of the forward pass; each may have null data where it is not wanted.
struct CrossEntropyResult {
  View losses;     ///< over positions, floating; 0 where ignored
  View log_sums;   ///< over positions, float32 (float64): log(sum(exp(logits)))
  View sum, mean;  ///< one element, floating
  View divisor;    ///< one element, float32 (float64): what the mean was divided by
};

/// A class out of range throws IndexError on the stream.
FERRITE_KERNEL(cross_entropy, const CrossEntropyArgs& args, const CrossEntropyResult& result);

/// out (strides of the logits) = the gradient of the logits. `grad` is the gradient of the losses
/// over positions, or one element (all strides 0) for their sum, divided by `divisor` if given.
FERRITE_KERNEL(cross_entropy_backward, const View& out, const CrossEntropyArgs& args,
               const View& log_sums, const View& grad, const View& divisor);

}  // namespace ferrite::kernels
