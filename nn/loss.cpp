#include "ferrite/nn/loss.h"

namespace ferrite::nn {

CrossEntropyLoss::CrossEntropyLoss(const CrossEntropyOptions& options) : options_(options) {
  register_buffer("weight", options_.weight);
}
Tensor CrossEntropyLoss::forward(const Tensor& input, const Tensor& target) {
  return cross_entropy(input, target, options_);
}

NLLLoss::NLLLoss(const NllLossOptions& options) : options_(options) {
  register_buffer("weight", options_.weight);
}
Tensor NLLLoss::forward(const Tensor& input, const Tensor& target) {
  return nll_loss(input, target, options_);
}

BCEWithLogitsLoss::BCEWithLogitsLoss(const BceWithLogitsOptions& options) : options_(options) {
  register_buffer("weight", options_.weight);
  register_buffer("pos_weight", options_.pos_weight);
}
Tensor BCEWithLogitsLoss::forward(const Tensor& input, const Tensor& target) {
  return binary_cross_entropy_with_logits(input, target, options_);
}

Tensor MSELoss::forward(const Tensor& input, const Tensor& target) {
  return mse_loss(input, target, reduction_);
}

Tensor L1Loss::forward(const Tensor& input, const Tensor& target) {
  return l1_loss(input, target, reduction_);
}

Tensor SmoothL1Loss::forward(const Tensor& input, const Tensor& target) {
  return smooth_l1_loss(input, target, options_);
}

}  // namespace ferrite::nn
