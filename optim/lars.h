// LARS (You, Gitman and Ginsburg 2017, arXiv 1708.03888): SGD with gradients that are scaled, by a
// factor for each parameter w, to
//   trust_coefficient |w| / (|g| + weight_decay |w| + eps) * (g + weight_decay w),
// so that large batches can have large learning rates. The factor is 1 if |w| or |g| is 0.
// Momentum is SGD's, with the learning rate outside of it. Norms and factors are computed on the
// device, always in the same order.
#pragma once

#include "ferrite/kernels/layerwise.h"
#include "ferrite/optim/fused_optimizer.h"

namespace ferrite::optim {

struct LARSOptions {
  double lr = 0.1;
  double momentum = 0.9;
  double dampening = 0;
  double weight_decay = 0;
  double trust_coefficient = 1e-3;  ///< the step of a layer, by its weights
  double eps = 1e-8;
  /// Parameters of fewer than two dimensions (biases, weights of norms) have neither weight decay
  /// nor a factor of their own.
  bool exclude_bias_and_norm = true;
  /// As Apex's LARC with clipping: the step is min(factor, lr) times the gradient instead of
  /// factor * lr times it.
  bool trust_clip = false;
  bool nesterov = false;  ///< needs momentum and no dampening (ValueError)
  bool maximize = false;

  static constexpr const char* kName = "LARS";
  Fields fields() {
    return {{"lr", &lr, kNonNegative},
            {"momentum", &momentum, kNonNegative},
            {"dampening", &dampening},
            {"weight_decay", &weight_decay, kNonNegative},
            {"trust_coefficient", &trust_coefficient, kNonNegative},
            {"eps", &eps, kNonNegative},
            {"exclude_bias_and_norm", &exclude_bias_and_norm},
            {"trust_clip", &trust_clip},
            {"nesterov", &nesterov},
            {"maximize", &maximize}};
  }
  void check() const { check_nesterov(nesterov, momentum, dampening, kName); }
};

/// SGD whose gradients are scaled for each parameter by the ratio of the norms of weights and
/// gradient (You et al. 2017), for large batches:
/// `LARS(model.parameters(), {.lr = 1, .momentum = 0.9})`.
class LARS final : public FusedOptimizer<LARSOptions> {
 public:
  using FusedOptimizer::FusedOptimizer;

 private:
  StateNames state_names(const LARSOptions& o) const override {
    return {o.momentum != 0 ? "momentum_buffer" : nullptr};
  }
  bool mixes_gradients() const override { return false; }  // their norms are of one type
  void launch(const Stream& stream, kernels::OptimBatch batch,
              const LARSOptions& o) const override {
    if (!o.exclude_bias_and_norm)
      for (kernels::OptimTensor& t : batch.tensors) t.adapts = true;
    kernels::lars(stream, batch,
                  {.momentum = o.momentum,
                   .dampening = o.dampening,
                   .weight_decay = o.weight_decay,
                   .trust_coefficient = o.trust_coefficient,
                   .eps = o.eps,
                   .trust_clip = o.trust_clip,
                   .nesterov = o.nesterov,
                   .maximize = o.maximize});
  }
};

}  // namespace ferrite::optim
