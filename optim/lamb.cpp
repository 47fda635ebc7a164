#include "ferrite/optim/lamb.h"

namespace ferrite::optim {

namespace {
constexpr std::array<const char*, 3> kLAMBState = {"exp_avg", "exp_avg_sq", nullptr};
}

LAMB::LAMB(std::vector<Tensor> parameters, const LAMBOptions& options)
    : OptimizerWith("LAMB", kLAMBState) {
  add_groups({{std::move(parameters), options}});
}

LAMB::LAMB(const std::vector<Group>& groups) : OptimizerWith("LAMB", kLAMBState) {
  add_groups(groups);
}

std::vector<Optimizer::Field> LAMB::fields(std::size_t group) {
  LAMBOptions& o = options(group);
  return {{"lr", &o.lr},
          {"betas.0", &o.betas.first},
          {"betas.1", &o.betas.second},
          {"eps", &o.eps},
          {"weight_decay", &o.weight_decay},
          {"bias_correction", &o.bias_correction},
          {"exclude_bias_and_norm", &o.exclude_bias_and_norm},
          {"min_trust_ratio", &o.min_trust_ratio},
          {"max_trust_ratio", &o.max_trust_ratio},
          {"maximize", &o.maximize}};
}

void LAMB::check_options(std::size_t group) const {
  const LAMBOptions& o = options(group);
  FERRITE_CHECK(o.lr >= 0, ValueError, "LAMB", "expected a learning rate of 0 or more, got {}",
                o.lr);
  FERRITE_CHECK(
      o.betas.first >= 0 && o.betas.first < 1 && o.betas.second >= 0 && o.betas.second < 1,
      ValueError, "LAMB", "expected betas in [0, 1), got {} and {}", o.betas.first, o.betas.second);
  FERRITE_CHECK(o.eps >= 0, ValueError, "LAMB", "expected an eps of 0 or more, got {}", o.eps);
  FERRITE_CHECK(o.weight_decay >= 0, ValueError, "LAMB",
                "expected a weight decay of 0 or more, got {}", o.weight_decay);
  FERRITE_CHECK(o.min_trust_ratio >= 0 && o.max_trust_ratio >= o.min_trust_ratio, ValueError,
                "LAMB", "expected bounds of the trust ratio, got {} and {}", o.min_trust_ratio,
                o.max_trust_ratio);
}

void LAMB::update(const Stream& stream, std::size_t group, kernels::OptimBatch batch) {
  const LAMBOptions& o = options(group);
  if (!o.exclude_bias_and_norm)
    for (kernels::OptimTensor& t : batch.tensors) t.adapts = true;
  kernels::lamb(stream, std::move(batch),
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
