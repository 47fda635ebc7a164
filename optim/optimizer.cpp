#include "ferrite/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/nn/zero_grad.h"
#include "ferrite/optim/capture.h"
#include "ferrite/optim/fields.h"
#include "ferrite/optim/layout.h"

namespace ferrite::optim {

namespace {

Tensor filled_with_zeros(const Shape& shape, const TensorOptions& options) {
  const Tensor out = empty(shape, options);
  kernels::fill(current_stream(options.device), out, 0);
  return out;
}

template <class T>
const T* pointer(const Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

void check_control(const Tensor& t, const char* what) {
  FERRITE_CHECK(!t.defined() || (t.numel() == 1 && t.dtype() == kFloat32), ValueError, "step",
                "{} must be one float32 number, got {}", what, t.describe());
}

}  // namespace

// ---- Groups and options

void Optimizer::add_parameters(std::vector<Tensor> parameters) {
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
  Group group;
  group.states.resize(parameters.size());
  group.parameters = std::move(parameters);
  groups_.push_back(std::move(group));
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

std::vector<Optimizer::Field> Optimizer::fields_of(std::size_t group) const {
  group_at(group);
  return const_cast<Optimizer*>(this)->fields(group);
}

const std::vector<Tensor>& Optimizer::parameters(std::size_t group) const {
  return group_at(group).parameters;
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> all;
  for (const Group& g : groups_) all.insert(all.end(), g.parameters.begin(), g.parameters.end());
  return all;
}

void Optimizer::replace_parameters(const std::function<Tensor(const Tensor&)>& f) {
  std::vector<std::vector<Tensor>> replaced;
  for (const Group& g : groups_) {
    replaced.emplace_back();
    for (const Tensor& p : g.parameters) {
      replaced.back().push_back(f(p));
      const Tensor& q = replaced.back().back();
      FERRITE_CHECK(q.defined() && q.shape() == p.shape() && is_floating(q.dtype()) && q.is_leaf(),
                    ShapeError, name_, "{} cannot take the place of {}", q.describe(),
                    p.describe());
    }
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].parameters = std::move(replaced[g]);
    for (ParameterState& s : groups_[g].states) s.master = s.master_grad = Tensor();
  }
}

double Optimizer::lr(std::size_t group) const {
  return *std::get<double*>(fields_of(group)[0].value);
}

void Optimizer::set_lr(double lr) {
  for (std::size_t g = 0; g < groups_.size(); ++g) set_lr(lr, g);
}

void Optimizer::set_lr(double lr, std::size_t group) {
  FERRITE_CHECK(lr >= 0, ValueError, name_, "expected a learning rate of 0 or more, got {}", lr);
  double& option = *std::get<double*>(fields_of(group)[0].value);
  change(groups_[group].lr, option, lr);
}

std::optional<double> Optimizer::initial_lr(std::size_t group) const {
  return group_at(group).initial_lr;
}

void Optimizer::set_initial_lr(double lr, std::size_t group) {
  group_at(group);
  groups_[group].initial_lr = lr;
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
    check_options(group);
  } catch (...) {
    option = before;
    throw;
  }
  option = before;
  change(groups_[group].momentum, option, momentum);
}

void Optimizer::refuse_change(const Device& device, const char* what, double value) const {
  FERRITE_CHECK(!is_capturing(device), CudaError, name_,
                "the {} would become {} while the step is captured into a graph, and again with "
                "each replay; set it outside of the captured step",
                what, value);
}

/// At once, and not with the next step, which may be a recorded one that is replayed.
void Optimizer::change(OnDevices& copies, double& option, double value) const {
  for (const auto& [tensor, written] : copies.values)
    if (written != value) refuse_change(tensor.device(), copies.name, value);
  option = value;
  for (const auto& [tensor, written] : copies.values) on_device(copies, value, tensor.device());
}

/// Where kernels find the option, with the value it is to have.
const double* Optimizer::on_device(OnDevices& copies, double value, const Device& device) const {
  auto found =
      std::ranges::find_if(copies.values, [&](auto& t) { return t.first.device() == device; });
  if (found == copies.values.end()) {
    refuse_new_state(device, name_, "the place of an option on the device");
    copies.values.emplace_back(empty({}, {.dtype = kFloat64, .device = device}), NAN);
    found = copies.values.end() - 1;
  }
  if (found->second != value) {
    refuse_change(device, copies.name, value);
    kernels::fill(current_stream(device), found->first, value);
    found->second = value;
  }
  return found->first.data<double>();
}

void Optimizer::zero_grad(bool set_to_none) {
  for (const Group& g : groups_) nn::zero_grad(g.parameters, set_to_none);
  drop_master_gradients();
}

// ---- Steps

void Optimizer::step() { step({}, {}); }

void Optimizer::step(const Tensor& inv_scale, const Tensor& found_inf) {
  const profiler::detail::LibraryRange range(profiler::Kind::optimizer, name_);
  check_control(inv_scale, "inv_scale");
  check_control(found_inf, "found_inf");
  NoGradGuard guard;
  for (std::size_t g = 0; g < groups_.size(); ++g) step_group(g, inv_scale, found_inf);
  drop_master_gradients();
}

/// State as this group's options need it, like what steps update in dtype, device and layout. What
/// they need no more stays: recorded steps may still write it.
void Optimizer::prepare_state(std::size_t group, std::size_t i, const StatesUsed& used) {
  prepare_master(group, i);
  ParameterState& s = groups_[group].states[i];
  const Tensor& p = s.master.defined() ? s.master : groups_[group].parameters[i];
  const MemoryFormat format = p.suggest_memory_format();
  const auto fits = [&](std::size_t k) {
    const Tensor& t = s.state[k];
    return !used[k] || (t.defined() && t.dtype() == p.dtype() && t.device() == p.device() &&
                        t.is_contiguous(format));
  };
  if (s.step.defined() && s.step.device() == p.device() && fits(0) && fits(1) && fits(2)) [[likely]]
    return;
  refuse_new_state(p.device(), name_, "state of a parameter");
  if (s.step.defined())
    s.step = s.step.to(p.device());
  else
    s.step = filled_with_zeros({}, {.dtype = kInt64, .device = p.device()});
  const TensorOptions options{.dtype = p.dtype(), .device = p.device(), .memory_format = format};
  for (std::size_t k = 0; k < kStates; ++k) {
    if (fits(k)) continue;
    if (s.state[k].defined())
      s.state[k] = s.state[k].to(p.device(), p.dtype()).contiguous(format);
    else
      s.state[k] = filled_with_zeros(p.shape(), options);
  }
}

/// The parameters of a group that are on one device, with dtypes that go together.
struct Optimizer::Batch {
  Device device;
  kernels::OptimBatch kernel;
};

Optimizer::Batch& Optimizer::batch_for(std::vector<Batch>& batches, const Tensor& updated,
                                       const Tensor& grad, const Tensor& copy,
                                       std::size_t capacity) {
  const DType dtype = updated.dtype();
  const auto grad_dtype = grad.dtype() == dtype ? std::nullopt : std::optional(grad.dtype());
  const DType copy_dtype = copy.defined() ? copy.dtype() : kFloat16;
  for (Batch& b : batches)
    if (b.kernel.dtype == dtype && b.kernel.grad_dtype == grad_dtype &&
        b.kernel.copy_dtype == copy_dtype && b.device == updated.device())
      return b;
  batches.push_back(
      {updated.device(), {.dtype = dtype, .grad_dtype = grad_dtype, .copy_dtype = copy_dtype}});
  batches.back().kernel.tensors.reserve(capacity);
  return batches.back();
}

void Optimizer::step_group(std::size_t group, const Tensor& inv_scale, const Tensor& found_inf) {
  std::vector<Batch> batches;
  std::vector<Tensor> alive;                         // until all is launched
  std::vector<std::pair<Tensor, Tensor>> not_dense;  // parameters, and what is updated instead
  Group& g = groups_[group];
  const StatesUsed used = states_used(group);
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Tensor& parameter = g.parameters[i];
    const Tensor& master = g.states[i].master;
    Tensor grad = parameter.grad();
    if (!grad.defined()) continue;
    FERRITE_CHECK(grad.shape() == parameter.shape() && grad.dtype() == parameter.dtype() &&
                      grad.device() == parameter.device(),
                  ShapeError, name_, "parameter {} is {}, its gradient {}", i, parameter.describe(),
                  grad.describe());
    prepare_state(group, i, used);
    const bool dense = is_dense(parameter);
    const Tensor p = master.defined() ? master : dense ? parameter : densely(parameter);
    if (!dense) not_dense.emplace_back(parameter, p);
    if (master.defined() && master.grad().defined()) grad = master.grad();
    if (!same_layout(grad, p)) alive.push_back(grad = laid_out_like(grad, p));
    const Tensor copy = master.defined() && dense ? parameter : Tensor();
    const ParameterState& s = g.states[i];
    kernels::OptimTensor& t =
        batch_for(batches, p, grad, copy, g.parameters.size()).kernel.tensors.emplace_back();
    t.param = p.data_ptr();
    t.grad = grad.data_ptr();
    t.numel = p.numel();
    t.adapts = p.dim() > 1;
    t.step = s.step.data<std::int64_t>();
    for (std::size_t k = 0; k < kStates; ++k)
      if (used[k]) t.state[k] = s.state[k].data_ptr();
    if (copy.defined()) t.copy = copy.data_ptr();
    parameter.storage()->bump_version(name_);
    if (master.defined()) master.storage()->bump_version(name_);
  }
  const double* const momentum = momentum_option(group);
  for (Batch& batch : batches) {
    const Tensor scale = inv_scale.defined() ? inv_scale.to(batch.device) : Tensor(),
                 found = found_inf.defined() ? found_inf.to(batch.device) : Tensor();
    batch.kernel.lr = on_device(g.lr, lr(group), batch.device);
    if (momentum) batch.kernel.momentum = on_device(g.momentum, *momentum, batch.device);
    batch.kernel.inv_scale = pointer<float>(scale);
    batch.kernel.found_inf = pointer<float>(found);
    update(current_stream(batch.device), group, std::move(batch.kernel));
  }
  for (const auto& [parameter, updated] : not_dense)
    kernels::copy(current_stream(parameter.device()), parameter, updated);
}

