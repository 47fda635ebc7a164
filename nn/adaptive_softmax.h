// The adaptive softmax (Grave et al., "Efficient softmax approximation for GPUs", 2017), for very
// many classes, frequent ones first.
#pragma once

#include <cstdint>
#include <vector>

#include "ferrite/nn/containers.h"
#include "ferrite/nn/linear.h"

namespace ferrite::nn {

struct AdaptiveLogSoftmaxWithLossOptions {
  double div_value = 4;    ///< cluster i computes with in_features / div_value^(i + 1) features
  bool head_bias = false;  ///< whether the head has a bias
};

/// The results of AdaptiveLogSoftmaxWithLoss.
struct ASMoutput {
  Tensor output;  ///< [N], the logarithm of the probability of each target; [] for a single row
  Tensor loss;    ///< the negative mean of output
};

/// Classes 0 to cutoffs[0] - 1 are in the head; each next cutoff ends a cluster of rarer classes,
/// whose probability is that of the cluster times that of the class within it. Children have
/// PyTorch's names: head, and tail.0.0, tail.0.1, ... ValueError for cutoffs that are not
/// increasing numbers of 1 to n_classes - 1, and where div_value leaves a cluster no feature.
class AdaptiveLogSoftmaxWithLoss : public Cloneable<AdaptiveLogSoftmaxWithLoss> {
 public:
  AdaptiveLogSoftmaxWithLoss(std::int64_t in_features, std::int64_t n_classes,
                             const std::vector<std::int64_t>& cutoffs,
                             const AdaptiveLogSoftmaxWithLossOptions& options = {});
  using Module::forward;
  /// Of rows [N, in_features] and classes [N], int64; or [in_features] and []. Waits for the
  /// device: each cluster computes only the rows of its classes. IndexError for a class out of
  /// range.
  ASMoutput forward(const Tensor& input, const Tensor& target);
  ASMoutput operator()(const Tensor& input, const Tensor& target) {
    return Cloneable::operator()(input, target);
  }
  /// The logarithms of all classes' probabilities, [N, n_classes].
  Tensor log_prob(const Tensor& input);
  /// The most probable class of each row, [N].
  Tensor predict(const Tensor& input);

  Linear head;      ///< the layer for the frequent classes and for the clusters
  ModuleList tail;  ///< the layers of the clusters of rarer classes

 private:
  Tensor cluster(std::size_t i, const Tensor& input);

  std::int64_t in_features_;
  std::vector<std::int64_t> cutoffs_;  // ends with n_classes
};

}  // namespace ferrite::nn
