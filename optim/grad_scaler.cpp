#include "ferrite/optim/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/record.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/loss_scale.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/optim/capture.h"
#include "ferrite/optim/fields.h"
#include "ferrite/optim/flat_batches.h"

namespace ferrite::optim {

namespace {

/// What is saved and loaded of the options.
Fields fields_of(GradScalerOptions& o) {
  return {{"growth_factor", &o.growth_factor, {"above 1", 1, kAnyNumber.high, true}},
          {"backoff_factor", &o.backoff_factor, {"between 0 and 1", 0, 1, true, true}},
          {"growth_interval", &o.growth_interval, kPositive}};
}

void fill(const Tensor& t, Scalar value) {
  kernels::fill(current_stream(t.device()), t, value);
  t.storage()->bump_version("GradScaler");
}

/// outputs * scale, whose backward pass begins without kernels of its own.
class ScaleNode final : public autograd::Node {
 public:
  ScaleNode(const Tensor& out, const Tensor& outputs, const Tensor& scale)
      : Node("scale", current_stream(out.device())),
        scale_(scale),
        is_gradient_(out.dim() == 0 && out.dtype() == kFloat32) {
    autograd::detail::link_inputs(*this, {outputs});
  }
  autograd::Gradients backward(autograd::Gradients grads) override {
    if (!scale_.defined()) autograd::fail_released(name);
    autograd::Gradients result(1);
    result[0] = grads[0].mul(scale_.get());
    return result;
  }
  void release_saved() override { scale_ = {}; }
  Tensor gradient_of_one() override {
    return scale_.defined() && is_gradient_ ? scale_.get() : Tensor();
  }

 private:
  autograd::Saved scale_;
  bool is_gradient_;  ///< whether the scale has the shape and dtype of the gradient
};

/// The inverse of the scale as float32 holds it.
double inverse(double scale) { return 1 / static_cast<double>(static_cast<float>(scale)); }

}  // namespace

void GradScaler::check_options(GradScalerOptions o) {
  FERRITE_CHECK(o.init_scale > 0 && std::isfinite(o.init_scale), ValueError, "GradScaler",
                "expected a finite scale above 0, got {}", o.init_scale);
  check_fields(fields_of(o), "GradScaler");
  FERRITE_CHECK(o.min_scale >= 0 && o.min_scale <= o.max_scale, ValueError, "GradScaler",
                "expected 0 <= min_scale <= max_scale, got {} and {}", o.min_scale, o.max_scale);
}

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) {
  if (options.enabled) check_options(options);
}

// ---- The scale

void GradScaler::make_state(const Device& device) {
  refuse_new_state(device, "GradScaler", "the loss scale");
  const auto number = [&](DType dtype) { return empty({}, {.dtype = dtype, .device = device}); };
  scale_ = number(kFloat32);
  inv_scale_ = number(kFloat32);
  growth_tracker_ = number(kInt64);
  overflows_ = number(kInt64);
  set_scale(options_.init_scale, init_growth_tracker_, init_overflows_);
}

/// Into the tensors that there are, where recorded steps find it.
void GradScaler::set_scale(double scale, std::int64_t growth_tracker, std::int64_t overflows) {
  fill(scale_, scale);
  fill(inv_scale_, inverse(scale));
  fill(growth_tracker_, growth_tracker);
  fill(overflows_, overflows);
}

void GradScaler::check_used(const char* op) const {
  FERRITE_CHECK(scale_.defined(), ValueError, op,
                "there is no scale yet: expected a loss to have gone through scale() before");
}

Tensor GradScaler::scale(const Tensor& outputs) {
  if (!options_.enabled) return outputs;
  FERRITE_CHECK(outputs.defined() && is_floating(outputs.dtype()), ValueError, "scale",
                "expected floating-point outputs, got {}", outputs.describe());
  if (!scale_.defined()) make_state(outputs.device());
  // The scale itself is more than float16 holds.
  const bool half = outputs.dtype() == kFloat16 || outputs.dtype() == kBFloat16;
  const Tensor wide = half ? outputs.to(kFloat32) : outputs, scale = scale_.to(outputs.device());
  const Tensor out = no_grad([&] { return wide.mul(scale); });
  if (autograd::recording(wide))
    autograd::detail::link_output(out, make_intrusive<ScaleNode>(out, wide, scale), 0);
  return out;
}

std::vector<Tensor> GradScaler::scale(std::span<const Tensor> outputs) {
  std::vector<Tensor> scaled;
  for (const Tensor& t : outputs) scaled.push_back(scale(t));
  return scaled;
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  return scale_.defined() ? scale_.item<double>() : options_.init_scale;
}

// ---- A step

GradScaler::PerOptimizer& GradScaler::state_of(const Optimizer& optimizer) {
  auto found = std::ranges::find(optimizers_, &optimizer, &PerOptimizer::optimizer);
  if (found == optimizers_.end()) {
    optimizers_.push_back({.optimizer = &optimizer, .found_inf = {}});
    found = optimizers_.end() - 1;
  }
  // A capture that failed between unscale_() and update() has done nothing.
  if (found->captured && !is_capturing(scale_.device())) enter(*found, Stage::ready);
  return *found;
}

