// LAMB (You et al. 2020, arXiv 1904.00962, Algorithm 2): Adam's update with decoupled weight decay,
//   u = m / (sqrt(v) + eps) + weight_decay w,
// with a step of lr * |w| / |u| for each parameter w. The trust ratio |w| / |u| is 1 if one of the
// norms is 0. Norms are computed on the device, always in the same order. Apex's FusedLAMB also
// clips the norm of all gradients; use clip_grad_norm_ for that.
#pragma once

#include <limits>

#include "ferrite/kernels/layerwise.h"
#include "ferrite/optim/fused_optimizer.h"

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
  /// Bounds of the trust ratio, instead of the paper's function of |w|; with a maximum of 1
  /// steps are no larger than AdamW's.
  double min_trust_ratio = 0, max_trust_ratio = std::numeric_limits<double>::infinity();
  bool maximize = false;

  static constexpr const char* kName = "LAMB";
  Fields fields() {
    return Fields{{"lr", &lr, kNonNegative}} + betas.fields() +
           Fields{{"eps", &eps, kNonNegative},
                  {"weight_decay", &weight_decay, kNonNegative},
                  {"bias_correction", &bias_correction},
                  {"exclude_bias_and_norm", &exclude_bias_and_norm},
                  {"min_trust_ratio", &min_trust_ratio, kNonNegative},
                  {"max_trust_ratio", &max_trust_ratio},
                  {"maximize", &maximize}};
  }
  void check() const {
    FERRITE_CHECK(max_trust_ratio >= min_trust_ratio, ValueError, kName,
                  "expected min_trust_ratio up to max_trust_ratio, got {} and {}", min_trust_ratio,
                  max_trust_ratio);
  }
};

/// Adam's update, scaled for each parameter by the ratio of the norms of weights and update (You et
/// al. 2020), for large batches: `LAMB(model.parameters(), {.lr = 2e-3})`.
class LAMB final : public FusedOptimizer<LAMBOptions> {
 public:
  using FusedOptimizer::FusedOptimizer;

 private:
  StateNames state_names(const LAMBOptions&) const override { return {"exp_avg", "exp_avg_sq"}; }
  bool mixes_gradients() const override { return false; }  // their norms are of one type
  void launch(const Stream& stream, kernels::OptimBatch batch,
              const LAMBOptions& o) const override {
    if (!o.exclude_bias_and_norm)
      for (kernels::OptimTensor& t : batch.tensors) t.adapts = true;
    kernels::lamb(stream, batch,
                  {.beta1 = o.betas.first,
                   .beta2 = o.betas.second,
                   .eps = o.eps,
                   .weight_decay = o.weight_decay,
                   .min_trust_ratio = o.min_trust_ratio,
                   .max_trust_ratio = o.max_trust_ratio,
                   .bias_correction = o.bias_correction,
                   .maximize = o.maximize});
  }
};

}  // namespace ferrite::optim
