#include "ferrite/optim/rmsprop.h"

namespace ferrite::optim {

namespace {
constexpr std::array<const char*, 3> kRMSpropState = {"square_avg", "momentum_buffer", "grad_avg"};
}

RMSprop::RMSprop(std::vector<Tensor> parameters, const RMSpropOptions& options)
    : OptimizerWith("RMSprop", kRMSpropState) {
  add_groups({{std::move(parameters), options}});
}

RMSprop::RMSprop(const std::vector<Group>& groups) : OptimizerWith("RMSprop", kRMSpropState) {
  add_groups(groups);
}

std::vector<Optimizer::Field> RMSprop::fields(std::size_t group) {
  RMSpropOptions& o = options(group);
  return {{"lr", &o.lr},
          {"alpha", &o.alpha},
          {"eps", &o.eps},
          {"weight_decay", &o.weight_decay},
          {"momentum", &o.momentum},
          {"centered", &o.centered},
          {"maximize", &o.maximize}};
}

void RMSprop::check_options(std::size_t group) const {
  const RMSpropOptions& o = options(group);
  const auto check = [](double value, const char* what) {
    FERRITE_CHECK(value >= 0, ValueError, "RMSprop", "expected {} of 0 or more, got {}", what,
                  value);
  };
  check(o.lr, "a learning rate");
  check(o.alpha, "an alpha");
  check(o.eps, "an eps");
  check(o.weight_decay, "a weight decay");
  check(o.momentum, "a momentum");
}

std::array<bool, Optimizer::kStates> RMSprop::states_used(std::size_t group) const {
  const RMSpropOptions& o = options(group);
  return {true, o.momentum > 0, o.centered};
}

void RMSprop::update(const Stream& stream, std::size_t group, kernels::OptimBatch batch) {
  const RMSpropOptions& o = options(group);
  kernels::rmsprop(stream, std::move(batch),
                   {.alpha = o.alpha,
                    .eps = o.eps,
                    .weight_decay = o.weight_decay,
                    .momentum = o.momentum,
                    .centered = o.centered,
                    .maximize = o.maximize});
}

}  // namespace ferrite::optim
