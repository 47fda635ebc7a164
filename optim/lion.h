// Lion (Chen et al. 2023, arXiv 2302.06675, Algorithm 2): the sign of an average of the gradients,
//   w -= lr * (sign(beta1 m + (1 - beta1) g) + weight_decay w),  m = beta2 m + (1 - beta2) g,
// so that every element of a step has the same size. The authors take learning rates 3 to 10 times
// smaller than AdamW's, and weight decays as much larger.
#pragma once

#include "ferrite/kernels/adaptive.h"
#include "ferrite/optim/fused_optimizer.h"

namespace ferrite::optim {

struct LionOptions {
  double lr = 1e-4;
  Betas betas = {0.9, 0.99};
  double weight_decay = 0;  ///< decoupled, as AdamW's
  bool maximize = false;

  static constexpr const char* kName = "Lion";
  Fields fields() {
    return Fields{{"lr", &lr, kNonNegative}} + betas.fields() +
           Fields{{"weight_decay", &weight_decay, kNonNegative}, {"maximize", &maximize}};
  }
};

/// Steps by the sign of a running mean of the gradient; weight decay is decoupled (Chen et al.
/// 2023): `Lion(model.parameters(), {.lr = 1e-4, .weight_decay = 0.1})`.
class Lion final : public FusedOptimizer<LionOptions> {
 public:
  using FusedOptimizer::FusedOptimizer;

 private:
  StateNames state_names(const LionOptions&) const override { return {"exp_avg"}; }
  void launch(const Stream& stream, kernels::OptimBatch batch,
              const LionOptions& o) const override {
    kernels::lion(stream, batch,
                  {.beta1 = o.betas.first,
                   .beta2 = o.betas.second,
                   .weight_decay = o.weight_decay,
                   .maximize = o.maximize});
  }
};

}  // namespace ferrite::optim
