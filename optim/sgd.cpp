#include "ferrite/optim/sgd.h"

namespace ferrite::optim {

namespace {
constexpr std::array<const char*, 3> kSGDState = {"momentum_buffer", nullptr, nullptr};
}

SGD::SGD(std::vector<Tensor> parameters, const SGDOptions& options)
    : OptimizerWith("SGD", kSGDState) {
  add_groups({{std::move(parameters), options}});
}

SGD::SGD(const std::vector<Group>& groups) : OptimizerWith("SGD", kSGDState) { add_groups(groups); }

std::vector<Optimizer::Field> SGD::fields(std::size_t group) {
  SGDOptions& o = options(group);
  return {{"lr", &o.lr},
          {"momentum", &o.momentum},
          {"dampening", &o.dampening},
          {"weight_decay", &o.weight_decay},
          {"nesterov", &o.nesterov},
          {"maximize", &o.maximize}};
}

void SGD::check_options(std::size_t group) const {
  const SGDOptions& o = options(group);
  FERRITE_CHECK(o.lr >= 0, ValueError, "SGD", "expected a learning rate of 0 or more, got {}",
                o.lr);
  FERRITE_CHECK(o.momentum >= 0, ValueError, "SGD", "expected a momentum of 0 or more, got {}",
                o.momentum);
  FERRITE_CHECK(o.weight_decay >= 0, ValueError, "SGD",
                "expected a weight decay of 0 or more, got {}", o.weight_decay);
  FERRITE_CHECK(!o.nesterov || (o.momentum > 0 && o.dampening == 0), ValueError, "SGD",
                "Nesterov momentum needs momentum above 0 and dampening 0, got {} and {}",
                o.momentum, o.dampening);
}

std::array<bool, Optimizer::kStates> SGD::states_used(std::size_t group) const {
  return {options(group).momentum != 0, false, false};
}

void SGD::update(const Stream& stream, std::size_t group, kernels::OptimBatch batch) {
  const SGDOptions& o = options(group);
  kernels::sgd(stream, std::move(batch),
               {.momentum = o.momentum,
                .dampening = o.dampening,
                .weight_decay = o.weight_decay,
                .nesterov = o.nesterov,
                .maximize = o.maximize});
}

}  // namespace ferrite::optim
