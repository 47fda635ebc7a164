// Calls of modules through their hooks.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/enclosed.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/warning.h"
#include "ferrite/nn/module.h"

namespace ferrite::nn {

namespace detail {

// Lists are copied before they run, because a hook may remove itself or register others, which run
// from the next call on.

void Hooks::enter(OpenScopes& open) const {
  const List<ForwardScope> hooks = scopes;
  for (const auto& [id, hook] : hooks) open.add(hook());
}

void Hooks::run_before(Module& module, std::span<Tensor> inputs) const {
  const List<ForwardPreHook> hooks = before;
  for (const auto& [id, hook] : hooks) hook(module, inputs);
}

void Hooks::run_after(Module& module, std::span<const Tensor> inputs,
                      std::span<Tensor> outputs) const {
  const List<ForwardHook> hooks = after;
  for (const auto& [id, hook] : hooks) hook(module, inputs, outputs);
}

namespace {

/// Replaces the first of `tensors` by the tensor that a hook returned, if any.
void replace_first(Module& module, std::span<Tensor> tensors, Tensor returned) {
  if (!returned.defined()) return;
  FERRITE_CHECK(!tensors.empty(), ValueError, "module",
                "a hook of {} returned {}, but there is no tensor that it could replace",
                module.name(), returned.describe());
  tensors.front() = std::move(returned);
}

Tensor first(std::span<const Tensor> tensors) {
  return tensors.empty() ? Tensor() : tensors.front();
}

}  // namespace

ForwardPreHook pre_hook_of_one(std::function<Tensor(Module&, const Tensor&)> hook) {
  return [hook = std::move(hook)](Module& module, std::span<Tensor> inputs) {
    replace_first(module, inputs, hook(module, first(inputs)));
  };
}

ForwardHook hook_of_one(std::function<Tensor(Module&, const Tensor&, const Tensor&)> hook) {
  return [hook = std::move(hook)](Module& module, std::span<const Tensor> inputs,
                                  std::span<Tensor> outputs) {
    replace_first(module, outputs, hook(module, first(inputs), first(outputs)));
  };
}

namespace {

/// Adds `hook` to a list of `hooks`. The handle does not keep the list alive.
template <class Hook>
ModuleHook add(const std::shared_ptr<Hooks>& hooks, Hooks::List<Hook> Hooks::*list, Hook hook) {
  const std::uint64_t id = hooks->next_id++;
  ((*hooks).*list).emplace_back(id, std::move(hook));
  return ModuleHook([known = std::weak_ptr<Hooks>(hooks), list, id] {
    if (const std::shared_ptr<Hooks> still = known.lock())
      std::erase_if((*still).*list, [&](const auto& entry) { return entry.first == id; });
  });
}

}  // namespace

// ---- Backward hooks

struct BackwardHookNodes::Call {
  void run(std::span<Tensor> grad_inputs) {
    FERRITE_CHECK(*module, AutogradError, "module",
                  "a module with backward hooks must live until backward; it was destroyed before");
    for (const auto& [id, hook] : hooks) hook(**module, grad_inputs, grad_outputs);
    std::ranges::fill(grad_outputs, Tensor());  // another pass may not reach the outputs
  }