void GradScaler::enter(PerOptimizer& state, Stage stage) const {
  state.stage = stage;
  if (stage != Stage::ready) state.looking = false;
  state.captured = stage != Stage::ready && is_capturing(scale_.device());
}

/// If the call before threw after its look, the flags that it set are left.
void GradScaler::begin_to_look(PerOptimizer& state) {
  if (state.stage != Stage::ready) return;
  if (state.looking)
    for (const Tensor& found : state.found_inf) fill(found, 0);
  state.looking = true;
}

float* GradScaler::flag_on(PerOptimizer& state, const Device& device) {
  auto flag = std::ranges::find(state.found_inf, device, &Tensor::device);
  if (flag == state.found_inf.end()) {
    refuse_new_state(device, "GradScaler", "the overflow flag of an optimizer");
    const Tensor made = empty({}, {.dtype = kFloat32, .device = device});
    fill(made, 0);
    state.found_inf.push_back(made);
    flag = state.found_inf.end() - 1;
  }
  return flag->data<float>();
}

namespace {

void check_gradients(bool any, const char* op) {
  FERRITE_CHECK(any, ValueError, op,
                "no parameter of the optimizer has a gradient: expected a backward() before");
}

}  // namespace

void GradScaler::unscale(PerOptimizer& state, Optimizer& optimizer) {
  NoGradGuard guard;
  const std::vector<Tensor> parameters = optimizer.parameters(),
                            updated = optimizer.master_parameters();
  FlatBatches own, of_masters;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (updated[i].is_same(parameters[i])) own.add(parameters[i].grad());
  const std::vector<Optimizer::MasterGradient> masters = optimizer.make_master_gradients();
  for (const auto& [from, to] : masters) of_masters.add(to, from);
  check_gradients(!own.batches().empty() || !masters.empty(), "unscale_");
  begin_to_look(state);
  const auto run = [&](const Device& device, const kernels::FlatTensors& to,
                       const kernels::FlatTensors& from) {
    kernels::unscale_all(current_stream(device), to, from, inv_scale_.to(device).data<float>(),
                         options_.dynamic ? flag_on(state, device) : nullptr);
  };
  for (const auto& b : own.batches()) run(b.device, b.to, b.to);
  own.write_back("unscale_");
  for (const auto& b : of_masters.batches()) run(b.device, b.to, b.from);
  for (const auto& [from, to] : masters) to.storage()->bump_version("unscale_");
  exchange_flags(state);
}

void GradScaler::look_for_overflow(PerOptimizer& state, const Optimizer& optimizer) {
  NoGradGuard guard;
  const auto gradients = FlatBatches::of_gradients(optimizer.parameters());
  check_gradients(!gradients.batches().empty(), "step");
  begin_to_look(state);
  std::vector<std::pair<Device, std::vector<kernels::FlatTensors>>> by_device;
  for (const auto& b : gradients.batches()) {
    auto lists = std::ranges::find(by_device, b.device, [](const auto& d) { return d.first; });
    if (lists == by_device.end()) lists = by_device.insert(lists, {b.device, {}});
    lists->second.push_back(b.to);
  }
  for (const auto& [device, lists] : by_device)
    kernels::check_finite(current_stream(device), lists, flag_on(state, device));
  exchange_flags(state);
}

void GradScaler::exchange_flags(const PerOptimizer& state) const {
  if (exchange_)
    for (const Tensor& found : state.found_inf) exchange_(found);
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  check_used("unscale_");
  PerOptimizer& state = state_of(optimizer);
  FERRITE_CHECK(state.stage != Stage::unscaled, ValueError, "unscale_",
                "unscale_() was called for this optimizer already since the last update()");
  FERRITE_CHECK(state.stage != Stage::stepped, ValueError, "unscale_",
                "unscale_() comes before step(), and update() after that");
  unscale(state, optimizer);
  enter(state, Stage::unscaled);
}

Tensor GradScaler::either(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return a.add(b.to(a.device()));
}

/// What one device found holds the others back too. Undefined where nothing was looked for.
Tensor GradScaler::found_inf(const PerOptimizer& state) {
  Tensor found;
  for (const Tensor& t : state.found_inf) found = either(found, t);
  return found;
}

void GradScaler::step(Optimizer& optimizer, const Tensor& skip) {
  if (!options_.enabled) return optimizer.step({}, skip);
  check_used("step");
  PerOptimizer& state = state_of(optimizer);
  FERRITE_CHECK(state.stage != Stage::stepped, ValueError, "step",
                "step() was called for this optimizer already since the last update()");
  const bool unscaled = state.stage == Stage::unscaled;
  if (!unscaled) {
    optimizer.drop_master_gradients();
    if (options_.dynamic) look_for_overflow(state, optimizer);
  }
  const Tensor found = either(found_inf(state), skip);
  const Device& device = found.defined() ? found.device() : inv_scale_.device();
  optimizer.step(unscaled ? Tensor() : inv_scale_.to(device), found);
  enter(state, Stage::stepped);
}

