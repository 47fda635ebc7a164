#include "ferrite/optim/amp/amp.h"

#include <fmt/format.h>

#include <iostream>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/norm.h"
#include "ferrite/ops/copy.h"
#include "ferrite/optim/amp/state.h"
#include "ferrite/optim/fields.h"

namespace ferrite::optim::amp {

Amp::Amp(std::shared_ptr<State> state) : state_(std::move(state)) {}
Amp::Amp(Amp&&) noexcept = default;
Amp& Amp::operator=(Amp&&) noexcept = default;
Amp::~Amp() = default;

const Properties& Amp::properties() const { return state_->properties; }

AutocastGuard Amp::autocast() const {
  if (!properties().autocast) return AutocastGuard(std::nullopt);
  return AutocastGuard({.dtype = properties().dtype});
}

// ---- A step

Tensor Amp::scale(const Tensor& loss, std::size_t loss_id) { return state_->scale(loss, loss_id); }

std::vector<Tensor> Amp::master_parameters() {
  std::vector<Tensor> all;
  for (const State::PerOptimizer& o : state_->optimizers)
    for (Tensor& p : master_parameters(*o.optimizer)) all.push_back(std::move(p));
  return all;
}

std::vector<Tensor> Amp::master_parameters(Optimizer& optimizer) {
  State::PerOptimizer& o = state_->find(optimizer, "master_parameters");
  if (state_->has_gradients(o) && !o.unscaled) state_->unscale(o);
  return optimizer.master_parameters();
}

void Amp::unscale_(Optimizer& optimizer) {
  State::PerOptimizer& o = state_->find(optimizer, "unscale_");
  if (!state_->scales) return;
  FERRITE_CHECK(!o.unscaled, ValueError, "unscale_",
                "the gradients of this optimizer have been unscaled already since its last step");
  state_->unscale(o);
}

void Amp::step(Optimizer& optimizer, const Tensor& skip) {
  state_->step(state_->find(optimizer, "step"), skip);
}

void Amp::update() { state_->update(); }

void Amp::zero_grad(bool set_to_none) {
  for (State::PerOptimizer& o : state_->optimizers) {
    o.optimizer->zero_grad(set_to_none);
    state_->forget(o);
  }
}

// ---- What the scales are

double Amp::loss_scale(std::size_t loss_id) const {
  return state_->scaler(loss_id, "loss_scale").get_scale();
}

Tensor Amp::overflows(std::size_t loss_id) const {
  const GradScaler& scaler = state_->scaler(loss_id, "overflows");
  return scaler.overflows().defined() ? scaler.overflows() : host_scalar(scaler.init_overflows_);
}

std::string Amp::overflow_message() {
  std::string text;
  for (std::size_t i = 0; i < state_->scalers.size(); ++i) {
    const auto now = overflows(i).item<std::int64_t>();
    const std::int64_t steps = now - std::exchange(state_->reported[i], now);
    if (steps > 0)
      text += fmt::format("{}Gradient overflow: skipped {}, loss scaler {} reduced its scale to {}",
                          text.empty() ? "" : "\n",
                          steps == 1 ? "a step" : fmt::format("{} steps", steps), i, loss_scale(i));
  }
  return text;
}

// ---- Checkpoints

namespace {

struct Entry {
  const char* ours;
  const char* scalers;
};
constexpr Entry kEntries[] = {
    {"loss_scale", "scale"}, {"unskipped", "_growth_tracker"}, {"overflows", "_overflows"}};

}  // namespace

StateDict Amp::state_dict() const {
  StateDict dict;
  for (std::size_t i = 0; i < state_->scalers.size(); ++i) {
    const StateDict own = state_->scalers[i].state_dict();
    for (const auto& [ours, scalers] : kEntries)
      dict.insert(fmt::format("loss_scaler{}.{}", i, ours), own.at(scalers));
  }
  return dict;
}

void Amp::load_state_dict(const StateDict& dict) {
  std::vector<GradScaler>& scalers = state_->scalers;
  FERRITE_CHECK(!dict.contains(fmt::format("loss_scaler{}.loss_scale", scalers.size())), ValueError,
                "amp", "the dict is of more than {} losses", scalers.size());
  std::vector<std::optional<GradScaler::Loaded>> loaded(scalers.size());
  for (std::size_t i = 0; i < scalers.size(); ++i) {
    StateDict own = scalers[i].state_dict();
    for (const auto& [ours, name] : kEntries) {
      const auto found = dict.find(fmt::format("loss_scaler{}.{}", i, ours));
      const bool required = ours != std::string_view("overflows");
      FERRITE_CHECK(found != dict.end() || !required, ValueError, "amp",
                    "the dict lacks loss_scaler{}.{}", i, ours);
      if (found != dict.end())
        own.insert_or_assign(name, found->second);
      else
        own.erase(name);
    }
    if (scalers[i].is_dynamic()) loaded[i] = scalers[i].loaded_from(own);
  }
  for (std::size_t i = 0; i < scalers.size(); ++i) {
    if (!loaded[i]) continue;
    scalers[i].load(*loaded[i]);
    state_->reported[i] = overflows(i).item<std::int64_t>();
  }
}

StateDict Amp::model_state_dict(const nn::Module& model) const {
  std::unordered_map<const void*, Tensor> masters;
  for (const State::PerOptimizer& o : state_->optimizers) {
    const std::vector<Tensor> parameters = o.optimizer->parameters(),
                              updated = o.optimizer->master_parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].numel() > 0) masters[parameters[i].data_ptr()] = updated[i];
  }
  NoGradGuard guard;
  StateDict dict;
  for (const auto& [name, tensor] : model.state_dict()) {
    const bool half = tensor.dtype() == kFloat16 || tensor.dtype() == kBFloat16;
    const auto master = masters.find(tensor.data_ptr());
    dict.insert(name, !half                     ? tensor
                      : master == masters.end() ? tensor.to(kFloat32)
                                                : master->second.detach().to(kFloat32));
  }
  return dict;
}

