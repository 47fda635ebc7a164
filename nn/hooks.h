// Hooks of modules, and how a call runs them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/autograd/module_path.h"
#include "ferrite/core/error.h"
#include "ferrite/core/named_tuple.h"
#include "ferrite/core/tensor.h"

namespace ferrite::nn {

class Module;

/// Runs before forward() and may replace its inputs.
using ForwardPreHook = std::function<void(Module& module, std::span<Tensor> inputs)>;
/// Runs after forward(), sees the inputs after the pre-hooks, and may replace the outputs.
using ForwardHook =
    std::function<void(Module& module, std::span<const Tensor> inputs, std::span<Tensor> outputs)>;

/// Runs in backward, once per call of the module, when the gradients of its outputs and inputs are
/// known; it may put others in the places of those of the inputs. There is one gradient for each
/// tensor among the inputs and in the result; it is undefined where none was needed. Neither these
/// tensors nor views of them can be changed in place while recording (AutogradError), as by ReLU
/// with `.inplace`.
using BackwardHook = std::function<void(Module& module, std::span<Tensor> grad_inputs,
                                        std::span<const Tensor> grad_outputs)>;

/// Runs before all other hooks. The object that it returns, such as a guard, is destroyed after
/// forward() and the hooks after it, or when any of them throws.
using ForwardScope = std::function<std::shared_ptr<void>()>;

/// A handle whose remove() removes the hook; the module may already be gone. Destroying the handle
/// keeps the hook.
class ModuleHook {
 public:
  ModuleHook() = default;
  explicit ModuleHook(std::function<void()> remove) : remove_(std::move(remove)) {}
  /// The hook is not called from here on.
  void remove() {
    if (remove_) std::exchange(remove_, nullptr)();
  }

 private:
  std::function<void()> remove_;
};

namespace detail {

/// The objects that the scopes of a call returned; the last is destroyed first.
class OpenScopes {
 public:
  OpenScopes() = default;
  ~OpenScopes() {
    while (!open_.empty()) open_.pop_back();
  }
  OpenScopes(const OpenScopes&) = delete;
  OpenScopes& operator=(const OpenScopes&) = delete;
  void add(std::shared_ptr<void> scope) { open_.push_back(std::move(scope)); }

 private:
  std::vector<std::shared_ptr<void>> open_;
};

/// The hooks of a module, in the order in which they run.
struct Hooks {
  template <class Hook>
  using List = std::vector<std::pair<std::uint64_t, Hook>>;

  bool empty() const {
    return scopes.empty() && before.empty() && after.empty() && backward.empty();
  }
  void enter(OpenScopes& open) const;
  void run_before(Module& module, std::span<Tensor> inputs) const;
  void run_after(Module& module, std::span<const Tensor> inputs, std::span<Tensor> outputs) const;

  List<ForwardScope> scopes;
  List<ForwardPreHook> before;
  List<ForwardHook> after;
  List<BackwardHook> backward;
  std::uint64_t next_id = 0;
};

/// Puts a call between two nodes of the tape, which run the backward hooks of `hooks`.
class BackwardHookNodes {
 public:
  /// Does nothing if there are no such hooks, or nothing is recorded.
  BackwardHookNodes(const Hooks& hooks, Module& module, std::span<Tensor> inputs);
  void enclose(std::span<Tensor> outputs) const;

 private:
  struct Call;
  std::shared_ptr<Call> call_;
};

/// Where a module lies, for what may outlive it: null when it is gone.
class ModuleAddress {
 public:
  ModuleAddress() = default;
  ~ModuleAddress() { set(nullptr); }
  ModuleAddress(const ModuleAddress&) = delete;
  ModuleAddress& operator=(const ModuleAddress&) = delete;

  const std::shared_ptr<Module*>& of(Module& module) {
    if (!address_) address_ = std::make_shared<Module*>();
    *address_ = &module;
    return address_;
  }
  /// `module` was moved here from where `other` is.
  void take(ModuleAddress& other, Module* module) noexcept {
    set(nullptr);
    address_ = std::move(other.address_);
    set(module);
  }

