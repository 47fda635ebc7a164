#include "ferrite/optim/optimizer.h"

#include <algorithm>
#include <utility>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/zero_grad.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/warning.h"
#include "ferrite/optim/layout.h"

namespace ferrite::optim {

namespace {

/// Whether the optimizer is the last that holds it.
bool is_only_ours(const Tensor& parameter) { return parameter.impl()->use_count() == 1; }

}  // namespace

// ---- Groups

void Optimizer::add_parameters(std::vector<Tensor> parameters) {
  const bool masters = has_master_weights();
  const std::vector<Tensor> known = this->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    FERRITE_CHECK(p.defined() && is_floating(p.dtype()) && p.is_leaf(), ValueError, name_,
                  "parameter {} of the group is {}; only floating-point leaves can be optimized", i,
                  p.defined() && !p.is_leaf() ? "the result of " + p.grad_fn_name() : p.describe());
    const auto same = [&p](const Tensor& other) { return other.is_same(p); };
    FERRITE_CHECK(std::ranges::none_of(known, same) &&
                      std::none_of(parameters.begin(),
                                   parameters.begin() + static_cast<std::ptrdiff_t>(i), same),
                  ValueError, name_, "parameter {} of the group ({}) is in the optimizer already",
                  i, p.describe());
  }
  std::vector<ParameterState> states(parameters.size());
  if (masters) {
    NoGradGuard guard;
    for (std::size_t i = 0; i < states.size(); ++i) states[i].master.make(parameters[i], name_);
  }
  groups_.push_back({.parameters = std::move(parameters),
                     .states = std::move(states),
                     .lr = DeviceScalar(name_, "learning rate"),
                     .momentum = DeviceScalar(name_, "momentum")});
}

void Optimizer::check_not_empty() const {
  FERRITE_CHECK(!parameters().empty(), ValueError, name_,
                "there is nothing to optimize: expected parameters, got none; does the module "
                "register its own?");
}

const Optimizer::Group& Optimizer::group_at(std::size_t group) const {
  FERRITE_CHECK(group < groups_.size(), IndexError, name_, "there are {} groups, asked for {}",
                groups_.size(), group);
  return groups_[group];
}

const std::vector<Tensor>& Optimizer::parameters(std::size_t group) const {
  return group_at(group).parameters;
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for (const Group& g : groups_) all.insert(all.end(), g.parameters.begin(), g.parameters.end());
  return all;
}

std::vector<AnyParamGroup> Optimizer::param_groups() {
  std::vector<AnyParamGroup> all;
  all.reserve(groups_.size());
  for (std::size_t g = 0; g < groups_.size(); ++g)
    all.push_back(AnyParamGroup(lr_option(g), groups_[g].parameters, fields(g), name_));
  return all;
}

double& AnyParamGroup::operator[](std::string_view name) const {
  std::string names;
  for (const Field& field : options_)
    if (double* const* number = std::get_if<double*>(&field.value)) {
      if (field.name == name) return **number;
      names += (names.empty() ? "" : ", ") + std::string(field.name);
    }
  fail<IndexError>(op_, "a group has no number '{}'; it has {}", name, names);
}

void Optimizer::replace_parameters(const std::function<Tensor(const Tensor&)>& f) {
  const std::vector<Tensor> old = parameters();
  std::vector<Tensor> replaced;
  for (const Tensor& p : old) {
    const Tensor& q = replaced.emplace_back(f(p));
    FERRITE_CHECK(q.defined() && q.shape() == p.shape() && is_floating(q.dtype()) && q.is_leaf(),
                  ShapeError, name_, "{} cannot take the place of {}", q.describe(), p.describe());
  }
  std::vector<MasterWeight> masters(replaced.size());  // all are made before anything changes
  if (has_master_weights())
    for (std::size_t i = 0; i < replaced.size(); ++i)
      if (!replaced[i].is_same(old[i])) masters[i].make(replaced[i], name_);
  std::size_t next = 0;
  for (Group& g : groups_)
    for (std::size_t i = 0; i < g.parameters.size(); ++i, ++next) {
      if (replaced[next].is_same(old[next])) continue;
      g.parameters[i] = replaced[next];
      g.states[i].master = masters[next];
    }
}

void Optimizer::zero_grad(bool set_to_none) {
  ++zero_grads_;
  has_scaled_gradients_ = false;
  for (Group& g : groups_) {
    autograd::zero_grad(g.parameters, set_to_none);
    if (set_to_none) continue;
    for (std::size_t i = 0; i < g.parameters.size(); ++i)
      if (const Tensor& p = g.parameters[i]; is_only_ours(p))
        if (const Tensor grad = p.grad(); grad.defined())
          g.states[i].gradient_seen = GradientSeen::of(grad);
  }
  drop_master_gradients();
}

