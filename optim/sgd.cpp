#include "ferrite/optim/sgd.h"

namespace ferrite::optim {

Fields SGDOptions::fields() {
  return {{"lr", &lr, kNonNegative}, {"momentum", &momentum, kNonNegative},
          {"dampening", &dampening}, {"weight_decay", &weight_decay, kNonNegative},
          {"nesterov", &nesterov},   {"maximize", &maximize}};
}

StateNames SGD::state_names(const SGDOptions& o) const {
  return {o.momentum != 0 ? "momentum_buffer" : nullptr};
}

void SGD::launch(const Stream& stream, kernels::OptimBatch batch, const SGDOptions& o) const {
  kernels::sgd(stream, batch,
               {.momentum = o.momentum,
                .dampening = o.dampening,
                .weight_decay = o.weight_decay,
                .nesterov = o.nesterov,
                .maximize = o.maximize});
}

}  // namespace ferrite::optim