 private:
  void set(Module* module) noexcept {
    if (address_) *address_ = module;
  }
  std::shared_ptr<Module*> address_;
};

/// Sets the tensors of `module` that are computed from others (Module::compute_before_forward).
void compute_tensors(Module& module);
/// Makes `path` that of the module that is called in this thread until the scope ends.
class CallScope {
 public:
  CallScope(const Module& module, const char* path)
      : caller_(std::exchange(autograd::detail::module_path, path)), is_outermost_(!outermost) {
    if (is_outermost_) outermost = &module;
  }
  ~CallScope() {
    autograd::detail::module_path = caller_;
    if (is_outermost_) outermost = nullptr;
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

  /// The module whose call is not part of another's in this thread; null outside of calls.
  inline static thread_local constinit const Module* outermost = nullptr;

 private:
  const char* const caller_;
  const bool is_outermost_;
};

/// Hooks for modules with one input and one output tensor, as most modules have.
ForwardPreHook pre_hook_of_one(std::function<Tensor(Module&, const Tensor&)> hook);
ForwardHook hook_of_one(std::function<Tensor(Module&, const Tensor&, const Tensor&)> hook);

/// Converts a hook that may return void to one that returns the undefined tensor.
template <class F>
auto returning_tensor(F hook) {
  return [hook = std::move(hook)](auto&... arguments) mutable -> Tensor {
    if constexpr (std::is_void_v<decltype(hook(arguments...))>) {
      hook(arguments...);
      return {};
    } else {
      return hook(arguments...);
    }
  };
}

template <class T>
inline constexpr bool is_tensor = std::is_base_of_v<Tensor, std::remove_cvref_t<T>>;

/// Whether T can be initialised from values of types Fs.
template <class T, class... Fs>
concept TakesFields = requires(Fs... fields) {
  T{{fields}...};
};

/// A struct that consists of one to four tensors, such as an LSTM's output and states.
template <class T>
concept TensorStruct = std::is_aggregate_v<T> &&
    ((sizeof(T) == 1 * sizeof(Tensor) && TakesFields<T, Tensor>) ||
     (sizeof(T) == 2 * sizeof(Tensor) && TakesFields<T, Tensor, Tensor>) ||
     (sizeof(T) == 3 * sizeof(Tensor) && TakesFields<T, Tensor, Tensor, Tensor>) ||
     (sizeof(T) == 4 * sizeof(Tensor) && TakesFields<T, Tensor, Tensor, Tensor, Tensor>));

template <TensorStruct T, class F>
void for_each_field(T& value, const F& f) {
  constexpr std::size_t kFields = sizeof(T) / sizeof(Tensor);
  if constexpr (kFields == 1) {
    auto& [a] = value;
    f(a);
  } else if constexpr (kFields == 2) {
    auto& [a, b] = value;
    f(a), f(b);
  } else if constexpr (kFields == 3) {
    auto& [a, b, c] = value;
    f(a), f(b), f(c);
  } else {
    auto& [a, b, c, d] = value;
    f(a), f(b), f(c), f(d);
  }
}

/// Calls f(tensor) on the defined tensors in a result: a tensor, a struct of tensors, an optional,
/// pair, tuple or range of these. Other types contain none.
template <class T, class F>
void for_each_tensor(T& value, F& f) {
  if constexpr (is_tensor<T>) {
    if (value.defined()) f(value);
  } else if constexpr (requires { value.has_value(), *value; }) {
    if (value.has_value()) for_each_tensor(*value, f);
  } else if constexpr (NamedTuple<T>) {
    std::apply([&](auto&... parts) { (for_each_tensor(parts, f), ...); }, value.fields());
  } else if constexpr (TensorStruct<T>) {
    for_each_field(value, [&](Tensor& field) { for_each_tensor(field, f); });
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([&](auto&... parts) { (for_each_tensor(parts, f), ...); }, value);
  } else if constexpr (std::ranges::forward_range<T>) {
    if constexpr (std::is_class_v<std::ranges::range_value_t<T>>)
      for (auto&& part : value) for_each_tensor(part, f);
  }
}

/// Whether for_each_tensor() finds all tensors of a T: not those of other classes.
template <class T>
constexpr bool shows_all_tensors() {
  if constexpr (is_tensor<T> || !std::is_class_v<T> || TensorStruct<T>) {
    return !std::is_union_v<T> && !std::is_pointer_v<T>;
  } else if constexpr (requires(T & value) { value.has_value(), *value; }) {
    return shows_all_tensors<std::remove_cvref_t<decltype(*std::declval<T&>())>>();
  } else if constexpr (NamedTuple<T>) {
    return shows_all_tensors<std::remove_cvref_t<decltype(std::declval<T&>().fields())>>();
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return (shows_all_tensors<std::remove_cvref_t<std::tuple_element_t<I, T>>>() && ...);
    }
    (std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (std::ranges::forward_range<T>) {
    return shows_all_tensors<std::ranges::range_value_t<T>>();
  } else {
    return false;
  }
}

/// Argument I of a call, or the tensor that replaces it.
template <std::size_t I, class... Inputs>
decltype(auto) argument(std::tuple<Inputs&&...>& given, std::span<Tensor> tensors) {
  using Input = std::tuple_element_t<I, std::tuple<Inputs...>>;
  if constexpr (is_tensor<Input>) {
    constexpr std::array<bool, sizeof...(Inputs)> kind = {is_tensor<Inputs>...};
    std::size_t before = 0;
    for (std::size_t i = 0; i < I; ++i) before += kind[i];
    using Given = std::conditional_t<std::is_same_v<std::remove_cvref_t<Input>, Tensor>, Input&&,
                                     Tensor&&>;  // of a view that is not replaced
    return static_cast<Given>(tensors[before]);
  } else {
    return static_cast<Input&&>(std::get<I>(given));
  }
}

/// forward(inputs...) with the hooks around it. They see the inputs that are tensors, and the
/// tensors that for_each_tensor finds in the result.
template <class F, class... Inputs>
auto call_hooked(const Hooks& hooks, Module& module, F&& forward, Inputs&&... inputs) {
  OpenScopes open;
  hooks.enter(open);
  compute_tensors(module);
  std::vector<Tensor> seen;
  [[maybe_unused]] const auto see = [&]([[maybe_unused]] auto& input) {
    if constexpr (is_tensor<decltype(input)>) seen.push_back(input);
  };
  (see(inputs), ...);
  hooks.run_before(module, seen);
  const BackwardHookNodes backward(hooks, module, seen);
  [[maybe_unused]] std::tuple<Inputs&&...> given(std::forward<Inputs>(inputs)...);
  const auto run = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return forward(argument<I, Inputs...>(given, seen)...);
  };
  if constexpr (std::is_void_v<decltype(run(std::index_sequence_for<Inputs...>()))>) {
    run(std::index_sequence_for<Inputs...>());
    hooks.run_after(module, seen, {});
  } else {
    auto result = run(std::index_sequence_for<Inputs...>());
    std::vector<Tensor> outputs;
    const auto collect = [&](const Tensor& t) { outputs.push_back(t); };
    for_each_tensor(result, collect);
    hooks.run_after(module, seen, outputs);
    backward.enclose(outputs);
    auto replace = [next = outputs.begin()](Tensor& t) mutable { t = *next++; };
    for_each_tensor(result, replace);
    return result;
  }
}

}  // namespace detail

}  // namespace ferrite::nn
