#include "ferrite/optim/amp/state.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "ferrite/autograd/meta.h"
#include "ferrite/autograd/record.h"
#include "ferrite/autograd/zero_grad.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/optim/capture.h"

namespace ferrite::optim::amp {

using autograd::Needs;

namespace {

GradScalerOptions scaler_options(const Properties& p, const Options& o) {
  GradScalerOptions options{.init_scale = p.loss_scale.value(),
                            .dynamic = p.loss_scale.is_dynamic()};
  if (!options.dynamic) return options;
  options.min_scale = o.min_loss_scale;
  options.max_scale = o.max_loss_scale;
  options.init_scale = std::clamp(options.init_scale, o.min_loss_scale, o.max_loss_scale);
  return options;
}

}  // namespace

Amp::State::State(const Properties& p, const Options& options)
    : properties(p), scales(p.master_weights || p.loss_scale != LossScale(1.0)) {
  for (std::size_t i = 0; i < options.num_losses; ++i)
    scalers.emplace_back(scaler_options(p, options));
  reported.resize(options.num_losses);
}

Amp::State::~State() {
  for (TensorHook& hook : hooks_) hook.remove();
}

void Amp::State::add(Optimizer& optimizer) {
  const std::size_t index = optimizers.size();
  optimizers.push_back({.optimizer = &optimizer, .zero_grads = optimizer.zero_grads_});
  hook_parameters(index);
}

/// Those that have none yet: groups may be added at any time.
void Amp::State::hook_parameters(std::size_t index) {
  if (!scales) return;
  PerOptimizer& o = optimizers[index];
  std::size_t count = 0;
  for (std::size_t g = 0; g < o.optimizer->num_groups(); ++g)
    count += o.optimizer->parameters(g).size();
  if (count == o.hooked) return;
  const std::vector<Tensor> parameters = o.optimizer->parameters();
  for (; o.hooked < parameters.size(); ++o.hooked) {
    const Tensor& p = parameters[o.hooked];
    const bool frozen = !p.requires_grad();
    if (frozen) p.set_requires_grad();  // hooks stay when it is frozen again, and freed once more
    hooks_.push_back(
        p.register_post_accumulate_grad_hook([state = weak_from_this(), index](const Tensor&) {
          if (const auto amp = state.lock()) amp->gradient_arrived(index);
        }));
    if (frozen) p.set_requires_grad(false);
  }
}

Amp::State::PerOptimizer& Amp::State::find(const Optimizer& optimizer, const char* op) {
  const auto found = std::ranges::find(optimizers, &optimizer, &PerOptimizer::optimizer);
  FERRITE_CHECK(found != optimizers.end(), ValueError, op,
                "the optimizer is none of the {} that initialize() was given", optimizers.size());
  // Its groups may have been added since.
  hook_parameters(static_cast<std::size_t>(found - optimizers.begin()));
  if (properties.master_weights) found->optimizer->use_master_weights();
  forget_zeroed();
  return *found;
}

GradScaler& Amp::State::ready_scaler(std::size_t loss_id, const Device& device) {
  GradScaler& scaler = scalers[loss_id];
  if (!scaler.scale_.defined()) scaler.make_state(device);
  return scaler;
}

bool Amp::State::has_stepped(const GradScaler& scaler) const {
  return std::ranges::any_of(scaler.optimizers_,
                             [](const auto& o) { return o.stage == Stage::stepped; });
}

// ---- Backward

GradScaler& Amp::State::scaler(std::size_t loss_id, const char* op) {
  FERRITE_CHECK(loss_id < scalers.size(), ValueError, op,
                "loss {} of {}; initialize() takes their number", loss_id, scalers.size());
  return scalers[loss_id];
}

namespace {

/// In the place of `node`, which has one output: calls `begin` before its gradient.
class NotingNode final : public autograd::Node {
 public:
  NotingNode(IntrusivePtr<Node> node, std::function<void(bool runs)> begin)
      : Node("amp_scale", node->stream), node_(std::move(node)), begin_(std::move(begin)) {
    edges = node_->edges;
  }
  autograd::Gradients backward(autograd::Gradients outputs) override {
    begin_(true);
    return node_->backward(std::move(outputs));
  }
  void release_saved() override { node_->release_saved(); }
  Tensor gradient_of_one() override {
    Tensor known = node_->gradient_of_one();
    if (known.defined()) begin_(false);
    return known;
  }

