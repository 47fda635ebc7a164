// Stochastic gradient descent with momentum, as torch.optim.SGD.
#pragma once

#include "ferrite/optim/fused_optimizer.h"

namespace ferrite::optim {

/// The options of SGD.
struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;  ///< L2: added to the gradient
  bool nesterov = false;    ///< needs momentum and no dampening (ValueError)
  bool maximize = false;

  static constexpr const char* kName = "SGD";
  Fields fields() {
    return {{"lr", &lr, kNonNegative}, {"momentum", &momentum, kNonNegative},
            {"dampening", &dampening}, {"weight_decay", &weight_decay, kNonNegative},
            {"nesterov", &nesterov},   {"maximize", &maximize}};
  }
  void check() const { check_nesterov(nesterov, momentum, dampening, kName); }
};

/// Stochastic gradient descent, with momentum, Nesterov's form and weight decay as in
/// torch.optim.SGD.
///
///   optim::SGD sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4});
///   sgd.zero_grad();
///   loss.backward();
///   sgd.step();
class SGD final : public FusedOptimizer<SGDOptions> {
 public:
  using FusedOptimizer::FusedOptimizer;

 private:
  StateNames state_names(const SGDOptions& o) const override {
    return {o.momentum != 0 ? "momentum_buffer" : nullptr};
  }
  void launch(const Stream& stream, kernels::OptimBatch batch, const SGDOptions& o) const override {
    kernels::sgd(stream, batch,
                 {.momentum = o.momentum,
                  .dampening = o.dampening,
                  .weight_decay = o.weight_decay,
                  .nesterov = o.nesterov,
                  .maximize = o.maximize});
  }
};

}  // namespace ferrite::optim
