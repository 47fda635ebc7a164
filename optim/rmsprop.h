// RMSprop (Tieleman and Hinton 2012; centered: Graves 2013), as torch.optim.RMSprop.
#pragma once

#include "ferrite/optim/fused_optimizer.h"

namespace ferrite::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  ///< smoothing of the mean square
  double eps = 1e-8;
  double weight_decay = 0;  ///< L2: added to the gradient
  double momentum = 0;
  bool centered = false;  ///< divides by the deviation instead of the root mean square
  bool maximize = false;

  static constexpr const char* kName = "RMSprop";
  Fields fields() {
    return {{"lr", &lr, kNonNegative},
            {"alpha", &alpha, kNonNegative},
            {"eps", &eps, kNonNegative},
            {"weight_decay", &weight_decay, kNonNegative},
            {"momentum", &momentum, kNonNegative},
            {"centered", &centered},
            {"maximize", &maximize}};
  }
};

/// Divides the gradient by the root of the running mean of its squares, with momentum if asked for:
/// `RMSprop(model.parameters(), {.lr = 0.01, .alpha = 0.99})`.
class RMSprop final : public FusedOptimizer<RMSpropOptions> {
 public:
  using FusedOptimizer::FusedOptimizer;

 private:
  StateNames state_names(const RMSpropOptions& o) const override {
    return {"square_avg", o.momentum > 0 ? "momentum_buffer" : nullptr,
            o.centered ? "grad_avg" : nullptr};
  }
  void launch(const Stream& stream, kernels::OptimBatch batch,
              const RMSpropOptions& o) const override {
    kernels::rmsprop(stream, batch,
                     {.alpha = o.alpha,
                      .eps = o.eps,
                      .weight_decay = o.weight_decay,
                      .momentum = o.momentum,
                      .centered = o.centered,
                      .maximize = o.maximize});
  }
};

}  // namespace ferrite::optim