 private:
  const IntrusivePtr<Node> node_;
  const std::function<void(bool runs)> begin_;  // whether the pass runs already
};

}  // namespace

Tensor Amp::State::scale(const Tensor& loss, std::size_t loss_id) {
  GradScaler& scaler = this->scaler(loss_id, "scale");
  for (std::size_t i = 0; i < optimizers.size(); ++i) hook_parameters(i);
  if (!scales || properties.loss_scale == LossScale(1.0)) return loss;
  forget_zeroed();
  // An optimizer has not stepped with the others, whose step ends here.
  if (has_stepped(scaler) &&
      std::ranges::none_of(optimizers, [](const PerOptimizer& o) { return o.unscaled; }))
    update();
  const Tensor scaled = scaler.scale(loss);
  const autograd::Edge scaling = autograd::gradient_edge(scaled);
  if (!autograd::recording(scaled) || !scaling.node) return scaled;
  const Tensor out = autograd::alias(scaled);
  const auto begin = [state = weak_from_this(), loss_id](bool runs) {
    if (const auto amp = state.lock()) amp->begin_backward(loss_id, runs);
  };
  autograd::detail::link_output(out, make_intrusive<NotingNode>(scaling.node, begin), 0);
  return out;
}

void Amp::State::begin_backward(std::size_t loss_id, bool runs) {
  const std::lock_guard lock(mutex_);
  forget_zeroed();
  current_loss_ = loss_id;
  in_scaled_pass_ = true;
  end_is_noted_ = false;
  if (runs) note_end();
  for (PerOptimizer& o : optimizers)
    if (o.pending && *o.pending != loss_id && !o.unscaled) put_aside(o);
}

void Amp::State::gradient_arrived(std::size_t optimizer) {
  const std::lock_guard lock(mutex_);
  forget_zeroed();
  PerOptimizer& o = optimizers[optimizer];
  if (o.unscaled) forget(o);  // the step they were unscaled for was not taken
  o.pending = current_loss_;
  o.optimizer->has_scaled_gradients_ = in_scaled_pass_;
  if (in_scaled_pass_) note_end();
}

/// Of the running pass.
void Amp::State::note_end() {
  if (std::exchange(end_is_noted_, true)) return;
  // The pass has the last reference, whether it ends or fails.
  const std::shared_ptr<void> end(nullptr, [state = weak_from_this()](void*) {
    const auto amp = state.lock();
    if (!amp) return;
    const std::lock_guard lock(amp->mutex_);
    amp->in_scaled_pass_ = false;
  });
  autograd::queue_callback([end] {});
}

// ---- Unscaling

void Amp::State::unscale_with(PerOptimizer& o, std::size_t loss_id) {
  GradScaler& scaler = ready_scaler(loss_id, o.optimizer->parameters()[0].device());
  GradScaler::PerOptimizer& seen = scaler.state_of(*o.optimizer);
  scaler.unscale(seen, *o.optimizer);
  scaler.enter(seen, Stage::unscaled);
}

/// f(scaler, its record) for the scalers that have unscaled gradients since the last step.
void Amp::State::for_each_unscaled(const PerOptimizer& o, auto&& f) {
  for (GradScaler& scaler : scalers)
    if (auto& seen = scaler.state_of(*o.optimizer); seen.stage == Stage::unscaled) f(scaler, seen);
}

/// Makes room for gradients of another scale.
void Amp::State::put_aside(PerOptimizer& o) {
  const std::vector<Tensor> parameters = o.optimizer->parameters();
  if (std::ranges::none_of(parameters, [](const Tensor& p) { return p.grad().defined(); }))
    return forget(o);  // zero_grad() has dropped them
  NoGradGuard guard;
  unscale_with(o, *o.pending);
  const std::vector<Tensor> updated = o.optimizer->master_parameters();
  o.aside.resize(updated.size());
  if (!o.has_aside)
    for (Aside& aside : o.aside) aside.is_used = false;
  for (std::size_t i = 0; i < updated.size(); ++i) {
    const Tensor grad = updated[i].grad();
    if (!grad.defined()) continue;
    Aside& aside = o.aside[i];
    if (!aside.grad.defined()) {
      refuse_new_state(grad.device(), "amp", "a place for gradients of another loss");
      aside.grad = empty_like(grad);
    }
    if (aside.is_used)
      aside.grad.add_(grad);
    else
      aside.grad.copy_(grad);
    aside.is_used = true;
  }
  o.has_aside = true;
  autograd::zero_grad(parameters, false);
  o.optimizer->drop_master_gradients();
  o.pending.reset();
}

void Amp::State::add_aside(PerOptimizer& o) {
  NoGradGuard guard;
  const std::vector<Tensor> updated = o.optimizer->master_parameters();
  for (std::size_t i = 0; i < std::min(updated.size(), o.aside.size()); ++i)
    if (const Tensor grad = updated[i].grad(); grad.defined() && o.aside[i].is_used)
      grad.add_(o.aside[i].grad);
}

void Amp::State::unscale(PerOptimizer& o) {
  unscale_with(o, o.pending.value_or(current_loss_));
  if (o.has_aside) add_aside(o);
  o.unscaled = true;
  o.optimizer->has_scaled_gradients_ = false;
}

// ---- Steps

void Amp::State::step(PerOptimizer& o, const Tensor& skip) {
  Optimizer& optimizer = *o.optimizer;
  if (!scales) return optimizer.step({}, skip);
  if (!o.unscaled && !o.has_aside) {
    // Unscaled as the update reads them.
    ready_scaler(o.pending.value_or(current_loss_), optimizer.parameters()[0].device())
        .step(optimizer, skip);
  } else {
    if (!o.unscaled) unscale(o);
    Tensor found;
    for_each_unscaled(o, [&](GradScaler&, const auto& seen) {
      found = GradScaler::either(found, GradScaler::found_inf(seen));
    });
    optimizer.step({}, GradScaler::either(found, skip));
    for_each_unscaled(o,
                      [](GradScaler& scaler, auto& seen) { scaler.enter(seen, Stage::stepped); });
  }
  o.pending.reset();
  o.unscaled = o.has_aside = optimizer.has_scaled_gradients_ = false;
  if (std::ranges::none_of(optimizers, [&](const PerOptimizer& other) {
        return has_gradients(other) || other.unscaled;
      }))
    update();
}

void Amp::State::update() {
  for (GradScaler& scaler : scalers)
    if (std::ranges::any_of(scaler.optimizers_,
                            [](const auto& o) { return o.stage != Stage::ready; }))
      scaler.update();
}

/// What the step would have needed to know. Overflows that were found stay so until the next.
void Amp::State::forget(PerOptimizer& o) {
  for_each_unscaled(o, [](GradScaler& scaler, auto& seen) { scaler.enter(seen, Stage::ready); });
  o.pending.reset();
  o.unscaled = o.has_aside = o.optimizer->has_scaled_gradients_ = false;
  o.zero_grads = o.optimizer->zero_grads_;
}

void Amp::State::forget_zeroed() {
  for (PerOptimizer& o : optimizers)
    if (o.zero_grads != o.optimizer->zero_grads_) forget(o);
}

}  // namespace ferrite::optim::amp
