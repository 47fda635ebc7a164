// Checkpoints of optim::Optimizer.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

StateDict Optimizer::state_dict() const {
  StateDict dict;
  std::int64_t index = 0;
  std::vector<std::vector<std::int64_t>> indices;
  for (const Group& g : groups_) {
    indices.emplace_back();
    for (const ParameterState& s : g.states) {
      const std::string prefix = fmt::format("state.{}.", index);
      if (s.step.defined()) dict.insert(prefix + "step", s.step);
      for (const auto& [name, tensor] : s.tensors) dict.insert(prefix + name, tensor);
      if (s.master.weight().defined()) dict.insert(prefix + "master", s.master.weight());
      indices.back().push_back(index++);
    }
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::string prefix = fmt::format("param_groups.{}.", g);
    save_fields(const_cast<Optimizer*>(this)->fields(g), dict, prefix);
    if (groups_[g].initial_lr)
      dict.insert(prefix + "initial_lr", host_scalar(*groups_[g].initial_lr));
    for (const auto& [name, value] : groups_[g].schedule_numbers)
      dict.insert(prefix + name, host_scalar(value));
    dict.insert(prefix + "params",
                from_vector(indices[g], {static_cast<std::int64_t>(indices[g].size())}));
  }
  return dict;
}

namespace {

/// The entries "state.<parameter>.<name>" as (name, tensor), by parameter.
std::vector<std::vector<std::pair<std::string, Tensor>>> states_in(const StateDict& dict,
                                                                   std::size_t parameters) {
  std::vector<std::vector<std::pair<std::string, Tensor>>> states(parameters);
  constexpr std::string_view kPrefix = "state.";
  for (const auto& [name, tensor] : dict) {
    if (!name.starts_with(kPrefix)) continue;
    const char* const end = name.data() + name.size();
    std::size_t index = 0;
    const auto [dot, error] = std::from_chars(name.data() + kPrefix.size(), end, index);
    if (error == std::errc() && index < parameters && dot != end && *dot == '.')
      states[index].emplace_back(std::string(dot + 1, end), tensor);
  }
  return states;
}

}  // namespace

void Optimizer::load_state_dict(const StateDict& dict) {
  std::size_t groups = 0;
  while (dict.contains(fmt::format("param_groups.{}.params", groups))) ++groups;
  FERRITE_CHECK(groups == groups_.size(), ValueError, name_,
                "expected the state of an optimizer of {} groups of parameters, the dict has {}: "
                "make the same groups, in the same order, before loading",
                groups_.size(), groups);
  const auto states = states_in(dict, parameters().size());
  for (const bool check_only : {true, false}) {
    std::size_t index = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      load_group(dict, g, check_only);
      for (std::size_t i = 0; i < groups_[g].parameters.size(); ++i, ++index) {
        const Tensor& p = groups_[g].parameters[i];
        if (check_only)
          check_state(p, index, states[index]);
        else
          load_state(p, groups_[g].states[i], states[index]);
      }
    }
  }
  ++loads_;
}

void Optimizer::load_group(const StateDict& dict, std::size_t group, bool check_only) {
  Group& g = groups_[group];
  const std::string prefix = fmt::format("param_groups.{}.", group);
  const auto params = dict.find(prefix + "params"), initial_lr = dict.find(prefix + "initial_lr");
  const std::int64_t count = params->second.numel();
  FERRITE_CHECK(count == static_cast<std::int64_t>(g.parameters.size()), ValueError, name_,
                "group {} has {} parameters, in the dict it has {}", group, g.parameters.size(),
                count);
  for (const Field& f : fields(group))
    FERRITE_CHECK(dict.contains(prefix + f.name) || f.may_be_lacking(), ValueError, name_,
                  "the dict lacks {}{}: is it the state of another optimizer?", prefix, f.name);
  load_fields(fields(group), dict, prefix, name_, check_only);
  const auto initial =
      initial_lr == dict.end() ? g.initial_lr : std::optional(initial_lr->second.item<double>());
  if (check_only) return;
  g.initial_lr = initial;
  set_lr(lr(group), group);
  g.loaded = {.lr = lr(group), .momentum = {}};
  const double* const momentum = momentum_option(group);
  if (!momentum) return;
  g.momentum.set(*momentum);
  g.loaded->momentum = *momentum;
}

void Optimizer::check_state(const Tensor& parameter, std::size_t index,
                            const LoadedState& loaded) const {
  for (const auto& [name, t] : loaded) {
    const Shape shape = name == "step"     ? Shape()
                        : name == "master" ? parameter.shape()
                                           : state_shape(name, parameter);
    const bool fits = name == "step" ? t.numel() == 1 : t.shape() == shape;
    FERRITE_CHECK(fits, ShapeError, name_, "state.{}.{}: expected {}, got {}", index, name, shape,
                  t.shape());
    if (name != "step") continue;
    // The kernels that count steps use the other bits of the count.
    const auto count = t.item<double>();
    FERRITE_CHECK(count >= 0 && count < 0x1p32, ValueError, name_,
                  "state.{}.step: expected a number from 0 to 2^32 - 1, got {}", index, count);
  }
}

/// Writes into the state there is, so that recorded steps keep finding it.
void Optimizer::load_state(const Tensor& parameter, ParameterState& own,
                           const LoadedState& loaded) {
  NoGradGuard guard;
  const auto find = [&](std::string_view name) {
    const auto found = std::ranges::find_if(loaded, [&](const auto& t) { return t.first == name; });
    return found == loaded.end() ? Tensor() : found->second;
  };
  const auto fill = [](const Tensor& t, std::int64_t value) {
    kernels::fill(current_stream(t.device()), t, value);
  };
  own.master.load(parameter, find("master"), name_);
  // What the dict lacks is as before the first step. What it has may be this very state, since
  // state_dict() shares memory.
  for (const auto& [name, t] : own.tensors)
    if (!find(name).defined()) fill(t, 0);
  const Tensor& master = own.master.weight();
  const Tensor& updated = master.defined() ? master : parameter;
  const Device device = parameter.device();
  bool has_state = false;
  for (const auto& [name, t] : loaded) {
    if (name == "step" || name == "master") continue;
    has_state = true;
    const Tensor& to = own.get(name, state_shape(name, parameter), updated, name_);
    kernels::copy(current_stream(device), to, t.to(device));
  }
  if (const Tensor step = find("step"); step.defined())
    kernels::copy(current_stream(device), own.step_on(device, name_), step.reshape({}).to(device));
  else if (has_state)  // PyTorch's SGD counts no steps; where it has momentum, one was made
    fill(own.step_on(device, name_), 1);
  else if (own.step.defined())
    fill(own.step, 0);
}

}  // namespace ferrite::optim
