// Losses. Shapes, reductions and options are PyTorch's (torch.nn.functional); options are small
// structs for designated initializers: cross_entropy(logits, target, {.label_smoothing = 0.1}).
//
// The result of Reduction::mean and sum has no dimensions, that of none has one loss for each
// element (for each target, where targets are classes). Its dtype is that of the input, promoted
// with a floating target. DTypeError unless predictions are floating; ShapeError if shapes do not
// match; DeviceError for mixed devices; ValueError for undefined tensors. 16-bit types compute in
// float32.
#pragma once

#include <cstdint>

#include "ferrite/core/choice.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// How the losses of the elements become the result. Mean, Sum, None and BatchMean are other names.
enum class Reduction : std::uint8_t {
  mean,       ///< their mean, []; NaN if there are none
  sum,        ///< their sum, []
  none,       ///< the losses themselves, in their shape
  batchmean,  ///< their sum divided by the size of dimension 0, []; of kl_div alone (ValueError)
  Mean = mean,
  Sum = sum,
  None = none,
  BatchMean = batchmean
};
template <>
struct detail::ChoiceNames<Reduction> {
  static constexpr const char* kOption = "reduction";
  static constexpr std::pair<const char*, Reduction> kNames[] = {
      {"mean", Reduction::mean},
      {"sum", Reduction::sum},
      {"none", Reduction::none},
      {"batchmean", Reduction::batchmean}};
};

/// The options of cross_entropy() and nn::CrossEntropyLoss.
struct CrossEntropyOptions {
  /// [C], floating (ShapeError): one factor per class. It gets a gradient with a target of class
  /// probabilities only; with class indices, one that requires it is an AutogradError.
  Tensor weight = {};
  /// A class index that does not count. ValueError if it is 0 or more with class probabilities.
  std::int64_t ignore_index = -100;
  Choice<Reduction> reduction = Reduction::mean;
  double label_smoothing = 0;  ///< the share of the target spread over all classes; in [0, 1]
};

/// The negative log likelihood of `target` under softmax(input, 1), with logits `input` [C], [N, C]
/// or [N, C, d1, ...]. `target` has class indices (integers; [], [N] or [N, d1, ...]) or, if it is
/// floating with the shape of `input`, class probabilities; DTypeError for bool. Without reduction
/// the result is [], [N] or [N, d1, ...].
///
/// Class indices equal to ignore_index do not count. The mean of class indices divides by the sum
/// of the weights of those that count (NaN if none does), that of probabilities by the number of
/// targets. An index out of range is an IndexError that names value and position, thrown at once on
/// the host, and on other devices by the next synchronization. ValueError for a label_smoothing
/// outside [0, 1]. For class indices it takes one pass forward and one backward.
///
///   Tensor loss = cross_entropy(model(images), labels, {.label_smoothing = 0.1});
///   loss.backward();
Tensor cross_entropy(const Tensor& input, const Tensor& target,
                     const CrossEntropyOptions& options = {});

/// The options of nll_loss() and nn::NLLLoss.
struct NllLossOptions {
  /// [C], floating (ShapeError): one factor per class. It gets no gradient (AutogradError).
  Tensor weight = {};
  std::int64_t ignore_index = -100;
  Choice<Reduction> reduction = Reduction::mean;
};
/// -input[n][target[n]]: cross_entropy() of class indices, with log probabilities as `input`.
/// Shapes, mean and IndexError are those of cross_entropy(); DTypeError unless `target` holds
/// integers.
///
///   Tensor log_probs = log_softmax(model(images), 1);  // [N, C]
///   Tensor loss = nll_loss(log_probs, labels);         // cross_entropy(model(images), labels)
Tensor nll_loss(const Tensor& input, const Tensor& target, const NllLossOptions& options = {});
/// The same, in libtorch's order of arguments.
inline Tensor nll_loss(const Tensor& input, const Tensor& target, const Tensor& weight,
                       Choice<Reduction> reduction, std::int64_t ignore_index = -100) {
  return nll_loss(
      input, target,
      NllLossOptions{.weight = weight, .ignore_index = ignore_index, .reduction = reduction});
}