  const std::shared_ptr<Module*> module;
  const Hooks::List<BackwardHook> hooks;
  const std::size_t inputs;  // tensors among the inputs
  /// Replicas die after forward, unless something on the tape needs them.
  const std::shared_ptr<const void> owner = autograd::CheckpointOwner::current();
  bool encloses_inputs = false;
  std::vector<Tensor> grad_outputs;
};

namespace {

/// Puts in the place of each of `tensors` that requires a gradient an alias, all of which are the
/// outputs of one node. `backward` turns a gradient for each of `tensors`, undefined where there is
/// none, into others.
template <class F>
bool put_node_behind(std::span<Tensor> tensors, const char* name, F backward) {
  std::vector<std::size_t> at;
  std::vector<Tensor> from, to;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!autograd::recording(tensors[i])) continue;
    at.push_back(i);
    from.push_back(tensors[i]);
    to.push_back(tensors[i].detach());
  }
  if (at.empty()) return false;
  autograd::record_many(to, name, from,
                        [at, all = tensors.size(), backward = std::move(backward)](
                            autograd::Gradients& given, autograd::Needs) {
                          std::vector<Tensor> grads(all);
                          for (std::size_t i = 0; i < at.size(); ++i) grads[at[i]] = given[i];
                          backward(std::span(grads));
                          for (std::size_t i = 0; i < at.size(); ++i) given[i] = grads[at[i]];
                          return given;
                        });
  for (std::size_t i = 0; i < at.size(); ++i) {
    autograd::link_enclosed(to[i], from[i]);
    tensors[at[i]] = to[i];
  }
  return true;
}

}  // namespace

BackwardHookNodes::BackwardHookNodes(const Hooks& hooks, Module& module, std::span<Tensor> inputs) {
  if (hooks.backward.empty() || !grad_enabled()) return;
  call_ = std::make_shared<Call>(Call{module.address_.of(module), hooks.backward, inputs.size()});
  call_->encloses_inputs = put_node_behind(
      inputs, "module_inputs", [call = call_](std::span<Tensor> grads) { call->run(grads); });
}

void BackwardHookNodes::enclose(std::span<Tensor> outputs) const {
  if (!call_) return;
  call_->grad_outputs.resize(outputs.size());
  put_node_behind(outputs, "module_outputs", [call = call_](std::span<Tensor> grads) {
    call->grad_outputs.assign(grads.begin(), grads.end());
    if (call->encloses_inputs) return;  // the hooks run when the inputs' gradients are known
    std::vector<Tensor> none(call->inputs);
    call->run(none);
  });
}

}  // namespace detail

const std::shared_ptr<detail::Hooks>& Module::own_hooks() {
  if (!hooks_) hooks_ = std::make_shared<detail::Hooks>();
  for (Module* const module : modules())
    if (module != this) module->outer_hooks_ = hooks_;
  return hooks_;
}

void Module::warn_of_skipped_hooks() const {
  static std::atomic<bool> given = false;
  if (outer_hooks_->empty()) return;
  warn_once(
      given, "module",
      fmt::format("{} was called, but not as a part of a call of the module around it whose "
                  "hooks or mixed precision therefore did nothing; call that module as net(x), "
                  "not net.forward(x)",
                  *call_path() ? fmt::format("'{}'", call_path()) : name()));
}

ModuleHook Module::register_forward_pre_hook(ForwardPreHook f) {
  FERRITE_CHECK(f, ValueError, "module", "the hook given to {} is empty", name());
  return detail::add(own_hooks(), &detail::Hooks::before, std::move(f));
}

ModuleHook Module::register_forward_hook(ForwardHook f) {
  FERRITE_CHECK(f, ValueError, "module", "the hook given to {} is empty", name());
  return detail::add(own_hooks(), &detail::Hooks::after, std::move(f));
}

ModuleHook Module::register_full_backward_hook(BackwardHook f) {
  FERRITE_CHECK(f, ValueError, "module", "the hook given to {} is empty", name());
  return detail::add(own_hooks(), &detail::Hooks::backward, std::move(f));
}

ModuleHook Module::register_forward_scope(ForwardScope f) {
  FERRITE_CHECK(f, ValueError, "module", "the scope given to {} is empty", name());
  return detail::add(own_hooks(), &detail::Hooks::scopes, std::move(f));
}

const detail::Hooks& Module::hooks() const {
  static const detail::Hooks none;
  return hooks_ ? *hooks_ : none;
}

Tensor Module::forward_with_hooks(const Tensor& input) {
  return detail::call_hooked(
      hooks(), *this, [this](const Tensor& x) { return forward_one(x); }, input);
}

}  // namespace ferrite::nn
