// Calls of modules through their hooks.
#include <utility>

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

}  // namespace detail

const std::shared_ptr<detail::Hooks>& Module::own_hooks() {
  if (!hooks_) hooks_ = std::make_shared<detail::Hooks>();
  return hooks_;
}

ModuleHook Module::register_forward_pre_hook(ForwardPreHook f) {
  FERRITE_CHECK(f, ValueError, "module", "the hook given to {} is empty", name());
  return detail::add(own_hooks(), &detail::Hooks::before, std::move(f));
}

ModuleHook Module::register_forward_hook(ForwardHook f) {
  FERRITE_CHECK(f, ValueError, "module", "the hook given to {} is empty", name());
  return detail::add(own_hooks(), &detail::Hooks::after, std::move(f));
}

ModuleHook Module::register_forward_scope(ForwardScope f) {
  FERRITE_CHECK(f, ValueError, "module", "the scope given to {} is empty", name());
  return detail::add(own_hooks(), &detail::Hooks::scopes, std::move(f));
}

Tensor Module::forward_with_hooks(const Tensor& input) {
  return detail::call_hooked(
      hooks(), *this, [this](const Tensor& x) { return forward_one(x); }, input);
}

}  // namespace ferrite::nn