// ---- initialize

namespace {

void convert(const Tensor& t, DType dtype) {
  if (is_floating(t.dtype()) && t.dtype() != dtype) t.set_data(t.detach().to(dtype));
}

void convert(std::span<Tensor> tensors, DType dtype) {
  for (Tensor& t : tensors)
    if (t.defined() && is_floating(t.dtype())) t = t.to(dtype);
}

/// Converts parameters and buffers of floating types, in place: handles on them follow. Batch norms
/// keep theirs where asked.
void convert(nn::Module& model, DType dtype, bool keep_batchnorm_fp32) {
  NoGradGuard guard;
  std::unordered_set<const TensorImpl*> kept;
  for (nn::Module* module : model.modules())
    if (keep_batchnorm_fp32 && dynamic_cast<nn::BatchNorm*>(module))
      for (const auto& tensors : {module->parameters(), module->buffers()})
        for (const Tensor& t : tensors) kept.insert(t.impl());
  for (const auto& tensors : {model.parameters(), model.buffers()})
    for (const Tensor& t : tensors) {
      if (kept.contains(t.impl())) continue;
      if (const Tensor grad = t.grad(); grad.defined() && is_floating(t.dtype())) {
        t.set_grad({});
        convert(t, dtype);
        t.set_grad(grad.to(dtype));
      } else {
        convert(t, dtype);
      }
    }
}

/// Makes calls of the model convert their inputs and outputs, and run under autocast, as the level
/// requires.
void wrap_forward(nn::Module& model, const Properties& p, DType outputs) {
  if (p.autocast)
    model.register_forward_scope([dtype = p.dtype] {
      return std::make_shared<AutocastGuard>(AutocastOptions{.dtype = dtype});
    });
  if (p.cast_model_type)
    model.register_forward_pre_hook(
        [dtype = *p.cast_model_type](nn::Module&, std::span<Tensor> inputs) {
          convert(inputs, dtype);
        });
  if (p.autocast || p.cast_model_type)
    model.register_forward_hook(
        [outputs](nn::Module&, std::span<const Tensor>, std::span<Tensor> results) {
          convert(results, outputs);
        });
}

template <class T>
void check_distinct(const std::vector<T*>& all, const char* what) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    FERRITE_CHECK(all[i], ValueError, "amp", "{} {} is null", what, i);
    for (std::size_t j = 0; j < i; ++j)
      FERRITE_CHECK(all[i] != all[j], ValueError, "amp", "{} {} is {} {} again", what, i, what, j);
  }
}

void check_weights(const nn::Module& model) {
  for (const auto& [name, p] : model.named_parameters())
    FERRITE_CHECK(p.dtype() != kFloat16 && p.dtype() != kBFloat16, ValueError, "amp",
                  "{} is {}; expected float32 weights, which initialize() converts as the level "
                  "wants",
                  name, p.describe());
}

}  // namespace

Amp initialize(const std::vector<nn::Module*>& models, const std::vector<Optimizer*>& optimizers,
               const Options& options) {
  const Properties properties = properties_of(options);
  check_distinct(models, "model");
  check_distinct(optimizers, "optimizer");
  for (const nn::Module* model : models) check_weights(*model);
  const auto state = std::make_shared<Amp::State>(properties, options);
  for (nn::Module* model : models) {
    if (properties.cast_model_type)
      convert(*model, *properties.cast_model_type, properties.keep_batchnorm_fp32.value_or(false));
    if (properties.enabled) wrap_forward(*model, properties, options.cast_model_outputs);
  }
  for (Optimizer* optimizer : optimizers) {
    if (properties.master_weights) optimizer->use_master_weights();
    state->add(*optimizer);
  }
  if (options.verbosity > 0) std::cout << properties.str() << std::flush;
  return Amp(state);
}

Amp initialize(nn::Module& model, Optimizer& optimizer, const Options& options) {
  return initialize(std::vector{&model}, std::vector{&optimizer}, options);
}

Amp initialize(nn::Module& model, Optimizer& optimizer, OptLevelOrName level) {
  return initialize(model, optimizer, Options{.opt_level = level});
}

}  // namespace ferrite::optim::amp