// ---- Checkpoints

StateDict Optimizer::state_dict() const {
  StateDict dict;
  std::int64_t index = 0;
  std::vector<std::vector<std::int64_t>> indices;
  for (const Group& g : groups_) {
    indices.emplace_back();
    for (const ParameterState& s : g.states) {
      const std::string prefix = fmt::format("state.{}.", index);
      if (s.step.defined()) dict.insert(prefix + "step", s.step);
      for (std::size_t k = 0; k < kStates; ++k)
        if (s.state[k].defined()) dict.insert(prefix + state_names_[k], s.state[k]);
      if (s.master.defined()) dict.insert(prefix + "master", s.master);
      indices.back().push_back(index++);
    }
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::string prefix = fmt::format("param_groups.{}.", g);
    for (const Field& f : fields_of(g))
      dict.insert(prefix + f.name, host_scalar(std::visit(
                                       [](auto* v) { return static_cast<double>(*v); }, f.value)));
    if (groups_[g].initial_lr)
      dict.insert(prefix + "initial_lr", host_scalar(*groups_[g].initial_lr));
    dict.insert(prefix + "params",
                from_vector(indices[g], {static_cast<std::int64_t>(indices[g].size())}));
  }
  return dict;
}

void Optimizer::load_state_dict(const StateDict& dict) {
  FERRITE_CHECK(!dict.contains(fmt::format("param_groups.{}.params", groups_.size())), ValueError,
                name_, "the dict holds more than the {} groups of this optimizer", groups_.size());
  for (bool check_only : {true, false}) {
    std::size_t first = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      load_group(dict, g, first, check_only);
      first += groups_[g].parameters.size();
    }
  }
}