// ---- Options that schedules change

double Optimizer::lr(std::size_t group) const {
  group_at(group);
  return const_cast<Optimizer*>(this)->lr_option(group);
}

void Optimizer::set_lr(double lr) {
  for (std::size_t g = 0; g < groups_.size(); ++g) set_lr(lr, g);
}

void Optimizer::set_lr(double lr, std::size_t group) {
  FERRITE_CHECK(lr >= 0, ValueError, name_, "expected a learning rate of 0 or more, got {}", lr);
  group_at(group);
  groups_[group].lr.set(lr);
  lr_option(group) = lr;
}

std::optional<double> Optimizer::initial_lr(std::size_t group) const {
  return group_at(group).initial_lr;
}

void Optimizer::set_initial_lr(double lr, std::size_t group) {
  group_at(group);
  groups_[group].initial_lr = lr;
}

void Optimizer::set_schedule_number(const std::string& name, double value, std::size_t group) {
  group_at(group);
  groups_[group].schedule_numbers[name] = value;
}

bool Optimizer::has_momentum() const {
  return !groups_.empty() && const_cast<Optimizer*>(this)->momentum_option(0);
}

double& Optimizer::momentum_at(std::size_t group) const {
  group_at(group);
  double* const option = const_cast<Optimizer*>(this)->momentum_option(group);
  FERRITE_CHECK(option, ValueError, name_, "has no momentum");
  return *option;
}

double Optimizer::momentum(std::size_t group) const { return momentum_at(group); }

void Optimizer::set_momentum(double momentum) {
  for (std::size_t g = 0; g < groups_.size(); ++g) set_momentum(momentum, g);
}

void Optimizer::set_momentum(double momentum, std::size_t group) {
  double& option = momentum_at(group);
  const double before = std::exchange(option, momentum);
  try {
    // Of the options only this one: Nesterov's form without momentum is refused of a constructor,
    // whose caller means something else, but it is defined, and cycles may pass there.
    Fields own = fields(group);
    std::erase_if(own, [&](const Field& f) {
      double* const* const number = std::get_if<double*>(&f.value);
      return !number || *number != &option;
    });
    check_fields(own, name_);
    groups_[group].momentum.set(momentum);
  } catch (...) {
    option = before;
    throw;
  }
}

/// Undoes what the constructors of schedulers have changed since; false if nothing was loaded.
bool Optimizer::restore_loaded_rates() {
  bool any = false;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g].loaded) continue;
    any = true;
    set_lr(groups_[g].loaded->lr, g);
    if (groups_[g].loaded->momentum) set_momentum(*groups_[g].loaded->momentum, g);
  }
  return any;
}

void check_nesterov(bool nesterov, double momentum, double dampening, const char* op) {
  FERRITE_CHECK(!nesterov || (momentum > 0 && dampening == 0), ValueError, op,
                "Nesterov momentum needs momentum above 0 and dampening 0, got {} and {}", momentum,
                dampening);
}

// ---- Master weights

void Optimizer::use_master_weights() {
  NoGradGuard guard;
  for (Group& g : groups_)
    for (std::size_t i = 0; i < g.parameters.size(); ++i)
      g.states[i].master.make(g.parameters[i], name_);
}

bool Optimizer::has_master_weights() const {
  return std::ranges::any_of(groups_, [](const Group& g) {
    return std::ranges::any_of(g.states,
                               [](const ParameterState& s) { return s.master.weight().defined(); });
  });
}

std::vector<Tensor> Optimizer::master_parameters() const {
  std::vector<Tensor> all;
  for (const Group& g : groups_)
    for (std::size_t i = 0; i < g.parameters.size(); ++i) {
      const Tensor& master = g.states[i].master.weight();
      all.push_back(master.defined() ? master : g.parameters[i]);
    }
  return all;
}

void Optimizer::reset_master_weights() {
  NoGradGuard guard;
  for (Group& g : groups_)
    for (std::size_t i = 0; i < g.parameters.size(); ++i)
      g.states[i].master.load(g.parameters[i], {}, name_);
}

std::vector<Optimizer::MasterGradient> Optimizer::make_master_gradients() {
  NoGradGuard guard;
  std::vector<MasterGradient> gradients;
  for (Group& g : groups_)
    for (std::size_t i = 0; i < g.parameters.size(); ++i) {
      const Tensor from = g.parameters[i].grad();
      if (!from.defined()) continue;
      MasterWeight& master = g.states[i].master;
      master.follow(g.parameters[i], name_);
      if (!master.weight().defined()) continue;
      const Tensor& to = master.make_grad(name_);
      gradients.push_back({laid_out_like(from, master.weight()), to});
    }
  return gradients;
}

