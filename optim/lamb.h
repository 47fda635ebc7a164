// LAMB (You et al. 2020, arXiv 1904.00962, Algorithm 2): Adam's update with decoupled weight decay,
//   u = m / (sqrt(v) + eps) + weight_decay w,
// taken with a step of lr * |w| / |u| for each parameter w. The trust ratio |w| / |u| is 1 where
// one of the norms is 0. Norms are worked out on the device, and always in the same order. Apex's
// FusedLAMB also clips the norm of all gradients, for which there is clip_grad_norm_.
#pragma once

#include <limits>

#include "ferrite/optim/adam.h"

namespace ferrite::optim {

struct LAMBOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-6;
  double weight_decay = 0.01;
  bool bias_correction = true;  ///< m / (1 - beta1^t), v / (1 - beta2^t)
  /// Parameters of fewer than two dimensions (biases, weights of norms) have neither weight decay
  /// nor a trust ratio, as in the authors' program; Algorithm 2 knows no such exception.
  bool exclude_bias_and_norm = true;
  /// Bounds of the trust ratio, in the place of the paper's function of |w|; with a maximum of 1
  /// steps are no larger than AdamW's.
  double min_trust_ratio = 0, max_trust_ratio = std::numeric_limits<double>::infinity();
  bool maximize = false;
};

class LAMB final : public OptimizerWith<LAMBOptions> {
 public:
  LAMB(std::vector<Tensor> parameters, const LAMBOptions& options = {});
  explicit LAMB(const std::vector<Group>& groups);

 private:
  std::vector<Field> fields(std::size_t group) override;
  void check_options(std::size_t group) const override;
  double* momentum_option(std::size_t group) override { return &options(group).betas.first; }
  std::array<bool, kStates> states_used(std::size_t) const override { return {true, true, false}; }
  void update(const Stream& stream, std::size_t group, kernels::OptimBatch batch) override;
};

}  // namespace ferrite::optim