void Optimizer::load_group(const StateDict& dict, std::size_t group, std::size_t first,
                           bool check_only) {
  Group& g = groups_[group];
  const std::string prefix = fmt::format("param_groups.{}.", group);
  const auto require = [&](const std::string& name) -> const Tensor& {
    const auto found = dict.find(name);
    FERRITE_CHECK(found != dict.end(), ValueError, name_, "the dict lacks {}", name);
    return found->second;
  };
  const std::int64_t count = require(prefix + "params").numel();
  FERRITE_CHECK(count == static_cast<std::int64_t>(g.parameters.size()), ValueError, name_,
                "group {} has {} parameters, in the dict it has {}", group, g.parameters.size(),
                count);
  for (const Field& f : fields(group)) {
    const double value = require(prefix + f.name).item<double>();
    if (!check_only)
      std::visit([&](auto* v) { *v = static_cast<std::remove_pointer_t<decltype(v)>>(value); },
                 f.value);
  }
  if (const auto found = dict.find(prefix + "initial_lr"); found != dict.end()) {
    const double value = found->second.item<double>();
    if (!check_only) g.initial_lr = value;
  }
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Tensor& p = g.parameters[i];
    const std::string state = fmt::format("state.{}.", first + i);
    ParameterState loaded;
    const auto take = [&](const char* name, Tensor& to) {
      if (!name || !dict.contains(state + name)) return;
      to = dict.at(state + name);
      FERRITE_CHECK(to.shape() == p.shape(), ShapeError, name_, "{}{}: expected {}, got {}", state,
                    name, p.shape(), to.shape());
    };
    for (std::size_t k = 0; k < kStates; ++k) take(state_names_[k], loaded.state[k]);
    take("master", loaded.master);
    if (dict.contains(state + "step")) loaded.step = dict.at(state + "step");
    FERRITE_CHECK(!loaded.step.defined() || loaded.step.numel() == 1, ShapeError, name_,
                  "{}step: expected one number, got {}", state, loaded.step.describe());
    if (!check_only) take_state(group, i, loaded);
  }
  if (check_only) return;
  set_lr(lr(group), group);
  if (double* const option = momentum_option(group)) change(g.momentum, *option, *option);
}

