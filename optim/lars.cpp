#include "ferrite/optim/lars.h"

namespace ferrite::optim {

Fields LARSOptions::fields() {
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

StateNames LARS::state_names(const LARSOptions& o) const {
  return {o.momentum != 0 ? "momentum_buffer" : nullptr};
}

void LARS::launch(const Stream& stream, kernels::OptimBatch batch, const LARSOptions& o) const {
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

}  // namespace ferrite::optim
