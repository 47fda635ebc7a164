// Losses as modules: `CrossEntropyLoss criterion({.label_smoothing = 0.1}); criterion(x, y)`. The
// functions and their options are in ops/loss.h, ops/margin_loss.h and ops/ctc_loss.h. Class
// weights are buffers, which move with the module.
#pragma once

#include <concepts>

#include "ferrite/nn/module.h"
#include "ferrite/ops/ctc_loss.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/margin_loss.h"

namespace ferrite::nn {

namespace detail {
/// The overload that takes options.
inline constexpr Tensor (*nll_loss)(const Tensor&, const Tensor&,
                                    const NllLossOptions&) = ferrite::nll_loss;
}  // namespace detail

/// A loss of two tensors, function(input, target, options), whose options may hold class weights.
/// Options are a struct or a Reduction.
template <auto function, class Options>
class PairLoss : public Module {
 public:
  /// {.reduction = Reduction::sum}, where that is the only option.
  struct ReductionOptions {
    /// Whether the result is the mean, the sum, or each value.
    Choice<Reduction> reduction = Reduction::mean;
  };
  explicit PairLoss(const ReductionOptions& options) requires std::same_as<Options, Reduction>
      : options_(options.reduction) {}
  explicit PairLoss(const Options& options = {}) : options_(options) {
    if constexpr (requires { options_.weight; }) register_buffer("weight", options_.weight);
    if constexpr (requires { options_.pos_weight; })
      register_buffer("pos_weight", options_.pos_weight);
  }
  using Module::forward;
  Tensor forward(const Tensor& input, const Tensor& target) {
    return function(input, target, options_);
  }

 private:
  Options options_;
};

/// A loss of three tensors: function(first, second, third, options).
template <auto function, class Options>
class TripleLoss : public Module {
 public:
  explicit TripleLoss(const Options& options = {}) : options_(options) {}
  using Module::forward;
  Tensor forward(const Tensor& first, const Tensor& second, const Tensor& third) {
    return function(first, second, third, options_);
  }

