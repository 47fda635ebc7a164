// Losses. Shapes, reductions and options are PyTorch's (torch.nn.functional); options are small
// structs for designated initialisers: cross_entropy(logits, target, {.label_smoothing = 0.1}).
//
// DTypeError unless predictions are floating; ShapeError if shapes do not match; DeviceError for
// mixed devices. 16-bit types compute in float32.
#pragma once

#include <cstdint>

#include "ferrite/core/tensor.h"

namespace ferrite {

/// How the losses of the elements are reduced: to their mean, to their sum, or not at all; or to
/// their sum divided by the size of the first dimension, which kl_div alone does (ValueError).
enum class Reduction : std::uint8_t {
  mean,
  sum,
  none,
  batchmean,
  Mean = mean,
  Sum = sum,
  None = none,
  BatchMean = batchmean
};

/// The options of cross_entropy() and nn::CrossEntropyLoss.
struct CrossEntropyOptions {
  Tensor weight = {};  ///< [C]: one factor per class; the mean is then weighted
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;  ///< in [0, 1]
};

/// The negative log likelihood of `target` under softmax(input, dim 1), with `input` [C], [N, C] or
/// [N, C, d1, ...]. `target` holds class indices (int64; [], [N] or [N, d1, ...]), or, if it is
/// floating with the shape of `input`, class probabilities. Targets equal to ignore_index do not
/// count; if all are, the mean is NaN. A class index out of range is an IndexError that names value
/// and position, thrown at once on the host, and on other devices by the next synchronisation.
/// ValueError for invalid options. For class indices it takes one pass forward and one backward.
///
///   Tensor loss = cross_entropy(model(images), labels, {.label_smoothing = 0.1});
///   loss.backward();
Tensor cross_entropy(const Tensor& input, const Tensor& target,
                     const CrossEntropyOptions& options = {});

/// The options of nll_loss() and nn::NLLLoss.
struct NllLossOptions {
  Tensor weight = {};  ///< [C]
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
/// cross_entropy of class indices with log probabilities as `input`.
Tensor nll_loss(const Tensor& input, const Tensor& target, const NllLossOptions& options = {});
inline Tensor nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight,
                       Reduction reduction, std::int64_t ignore_index = -100) {
  return nll_loss(
      input, target,
      NllLossOptions{.weight = weight, .ignore_index = ignore_index, .reduction = reduction});
}

// Elementwise losses of two tensors, broadcast against each other.

/// (input - target)^2
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
/// |input - target|
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);

struct SmoothL1LossOptions {
  Reduction reduction = Reduction::mean;
  double beta = 1;  ///< where the loss changes from quadratic to linear; 0 or more
};
/// With d = |input - target|: d^2 / (2 beta) below beta, d - beta / 2 above; beta >= 0.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const SmoothL1LossOptions& options = {});

struct HuberLossOptions {
  Reduction reduction = Reduction::mean;
  double delta = 1;  ///< where the loss changes from quadratic to linear; above 0
};
/// With d = |input - target|: d^2 / 2 below delta, delta (d - delta / 2) above; delta > 0.
Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options = {});

/// The options of binary_cross_entropy_with_logits() and nn::BCEWithLogitsLoss.
struct BceWithLogitsOptions {
  Tensor weight = {};  ///< broadcasts to the input
  Reduction reduction = Reduction::mean;
  Tensor pos_weight = {};  ///< factor of the positive term; broadcasts to the input
};
/// Binary cross-entropy of sigmoid(input), without overflow. Shapes must agree.
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BceWithLogitsOptions& options = {});

/// The options of binary_cross_entropy() and nn::BCELoss.
struct BceOptions {
  Tensor weight = {};  ///< broadcasts to the input
  Reduction reduction = Reduction::mean;
};
/// For probabilities; logarithms are clamped at -100, as in PyTorch. Shapes must agree. An input
/// outside [0, 1] is a ValueError, thrown like the IndexError of cross_entropy.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BceOptions& options = {});

/// The options of kl_div() and nn::KLDivLoss.
struct KlDivOptions {
  /// The divergence itself, averaged over a batch of distributions, is Reduction::batchmean; the
  /// default is PyTorch's.
  Reduction reduction = Reduction::mean;
  bool log_target = false;  ///< `target` holds log probabilities
};
/// target (log(target) - input), with log probabilities in `input`.
Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options = {});

}  // namespace ferrite