void Optimizer::drop_master_gradients() {
  for (const Group& g : groups_)
    for (const ParameterState& s : g.states) s.master.drop_grad();
}

// ---- Steps

void Optimizer::warn_if_never_stepped(const char* scheduler) {
  if (has_stepped_ || std::exchange(has_warned_, true)) return;
  warn(scheduler,
       "step() was called before the optimizer's first step, so the first rate of the schedule "
       "is never used: call optimizer.step() before scheduler.step()");
}

namespace {

void check_control(const Tensor& t, const char* what) {
  FERRITE_CHECK(!t.defined() || (t.numel() == 1 && t.dtype() == kFloat32), ValueError, "step",
                "{} must be one float32 number, got {}", what, t.describe());
}

}  // namespace

void Optimizer::note_step() {
  has_stepped_ = true;
  for (Group& g : groups_) g.loaded.reset();
}

void Optimizer::step() {
  if (has_scaled_gradients_) {
    // A module's zero_grad() may have dropped them.
    const auto has_gradient = [](const Group& g) {
      return std::ranges::any_of(g.parameters, [](const Tensor& p) { return p.grad().defined(); });
    };
    has_scaled_gradients_ = std::ranges::any_of(groups_, has_gradient);
  }
  FERRITE_CHECK(!has_scaled_gradients_, ValueError, name_,
                "gradients carry the loss scale of amp.scale(loss).backward(), by which the step "
                "would be too large: expected amp.step(optimizer), which unscales them, in place "
                "of optimizer.step(); or drop them with optimizer.zero_grad()");
  step({}, {});
}

void Optimizer::step(const Tensor& inv_scale, const Tensor& found_inf) {
  const profiler::detail::LibraryRange range(profiler::Kind::optimizer, name_);
  check_control(inv_scale, "inv_scale");
  check_control(found_inf, "found_inf");
  note_step();
  NoGradGuard guard;
  for (std::size_t g = 0; g < groups_.size(); ++g) step_group(g, inv_scale, found_inf);
  drop_master_gradients();
}

Tensor Optimizer::step(const std::function<Tensor()>& closure) {
  Tensor loss;
  {
    EnableGradGuard guard;
    loss = closure();
  }
  step();
  return loss;
}

/// A parameter that was replaced after the optimizer was made keeps the gradient that it had. A
/// parameter whose gradient is new, or that has another owner, may be used without a module.
void Optimizer::check_in_use(std::size_t group, std::size_t index, const Tensor& grad) const {
  const Group& g = groups_[group];
  FERRITE_CHECK(grad.defined() && GradientSeen::of(grad) != g.states[index].gradient_seen,
                ValueError, name_,
                "parameter {} of group {}, {}, has no new gradient, and nothing but the optimizer "
                "holds it: was another tensor assigned in its place, as in layer.weight = t? Make "
                "the optimizer after that, write the values with copy_(), or give it the new "
                "tensors by replace_parameters()",
                index, group, g.parameters[index].describe());
}

std::vector<Optimizer::Update> Optimizer::updates(std::size_t group) {
  Group& g = groups_[group];
  std::vector<Update> all;
  all.reserve(g.parameters.size());
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Tensor& p = g.parameters[i];
    Tensor grad = p.grad();
    if (is_only_ours(p)) [[unlikely]]
      check_in_use(group, i, grad);
    if (!grad.defined()) continue;
    g.states[i].gradient_seen = GradientSeen::of(grad);
    FERRITE_CHECK(
        grad.shape() == p.shape() && grad.dtype() == p.dtype() && grad.device() == p.device(),
        ShapeError, name_, "parameter {} is {}, its gradient {}", i, p.describe(), grad.describe());
    ParameterState& s = g.states[i];
    s.master.follow(p, name_);
    s.step_on(p.device(), name_);
    const Tensor& master = s.master.weight();
    if (master.defined() && master.grad().defined()) grad = master.grad();
    p.storage()->bump_version(name_);
    if (master.defined()) master.storage()->bump_version(name_);
    all.push_back({p, master.defined() ? master : p, std::move(grad), s});
  }
  return all;
}

Optimizer::Controls Optimizer::controls(std::size_t group, const Device& device,
                                        const Tensor& inv_scale, const Tensor& found_inf) {
  Group& g = groups_[group];
  const double* const momentum = momentum_option(group);
  const auto near = [&](const Tensor& t) { return t.defined() ? t.to(device) : t; };
  return {g.lr.on(device, lr_option(group)), momentum ? g.momentum.on(device, *momentum) : Tensor(),
          near(inv_scale), near(found_inf)};
}

}  // namespace ferrite::optim
