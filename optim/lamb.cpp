#include "ferrite/optim/lamb.h"

namespace ferrite::optim {

Fields LAMBOptions::fields() {
  return {{"lr", &lr, kNonNegative},
          {"betas.0", &betas.first, kBelowOne},
          {"betas.1", &betas.second, kBelowOne},
          {"eps", &eps, kNonNegative},
          {"weight_decay", &weight_decay, kNonNegative},
          {"bias_correction", &bias_correction},
          {"exclude_bias_and_norm", &exclude_bias_and_norm},
          {"min_trust_ratio", &min_trust_ratio, kNonNegative},
          {"max_trust_ratio", &max_trust_ratio},
          {"maximize", &maximize}};
}

void LAMBOptions::check() const {
  FERRITE_CHECK(max_trust_ratio >= min_trust_ratio, ValueError, kName,
                "expected min_trust_ratio up to max_trust_ratio, got {} and {}", min_trust_ratio,
                max_trust_ratio);
}

void LAMB::launch(const Stream& stream, kernels::OptimBatch batch, const LAMBOptions& o) const {
  if (!o.exclude_bias_and_norm)
    for (kernels::OptimTensor& t : batch.tensors) t.adapts = true;
  kernels::lamb(stream, batch,
                {.beta1 = o.betas.first,
                 .beta2 = o.betas.second,
                 .eps = o.eps,
                 .weight_decay = o.weight_decay,
                 .min_trust_ratio = o.min_trust_ratio,
                 .max_trust_ratio = o.max_trust_ratio,
                 .bias_correction = o.bias_correction,
                 .maximize = o.maximize});
}

}  // namespace ferrite::optim
