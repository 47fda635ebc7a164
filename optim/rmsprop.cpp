#include "ferrite/optim/rmsprop.h"

namespace ferrite::optim {

Fields RMSpropOptions::fields() {
  return {{"lr", &lr, kNonNegative},
          {"alpha", &alpha, kNonNegative},
          {"eps", &eps, kNonNegative},
          {"weight_decay", &weight_decay, kNonNegative},
          {"momentum", &momentum, kNonNegative},
          {"centered", &centered},
          {"maximize", &maximize}};
}

StateNames RMSprop::state_names(const RMSpropOptions& o) const {
  return {"square_avg", o.momentum > 0 ? "momentum_buffer" : nullptr,
          o.centered ? "grad_avg" : nullptr};
}

void RMSprop::launch(const Stream& stream, kernels::OptimBatch batch,
                     const RMSpropOptions& o) const {
  kernels::rmsprop(stream, batch,
                   {.alpha = o.alpha,
                    .eps = o.eps,
                    .weight_decay = o.weight_decay,
                    .momentum = o.momentum,
                    .centered = o.centered,
                    .maximize = o.maximize});
}

}  // namespace ferrite::optim
