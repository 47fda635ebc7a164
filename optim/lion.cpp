#include "ferrite/optim/lion.h"

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/unary.h"

namespace ferrite::optim {

Fields LionOptions::fields() {
  return {{"lr", &lr, kNonNegative},
          {"betas.0", &betas.first, kBelowOne},
          {"betas.1", &betas.second, kBelowOne},
          {"weight_decay", &weight_decay, kNonNegative},
          {"maximize", &maximize}};
}

void Lion::update(ParameterStep& p, const LionOptions& o) {
  const Tensor average = p.state("exp_avg"), grad = o.maximize ? neg(p.grad) : p.grad;
  const Tensor direction = sign(average * p.momentum + grad * (1 - p.momentum));
  if (o.weight_decay != 0) p.param.mul_(1 - p.lr * o.weight_decay);
  p.param.sub_(direction * p.lr);
  average.mul_(o.betas.second).add_(grad, 1 - o.betas.second);
}

}  // namespace ferrite::optim