// Elementwise losses of two tensors, broadcast against each other.

/// (input - target)^2, elementwise. The tensors broadcast (ShapeError), with a warning, once in a
/// process, if their shapes differ. The result has the promoted dtype, which is floating
/// (DTypeError).
///
///   Tensor loss = mse_loss(model(x).squeeze(1), y);               // []
///   Tensor each = mse_loss(prediction, target, Reduction::none);  // their shape
Tensor mse_loss(const Tensor& input, const Tensor& target,
                Choice<Reduction> reduction = Reduction::mean);
/// |input - target|, elementwise. Shapes and dtypes as of mse_loss().
Tensor l1_loss(const Tensor& input, const Tensor& target,
               Choice<Reduction> reduction = Reduction::mean);

struct SmoothL1LossOptions {
  Choice<Reduction> reduction = Reduction::mean;
  double beta = 1;  ///< where the loss changes from quadratic to linear; 0 or more
};
/// With d = |input - target|: d^2 / (2 beta) below beta, d - beta / 2 above; 0 for an infinite
/// beta. Shapes and dtypes as of mse_loss(); ValueError for a beta below 0.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const SmoothL1LossOptions& options = {});

struct HuberLossOptions {
  Choice<Reduction> reduction = Reduction::mean;
  double delta = 1;  ///< where the loss changes from quadratic to linear; above 0
};
/// With d = |input - target|: d^2 / 2 below delta, delta (d - delta / 2) above. Shapes and dtypes
/// as of mse_loss(); ValueError unless delta is above 0.
Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options = {});

/// The options of binary_cross_entropy_with_logits() and nn::BCEWithLogitsLoss.
struct BceWithLogitsOptions {
  Tensor weight = {};  ///< factor of each loss; broadcasts to the input (ShapeError)
  Choice<Reduction> reduction = Reduction::mean;
  /// Factor of the positive term, such as [C] for input [N, C]; broadcasts to the input
  /// (ShapeError).
  Tensor pos_weight = {};
};
/// Binary cross-entropy of sigmoid(input), without overflow. `target`, floating (DTypeError) and of
/// the input's shape (ShapeError), has probabilities, mostly 0 and 1; they are not checked. The
/// mean divides by the number of elements.
///
///   Tensor loss = binary_cross_entropy_with_logits(logits, labels.to(logits.dtype()));
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BceWithLogitsOptions& options = {});

/// The options of binary_cross_entropy() and nn::BCELoss.
struct BceOptions {
  Tensor weight = {};  ///< factor of each loss; broadcasts to the input (ShapeError)
  Choice<Reduction> reduction = Reduction::mean;
};
/// -(target log(input) + (1 - target) log(1 - input)), elementwise, of probabilities; logarithms
/// are clamped at -100, as in PyTorch. Both have one floating dtype (DTypeError) and one shape
/// (ShapeError). An input outside [0, 1] is a ValueError, thrown like the IndexError of
/// cross_entropy(). Of logits, binary_cross_entropy_with_logits() is more accurate.
///
///   Tensor p = sigmoid(logits);                                   // [N]
///   Tensor loss = binary_cross_entropy(p, labels.to(p.dtype()));  // labels [N], 0 or 1
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BceOptions& options = {});

/// The options of kl_div() and nn::KLDivLoss.
struct KlDivOptions {
  /// batchmean gives the Kullback-Leibler divergence, averaged over the batch. The default is
  /// PyTorch's, the mean over all elements, which for [N, C] is C times smaller.
  Choice<Reduction> reduction = Reduction::mean;
  bool log_target = false;  ///< `target` holds log probabilities
};
/// target (log(target) - input), elementwise, with log probabilities in `input` and probabilities
/// in `target`; 0 where the target is 0, NaN where it is negative. Shapes and dtypes as of
/// mse_loss(). batchmean divides the sum by input.size(0); of an input without dimensions it is the
/// sum.
///
///   Tensor loss = kl_div(log_softmax(student, 1), softmax(teacher, 1),  // [N, C]
///                        {.reduction = Reduction::batchmean});
Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options = {});

}  // namespace ferrite
