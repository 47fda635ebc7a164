// Losses of counts, of distributions, of margins between pairs and triplets, and of many labels.
// Shapes, reductions and options are PyTorch's (torch.nn.functional), as in ops/loss.h, whose
// errors they share. Made of other operations: differentiable to any order. Under autocast they
// compute in float32.
#pragma once

#include <functional>

#include "ferrite/ops/loss.h"

namespace ferrite {

// ---- Elementwise

/// The options of poisson_nll_loss() and nn::PoissonNLLLoss.
struct PoissonNllLossOptions {
  bool log_input = true;  ///< `input` is the logarithm of the expected count
  bool full = false;      ///< with Stirling's approximation of log(target!), for targets above 1
  double eps = 1e-8;      ///< added to an input that is no logarithm
  Choice<Reduction> reduction = Reduction::mean;
};
/// exp(input) - target * input, or input - target * log(input + eps).
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target,
                        const PoissonNllLossOptions& options = {});

/// The options of gaussian_nll_loss() and nn::GaussianNLLLoss.
struct GaussianNllLossOptions {
  bool full = false;  ///< with the constant log(2 pi) / 2
  double eps =
      1e-6;  ///< least variance; the gradient of `var` goes on as if it were not held there
  Choice<Reduction> reduction = Reduction::mean;
};
/// (log(var) + (input - target)^2 / var) / 2. `var` has the shape of `input`, or that with one
/// dimension of size 1, or without the last one (ShapeError). A negative variance is a ValueError,
/// thrown like the IndexError of cross_entropy.
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNllLossOptions& options = {});

struct HingeEmbeddingLossOptions {
  double margin = 1;
  Choice<Reduction> reduction = Reduction::mean;
};
/// `input` where the target is 1, max(0, margin - input) where it is -1.
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target,
                            const HingeEmbeddingLossOptions& options = {});

/// log(1 + exp(-target * input)), without overflow, for targets of 1 and -1.
Tensor soft_margin_loss(const Tensor& input, const Tensor& target,
                        Choice<Reduction> reduction = Reduction::mean);

// ---- Pairs and triplets

struct MarginRankingLossOptions {
  double margin = 0;
  Choice<Reduction> reduction = Reduction::mean;
};
/// max(0, -target * (input1 - input2) + margin): a target of 1 asks for input1 to be the larger.
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           const MarginRankingLossOptions& options = {});

struct CosineEmbeddingLossOptions {
  double margin = 0;
  Choice<Reduction> reduction = Reduction::mean;
};
/// With c the cosine of the angle between rows [N, D] (or [D]): 1 - c where the target [N] (or [])
/// is 1, max(0, c - margin) where it is -1.
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             const CosineEmbeddingLossOptions& options = {});

struct TripletMarginLossOptions {
  double margin = 1;
  double p = 2;  ///< of the distance
  double eps = 1e-6;
  bool swap = false;  ///< use the distance from positive to negative where it is the shorter
  Choice<Reduction> reduction = Reduction::mean;
};
/// max(0, d(anchor, positive) - d(anchor, negative) + margin), with pairwise_distance as d.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& options = {});

/// The distance of two batches of vectors, [N].
using DistanceFunction = std::function<Tensor(const Tensor&, const Tensor&)>;
struct TripletMarginWithDistanceLossOptions {
  DistanceFunction distance_function = {};  ///< unset: pairwise_distance
  double margin = 1;
  /// Whether the distance of positive and negative counts if it is the smaller one.
  bool swap = false;
  Choice<Reduction> reduction = Reduction::mean;
};
/// The loss of anchor, positive and negative under a distance of your own.
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                         const Tensor& negative,
                                         const TripletMarginWithDistanceLossOptions& options = {});

// ---- Classes and labels

struct MultiMarginLossOptions {
  int p = 1;  ///< 1 or 2
  double margin = 1;
  Tensor weight = {};  ///< [C]: one factor per class
  Choice<Reduction> reduction = Reduction::mean;
};
/// The sum over classes i other than y of max(0, margin - input[y] + input[i])^p / C, with `input`
/// [N, C] or [C] and the classes y in `target` [N] or []. IndexError as of cross_entropy.
Tensor multi_margin_loss(const Tensor& input, const Tensor& target,
                         const MultiMarginLossOptions& options = {});

/// The sum over labels j of the target and classes i that are no labels of max(0, 1 - (input[j] -
/// input[i])) / C. `target` [N, C] or [C] lists the labels; the first -1 ends the list. It takes
/// memory for C * C values per row.
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                              Choice<Reduction> reduction = Reduction::mean);

/// The options of multilabel_soft_margin_loss() and nn::MultiLabelSoftMarginLoss.
struct MultilabelSoftMarginLossOptions {
  Tensor weight = {};  ///< [C]
  Choice<Reduction> reduction = Reduction::mean;
};
/// binary_cross_entropy_with_logits, averaged over the last dimension, the classes.
Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const MultilabelSoftMarginLossOptions& options = {});

}  // namespace ferrite
