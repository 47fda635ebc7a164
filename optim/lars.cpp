#include "ferrite/optim/lars.h"

namespace ferrite::optim {

namespace {
constexpr std::array<const char*, 3> kLARSState = {"momentum_buffer", nullptr, nullptr};
}

LARS::LARS(std::vector<Tensor> parameters, const LARSOptions& options)
    : OptimizerWith("LARS", kLARSState) {
  add_groups({{std::move(parameters), options}});
}

LARS::LARS(const std::vector<Group>& groups) : OptimizerWith("LARS", kLARSState) {
  add_groups(groups);
}

std::vector<Optimizer::Field> LARS::fields(std::size_t group) {
  LARSOptions& o = options(group);
  return {{"lr", &o.lr},
          {"momentum", &o.momentum},
          {"dampening", &o.dampening},
          {"weight_decay", &o.weight_decay},
          {"trust_coefficient", &o.trust_coefficient},
          {"eps", &o.eps},
          {"exclude_bias_and_norm", &o.exclude_bias_and_norm},
          {"trust_clip", &o.trust_clip},
          {"nesterov", &o.nesterov},
          {"maximize", &o.maximize}};
}

void LARS::check_options(std::size_t group) const {
  const LARSOptions& o = options(group);
  const auto check = [](double value, const char* what) {
    FERRITE_CHECK(value >= 0, ValueError, "LARS", "expected {} of 0 or more, got {}", what, value);
  };
  check(o.lr, "a learning rate");
  check(o.momentum, "a momentum");
  check(o.weight_decay, "a weight decay");
  check(o.trust_coefficient, "a trust coefficient");
  check(o.eps, "an eps");
  FERRITE_CHECK(!o.nesterov || (o.momentum > 0 && o.dampening == 0), ValueError, "LARS",
                "Nesterov momentum needs momentum above 0 and dampening 0, got {} and {}",
                o.momentum, o.dampening);
}

std::array<bool, Optimizer::kStates> LARS::states_used(std::size_t group) const {
  return {options(group).momentum != 0, false, false};
}

void LARS::update(const Stream& stream, std::size_t group, kernels::OptimBatch batch) {
  const LARSOptions& o = options(group);
  if (!o.exclude_bias_and_norm)
    for (kernels::OptimTensor& t : batch.tensors) t.adapts = true;
  kernels::lars(stream, std::move(batch),
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
