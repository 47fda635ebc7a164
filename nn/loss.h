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
    Reduction reduction = Reduction::mean;
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

class CrossEntropyLoss
    : public Cloneable<CrossEntropyLoss, PairLoss<cross_entropy, CrossEntropyOptions>> {
 public:
  using Cloneable::Cloneable;
};
class NLLLoss : public Cloneable<NLLLoss, PairLoss<detail::nll_loss, NllLossOptions>> {
 public:
  using Cloneable::Cloneable;
};
class BCEWithLogitsLoss
    : public Cloneable<BCEWithLogitsLoss,
                       PairLoss<binary_cross_entropy_with_logits, BceWithLogitsOptions>> {
 public:
  using Cloneable::Cloneable;
};
class BCELoss : public Cloneable<BCELoss, PairLoss<binary_cross_entropy, BceOptions>> {
 public:
  using Cloneable::Cloneable;
};
class MSELoss : public Cloneable<MSELoss, PairLoss<mse_loss, Reduction>> {
 public:
  using Cloneable::Cloneable;
};
class L1Loss : public Cloneable<L1Loss, PairLoss<l1_loss, Reduction>> {
 public:
  using Cloneable::Cloneable;
};
class SmoothL1Loss : public Cloneable<SmoothL1Loss, PairLoss<smooth_l1_loss, SmoothL1LossOptions>> {
 public:
  using Cloneable::Cloneable;
};
class HuberLoss : public Cloneable<HuberLoss, PairLoss<huber_loss, HuberLossOptions>> {
 public:
  using Cloneable::Cloneable;
};
class KLDivLoss : public Cloneable<KLDivLoss, PairLoss<kl_div, KlDivOptions>> {
 public:
  using Cloneable::Cloneable;
};
class PoissonNLLLoss
    : public Cloneable<PoissonNLLLoss, PairLoss<poisson_nll_loss, PoissonNllLossOptions>> {
 public:
  using Cloneable::Cloneable;
};
class HingeEmbeddingLoss
    : public Cloneable<HingeEmbeddingLoss,
                       PairLoss<hinge_embedding_loss, HingeEmbeddingLossOptions>> {
 public:
  using Cloneable::Cloneable;
};
class SoftMarginLoss : public Cloneable<SoftMarginLoss, PairLoss<soft_margin_loss, Reduction>> {
 public:
  using Cloneable::Cloneable;
};
class MultiMarginLoss
    : public Cloneable<MultiMarginLoss, PairLoss<multi_margin_loss, MultiMarginLossOptions>> {
 public:
  using Cloneable::Cloneable;
};
class MultiLabelMarginLoss
    : public Cloneable<MultiLabelMarginLoss, PairLoss<multilabel_margin_loss, Reduction>> {
 public:
  using Cloneable::Cloneable;
};
class MultiLabelSoftMarginLoss
    : public Cloneable<MultiLabelSoftMarginLoss,
                       PairLoss<multilabel_soft_margin_loss, MultilabelSoftMarginLossOptions>> {
 public:
  using Cloneable::Cloneable;
};

// Of (input, target, variance), of (input1, input2, target), and of (anchor, positive, negative).
class GaussianNLLLoss
    : public Cloneable<GaussianNLLLoss, TripleLoss<gaussian_nll_loss, GaussianNllLossOptions>> {
 public:
  using Cloneable::Cloneable;
};
class MarginRankingLoss
    : public Cloneable<MarginRankingLoss,
                       TripleLoss<margin_ranking_loss, MarginRankingLossOptions>> {
 public:
  using Cloneable::Cloneable;
};
class CosineEmbeddingLoss
    : public Cloneable<CosineEmbeddingLoss,
                       TripleLoss<cosine_embedding_loss, CosineEmbeddingLossOptions>> {
 public:
  using Cloneable::Cloneable;
};
class TripletMarginLoss
    : public Cloneable<TripletMarginLoss,
                       TripleLoss<triplet_margin_loss, TripletMarginLossOptions>> {
 public:
  using Cloneable::Cloneable;
};
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
