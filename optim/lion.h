// Lion (Chen et al. 2023, arXiv 2302.06675, Algorithm 2): the sign of an average of the gradients,
//   w -= lr * (sign(beta1 m + (1 - beta1) g) + weight_decay w),  m = beta2 m + (1 - beta2) g,
// so that every element of a step has the same size. The authors take learning rates 3 to 10 times
// smaller than AdamW's, and weight decays as much larger.
#pragma once

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/unary.h"
#include "ferrite/optim/tensor_optimizer.h"

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

class Lion final : public TensorOptimizer<LionOptions> {
 public:
  using TensorOptimizer::TensorOptimizer;

 private:
  void update(ParameterStep& p, const LionOptions& o) override {
    const Tensor average = p.state("exp_avg"), grad = o.maximize ? neg(p.grad) : p.grad;
    const Tensor direction = sign(average * p.momentum + grad * (1 - p.momentum));
    if (o.weight_decay != 0) p.param.mul_(1 - p.lr * o.weight_decay);
    p.param.sub_(direction * p.lr);
    average.mul_(o.betas.second).add_(grad, 1 - o.betas.second);
  }
};

}  // namespace ferrite::optim
