#include "ferrite/optim/adaptive.h"

#include "ferrite/kernels/adaptive.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/unary.h"

namespace ferrite::optim {

namespace {

template <class Options>
Fields common_fields(Options& o) {
  return {{"lr", &o.lr, kNonNegative},
          {"weight_decay", &o.weight_decay, kNonNegative},
          {"maximize", &o.maximize}};
}

template <class Options>
Fields adam_fields(Options& o) {
  return common_fields(o) + o.betas.fields() + Fields{{"eps", &o.eps, kNonNegative}};
}

/// The gradient of what is minimized, with the weight decay.
template <class Options>
Tensor gradient(const ParameterStep& p, const Options& o) {
  const Tensor grad = o.maximize ? neg(p.grad) : p.grad;
  if (o.weight_decay == 0) return grad;
  return grad.add(p.param, o.weight_decay);
}

/// The number of the step, for arithmetic in float64.
Tensor count(const ParameterStep& p) { return p.step().to(kFloat64); }

/// State that begins with `value` instead of 0.
void begin_with(const Tensor& state, const Tensor& count, const auto& value) {
  state.copy_(where(count == 1, value, state));
}

void average(const Tensor& state, const Tensor& beta, const Tensor& value) {
  state.mul_(beta).add_(value * (1 - beta));
}

void average(const Tensor& state, double beta, const Tensor& value) {
  state.mul_(beta).add_(value, 1 - beta);
}

}  // namespace

Fields AdagradOptions::fields() {
  return common_fields(*this) +
         Fields{{"lr_decay", &lr_decay, kNonNegative},
                {"initial_accumulator_value", &initial_accumulator_value, kNonNegative},
                {"eps", &eps, kNonNegative}};
}

void Adagrad::launch(const Stream& stream, kernels::OptimBatch batch,
                     const AdagradOptions& o) const {
  kernels::adagrad(stream, batch,
                   {.lr_decay = o.lr_decay,
                    .weight_decay = o.weight_decay,
                    .initial_accumulator_value = o.initial_accumulator_value,
                    .eps = o.eps,
                    .maximize = o.maximize});
}

Fields AdadeltaOptions::fields() {
  return common_fields(*this) + Fields{{"rho", &rho, kUnit}, {"eps", &eps, kNonNegative}};
}

void Adadelta::update(ParameterStep& p, const AdadeltaOptions& o) {
  const Tensor squares = p.state("square_avg"), deltas = p.state("acc_delta");
  const Tensor grad = gradient(p, o);
  average(squares, o.rho, square(grad));
  const Tensor delta = sqrt(deltas + o.eps) / sqrt(squares + o.eps) * grad;
  average(deltas, o.rho, square(delta));
  p.param.sub_(delta * p.lr);
}

Fields AdamaxOptions::fields() { return adam_fields(*this); }

void Adamax::update(ParameterStep& p, const AdamaxOptions& o) {
  const Tensor mean = p.state("exp_avg"), most = p.state("exp_inf"), grad = gradient(p, o);
  average(mean, p.momentum, grad);
  most.copy_(maximum(most * o.betas.second, abs(grad) + o.eps));
  p.param.sub_(mean / most * (p.lr / (1 - pow(p.momentum, count(p)))));
}

Fields NAdamOptions::fields() {
  return adam_fields(*this) + Fields{{"momentum_decay", &momentum_decay, kNonNegative, true},
                                     {"decoupled_weight_decay", &decoupled_weight_decay}};
}

void NAdam::launch(const Stream& stream, kernels::OptimBatch batch, const NAdamOptions& o) const {
  kernels::nadam(stream, batch,
                 {.beta1 = o.betas.first,
                  .beta2 = o.betas.second,
                  .eps = o.eps,
                  .weight_decay = o.weight_decay,
                  .momentum_decay = o.momentum_decay,
                  .decoupled = o.decoupled_weight_decay,
                  .maximize = o.maximize});
}

Fields RAdamOptions::fields() {
  return adam_fields(*this) + Fields{{"decoupled_weight_decay", &decoupled_weight_decay}};
}

void RAdam::launch(const Stream& stream, kernels::OptimBatch batch, const RAdamOptions& o) const {
  kernels::radam(stream, batch,
                 {.beta1 = o.betas.first,
                  .beta2 = o.betas.second,
                  .eps = o.eps,
                  .weight_decay = o.weight_decay,
                  .decoupled = o.decoupled_weight_decay,
                  .maximize = o.maximize});
}

Fields ASGDOptions::fields() {
  return common_fields(*this) + Fields{{"lambd", &lambd}, {"alpha", &alpha}, {"t0", &t0}};
}

void ASGD::update(ParameterStep& p, const ASGDOptions& o) {
  const Tensor averages = p.state("ax"), mu = p.state("mu"), eta = p.state("eta");
  const Tensor t = count(p), grad = gradient(p, o);
  begin_with(mu, t, 1);
  begin_with(eta, t, p.lr);
  p.param.mul_(1 - eta * o.lambd).sub_(grad * eta);
  averages.add_((p.param - averages) * mu);
  eta.copy_(p.lr / pow(p.lr * o.lambd * t + 1, o.alpha));
  mu.copy_(1 / clamp_min(t - o.t0, 1));
}

Shape ASGD::state_shape(std::string_view name, const Tensor& parameter) const {
  return name == "ax" ? parameter.shape() : Shape();
}

Fields RpropOptions::fields() {
  return {{"lr", &lr, kNonNegative},        {"etas.0", &etas[0], kPositive},
          {"etas.1", &etas[1], kPositive},  {"step_sizes.0", &step_sizes[0], kNonNegative},
          {"step_sizes.1", &step_sizes[1]}, {"maximize", &maximize}};
}

void RpropOptions::check() const {
  FERRITE_CHECK(etas[0] < 1 && etas[1] > 1, ValueError, kName,
                "expected etas with 0 < first < 1 < second, got {} and {}", etas[0], etas[1]);
  FERRITE_CHECK(step_sizes[0] <= step_sizes[1], ValueError, kName,
                "expected step_sizes with first <= second, got {} and {}", step_sizes[0],
                step_sizes[1]);
}

void Rprop::update(ParameterStep& p, const RpropOptions& o) {
  const Tensor before = p.state("prev"), size = p.state("step_size");
  const Tensor grad = o.maximize ? neg(p.grad) : p.grad, turn = grad * before;
  begin_with(size, count(p), p.lr);
  const Tensor same = ones_like(size);
  size.mul_(where(turn > 0, o.etas[1], where(turn < 0, o.etas[0], same)));
  size.clamp_(o.step_sizes[0], o.step_sizes[1]);
  before.copy_(where(turn < 0, 0, grad));
  p.param.sub_(sign(before) * size);
}

}  // namespace ferrite::optim
