// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), as torch.optim has them.
#pragma once

#include "ferrite/optim/fused_optimizer.h"

namespace ferrite::optim {

/// Adam's weight decay is added to the gradient (L2); AdamW's is decoupled: a step takes
/// lr * weight_decay of the parameter itself.
template <bool kDecoupled>
struct AdamOptionsOf {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = kDecoupled ? 1e-2 : 0;
  bool amsgrad = false;  ///< divides by the largest second moment so far (Reddi et al. 2018)
  bool maximize = false;

  static constexpr const char* kName = kDecoupled ? "AdamW" : "Adam";
  Fields fields() {
    return Fields{{"lr", &lr, kNonNegative}} + betas.fields() +
           Fields{{"eps", &eps, kNonNegative},
                  {"weight_decay", &weight_decay, kNonNegative},
                  {"amsgrad", &amsgrad},
                  {"maximize", &maximize}};
  }
};
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;

/// Adam, or, if `kDecoupled`, AdamW.
template <bool kDecoupled>
class AdamOf final : public FusedOptimizer<AdamOptionsOf<kDecoupled>> {
 public:
  /// Its options.
  using Options = AdamOptionsOf<kDecoupled>;
  using FusedOptimizer<Options>::FusedOptimizer;

 private:
  StateNames state_names(const Options& o) const override {
    return {"exp_avg", "exp_avg_sq", o.amsgrad ? "max_exp_avg_sq" : nullptr};
  }
  void launch(const Stream& stream, kernels::OptimBatch batch, const Options& o) const override {
    kernels::adam(stream, batch,
                  {.beta1 = o.betas.first,
                   .beta2 = o.betas.second,
                   .eps = o.eps,
                   .weight_decay = o.weight_decay,
                   .decoupled = kDecoupled,
                   .amsgrad = o.amsgrad,
                   .maximize = o.maximize});
  }
};
/// Adam (Kingma and Ba 2015); weight decay is added to the gradient.
///
///   optim::Adam adam(model.parameters(), {.lr = 1e-3, .betas = {0.9, 0.999}});
using Adam = AdamOf<false>;
/// Adam with decoupled weight decay (Loshchilov and Hutter 2019): weights shrink by lr *
/// weight_decay in each step.
///
///   optim::AdamW adamw(model.parameters(), {.lr = 3e-4, .weight_decay = 0.01});
using AdamW = AdamOf<true>;

}  // namespace ferrite::optim