/// Without looking at what was found.
void GradScaler::end_step() {
  for (PerOptimizer& state : optimizers_) {
    if (state.stage != Stage::ready)
      for (const Tensor& found : state.found_inf) fill(found, 0);
    enter(state, Stage::ready);
  }
}

void GradScaler::update() {
  if (!options_.enabled) return;
  check_used("update");
  if (!options_.dynamic) return end_step();
  NoGradGuard guard;
  std::vector<float*> flags;
  std::vector<Tensor> elsewhere, copies;
  for (const PerOptimizer& state : optimizers_) {
    if (state.stage == Stage::ready) continue;
    for (const Tensor& found : state.found_inf) {
      const bool here = found.device() == scale_.device();
      if (!here) elsewhere.push_back(found);
      flags.push_back(
          (here ? found : copies.emplace_back(found.to(scale_.device()))).data<float>());
    }
  }
  FERRITE_CHECK(!flags.empty(), ValueError, "update",
                "nothing was looked for since the last update(): expected a step() or unscale_()");
  kernels::update_scale(current_stream(scale_.device()),
                        {.scale = scale_.data<float>(),
                         .inv_scale = inv_scale_.data<float>(),
                         .growth_tracker = growth_tracker_.data<std::int64_t>(),
                         .overflows = overflows_.data<std::int64_t>()},
                        flags,
                        {.growth_factor = options_.growth_factor,
                         .backoff_factor = options_.backoff_factor,
                         .growth_interval = options_.growth_interval,
                         .min_scale = options_.min_scale,
                         .max_scale = options_.max_scale});
  for (const Tensor* t : {&scale_, &inv_scale_, &growth_tracker_, &overflows_})
    t->storage()->bump_version("GradScaler");
  for (const Tensor& found : elsewhere) fill(found, 0);
  for (PerOptimizer& state : optimizers_) enter(state, Stage::ready);
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  FERRITE_CHECK(new_scale > 0 && std::isfinite(new_scale), ValueError, "update",
                "expected a finite scale above 0, got {}", new_scale);
  check_used("update");
  fill(scale_, new_scale);
  fill(inv_scale_, inverse(new_scale));
  end_step();
}

void GradScaler::update(const Tensor& new_scale) {
  if (!options_.enabled) return;
  FERRITE_CHECK(new_scale.defined() && new_scale.numel() == 1 && is_floating(new_scale.dtype()),
                ValueError, "update", "expected one floating-point number, got {}",
                new_scale.describe());
  check_used("update");
  NoGradGuard guard;
  scale_.copy_(new_scale.reshape({}));
  inv_scale_.copy_(full({}, 1.0, {.dtype = kFloat64, .device = scale_.device()}) /
                   scale_.to(kFloat64));
  end_step();
}

// ---- Checkpoints

StateDict GradScaler::state_dict() const {
  StateDict dict;
  if (!options_.enabled) return dict;
  const bool used = scale_.defined();
  NoGradGuard guard;
  dict.insert("scale",
              used ? scale_.clone() : host_scalar(static_cast<float>(options_.init_scale)));
  GradScalerOptions options = options_;
  save_fields(fields_of(options), dict, "");
  dict.insert("_growth_tracker",
              used ? growth_tracker_.clone() : host_scalar(init_growth_tracker_));
  dict.insert("_overflows", used ? overflows_.clone() : host_scalar(init_overflows_));
  return dict;
}

void GradScaler::load_state_dict(const StateDict& dict) {
  if (options_.enabled) load(loaded_from(dict));
}

GradScaler::Loaded GradScaler::loaded_from(const StateDict& dict) const {
  const auto entry = [&](const char* name) -> const Tensor& {
    const auto found = dict.find(name);
    FERRITE_CHECK(found != dict.end(), ValueError, "GradScaler", "the dict lacks {}{}", name,
                  dict.empty() ? "; is it that of a scaler that was disabled?" : "");
    FERRITE_CHECK(found->second.numel() == 1, ValueError, "GradScaler",
                  "{}: expected one number, got {}", name, found->second.describe());
    return found->second;
  };
  Loaded loaded{
      .options = options_,
      .growth_tracker = entry("_growth_tracker").item<std::int64_t>(),
      .overflows = dict.contains("_overflows") ? entry("_overflows").item<std::int64_t>() : 0};
  loaded.options.init_scale = entry("scale").item<double>();
  load_fields(fields_of(loaded.options), dict, "", "GradScaler", false);
  check_options(loaded.options);
  return loaded;
}

void GradScaler::load(const Loaded& loaded) {
  options_ = loaded.options;
  init_growth_tracker_ = loaded.growth_tracker;
  init_overflows_ = loaded.overflows;
  if (scale_.defined()) set_scale(options_.init_scale, loaded.growth_tracker, loaded.overflows);
}

}  // namespace ferrite::optim