 private:
  Options options_;
};

/// cross_entropy() as a module: the negative log likelihood of the target under softmax(input,
/// dim 1). The input holds logits, [N, C] or [N, C, d1, ...]; the target holds class indices, int64
/// of [N] or [N, d1, ...], or class probabilities in the input's shape. Options: weight [C],
/// ignore_index (-100), reduction (mean), label_smoothing (0). IndexError for a class out of range.
///
///   nn::CrossEntropyLoss criterion({.label_smoothing = 0.1});
///   Tensor loss = criterion(model(x), labels);
class CrossEntropyLoss
    : public Cloneable<CrossEntropyLoss, PairLoss<cross_entropy, CrossEntropyOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// nll_loss() as a module: the negative log likelihood of class indices [N] or [N, d1, ...] where
/// the input holds log probabilities, [N, C] or [N, C, d1, ...], as LogSoftmax gives them. Options:
/// weight [C], ignore_index (-100), reduction (mean).
class NLLLoss : public Cloneable<NLLLoss, PairLoss<detail::nll_loss, NllLossOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// binary_cross_entropy_with_logits() as a module: the binary cross-entropy of sigmoid(input) and a
/// target in [0, 1] of the same shape, without overflow. Options: weight, pos_weight (the factor of
/// the positive term), reduction (mean). ShapeError unless the shapes agree.
///
///   nn::BCEWithLogitsLoss criterion;
///   Tensor loss = criterion(logits, targets);  // both [N], or both [N, C]
class BCEWithLogitsLoss
    : public Cloneable<BCEWithLogitsLoss,
                       PairLoss<binary_cross_entropy_with_logits, BceWithLogitsOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// binary_cross_entropy() as a module: the binary cross-entropy of probabilities and a target of
/// the same shape; logarithms are clamped at -100. Options: weight, reduction (mean). ValueError
/// for an input outside [0, 1]. BCEWithLogitsLoss, for values before the sigmoid, does not lose
/// precision.
class BCELoss : public Cloneable<BCELoss, PairLoss<binary_cross_entropy, BceOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// mse_loss() as a module: (input - target)^2, reduced to its mean unless the option says
/// otherwise. The two shapes broadcast.
///
///   nn::MSELoss criterion({.reduction = Reduction::sum});
///   Tensor loss = criterion(output, target);
class MSELoss : public Cloneable<MSELoss, PairLoss<mse_loss, Reduction>> {
 public:
  using Cloneable::Cloneable;
};

/// l1_loss() as a module: |input - target|, reduced to its mean unless the option says otherwise.
/// The two shapes broadcast.
class L1Loss : public Cloneable<L1Loss, PairLoss<l1_loss, Reduction>> {
 public:
  using Cloneable::Cloneable;
};

/// smooth_l1_loss() as a module. With d = |input - target| it is d^2 / (2 beta) below beta, else
/// d - beta / 2. Options: beta (1, 0 or more), reduction (mean).
class SmoothL1Loss : public Cloneable<SmoothL1Loss, PairLoss<smooth_l1_loss, SmoothL1LossOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// huber_loss() as a module. With d = |input - target| it is d^2 / 2 below delta, else delta (d -
/// delta / 2). Options: delta (1, above 0), reduction (mean).
class HuberLoss : public Cloneable<HuberLoss, PairLoss<huber_loss, HuberLossOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// kl_div() as a module: target (log(target) - input), where the input holds log probabilities.
/// Options: reduction (mean; Reduction::batchmean gives the divergence of a batch of
/// distributions), log_target (false), whether the target holds log probabilities too.
class KLDivLoss : public Cloneable<KLDivLoss, PairLoss<kl_div, KlDivOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// poisson_nll_loss() as a module: exp(input) - target * input, the negative log likelihood of
/// counts under a Poisson distribution. With log_input = false the input is the expected count
/// itself. Options: log_input (true), full (false), eps (1e-8), reduction (mean).
class PoissonNLLLoss
    : public Cloneable<PoissonNLLLoss, PairLoss<poisson_nll_loss, PoissonNllLossOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// hinge_embedding_loss() as a module: the input where the target is 1, max(0, margin - input)
/// where it is -1. Options: margin (1), reduction (mean).
class HingeEmbeddingLoss
    : public Cloneable<HingeEmbeddingLoss,
                       PairLoss<hinge_embedding_loss, HingeEmbeddingLossOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// soft_margin_loss() as a module: log(1 + exp(-target * input)), without overflow, for targets of
/// 1 and -1. Its option is the reduction (mean).
class SoftMarginLoss : public Cloneable<SoftMarginLoss, PairLoss<soft_margin_loss, Reduction>> {
 public:
  using Cloneable::Cloneable;
};

/// multi_margin_loss() as a module: the sum over classes i other than y of max(0, margin -
/// input[y] + input[i])^p / C, with an input [N, C] or [C] and the classes y in a target [N] or [].
/// Options: p (1 or 2; 1), margin (1), weight [C], reduction (mean). IndexError for a class out of
/// range.
class MultiMarginLoss
    : public Cloneable<MultiMarginLoss, PairLoss<multi_margin_loss, MultiMarginLossOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// multilabel_margin_loss() as a module: the sum over labels j and classes i that are no labels of
/// max(0, 1 - (input[j] - input[i])) / C, with an input [N, C] or [C]. The target, of the same
/// shape, lists the labels; the first -1 ends the list. Its option is the reduction (mean).
class MultiLabelMarginLoss
    : public Cloneable<MultiLabelMarginLoss, PairLoss<multilabel_margin_loss, Reduction>> {
 public:
  using Cloneable::Cloneable;
};

/// multilabel_soft_margin_loss() as a module: the binary cross-entropy of sigmoid(input) and a
/// target of 0 and 1, averaged over the last dimension, the classes. Options: weight [C], reduction
/// (mean).
class MultiLabelSoftMarginLoss
    : public Cloneable<MultiLabelSoftMarginLoss,
                       PairLoss<multilabel_soft_margin_loss, MultilabelSoftMarginLossOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// gaussian_nll_loss() as a module, called with (input, target, variance): (log(variance) +
/// (input - target)^2 / variance) / 2. Options: full (false), eps (1e-6, the least variance),
/// reduction (mean). ValueError for a negative variance.
class GaussianNLLLoss
    : public Cloneable<GaussianNLLLoss, TripleLoss<gaussian_nll_loss, GaussianNllLossOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// margin_ranking_loss() as a module, called with (input1, input2, target): max(0, -target *
/// (input1 - input2) + margin). A target of 1 asks for input1 to be the larger, -1 for input2.
/// Options: margin (0), reduction (mean).
class MarginRankingLoss
    : public Cloneable<MarginRankingLoss,
                       TripleLoss<margin_ranking_loss, MarginRankingLossOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// cosine_embedding_loss() as a module, called with (input1, input2, target): with c the cosine of
/// the angle between rows [N, D], 1 - c where the target [N] is 1, max(0, c - margin) where it is
/// -1. Options: margin (0), reduction (mean).
class CosineEmbeddingLoss
    : public Cloneable<CosineEmbeddingLoss,
                       TripleLoss<cosine_embedding_loss, CosineEmbeddingLossOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// triplet_margin_loss() as a module, called with (anchor, positive, negative): max(0, d(anchor,
/// positive) - d(anchor, negative) + margin), where d is pairwise_distance(). Options: margin (1),
/// p (2) and eps (1e-6) of the distance, swap (false), reduction (mean).
class TripletMarginLoss
    : public Cloneable<TripletMarginLoss,
                       TripleLoss<triplet_margin_loss, TripletMarginLossOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// triplet_margin_with_distance_loss() as a module: TripletMarginLoss with a distance of your own,
/// a function of two batches that gives [N]. Options: distance_function (pairwise_distance), margin
/// (1), swap (false), reduction (mean).
class TripletMarginWithDistanceLoss
    : public Cloneable<
          TripletMarginWithDistanceLoss,
          TripleLoss<triplet_margin_with_distance_loss, TripletMarginWithDistanceLossOptions>> {
 public:
  using Cloneable::Cloneable;
};

/// `ctc(log_probs, targets, input_lengths, target_lengths)`.
class CTCLoss : public Cloneable<CTCLoss> {
 public:
  explicit CTCLoss(const CtcLossOptions& options = {}) : options_(options) {}
  using Module::forward;
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths) {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, options_);
  }

 private:
  CtcLossOptions options_;
};

}  // namespace ferrite::nn