/// Writes into the state there is, so that recorded steps keep finding it.
void Optimizer::take_state(std::size_t group, std::size_t i, const ParameterState& loaded) {
  NoGradGuard guard;
  const Tensor& p = groups_[group].parameters[i];
  ParameterState& own = groups_[group].states[i];
  take_master(group, i, loaded.master);
  bool any = loaded.step.defined();
  for (const Tensor& t : loaded.state) any = any || t.defined();
  const Stream stream = current_stream(p.device());
  if (!any) {  // as before the first step
    for (const Tensor* t : {&own.step, &own.state[0], &own.state[1], &own.state[2]})
      if (t->defined()) kernels::fill(current_stream(t->device()), *t, 0);
    return;
  }
  const StatesUsed used = states_used(group);
  prepare_state(group, i, used);
  for (std::size_t k = 0; k < kStates; ++k) {
    if (!used[k]) continue;
    if (loaded.state[k].defined())
      kernels::copy(stream, own.state[k], loaded.state[k].to(p.device()));
    else
      kernels::fill(stream, own.state[k], 0);
  }
  // PyTorch's SGD counts no steps; where it has momentum, one was made.
  if (loaded.step.defined())
    kernels::copy(stream, own.step, loaded.step.reshape({}).to(p.device()));
  else
    kernels::fill(stream, own.step, 1);
}

}  // namespace ferrite::optim
