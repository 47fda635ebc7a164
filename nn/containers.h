// Containers of modules and of parameters, which they own.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/nn/module.h"

namespace ferrite::nn {

namespace detail {

template <class M>
inline constexpr bool is_owned_module = false;
template <std::derived_from<Module> M>
inline constexpr bool is_owned_module<std::unique_ptr<M>> = true;

/// What a container takes: a module, or a std::unique_ptr to one.
template <class M>
concept ContainedModule =
    std::derived_from<std::remove_cvref_t<M>, Module> || is_owned_module<std::remove_cvref_t<M>>;

/// A module on the heap: a temporary is moved there, a variable cloned, a std::unique_ptr kept.
template <ContainedModule M>
auto owned(M&& module) {
  using Plain = std::remove_cvref_t<M>;
  if constexpr (is_owned_module<Plain>)
    return std::unique_ptr(std::forward<M>(module));
  else if constexpr (std::is_lvalue_reference_v<M>)
    return std::unique_ptr<Plain>(static_cast<Plain*>(std::as_const(module).clone().release()));
  else
    return std::make_unique<Plain>(std::forward<M>(module));
}

}  // namespace detail

/// A module and its name in a list: `Sequential({{"conv", Conv2d(1, 8, 3)}, {"relu", ReLU()}})`.
class NamedAnyModule {
 public:
  template <detail::ContainedModule M>
  NamedAnyModule(std::string given_name, M&& given)
      : name(std::move(given_name)), module(detail::owned(std::forward<M>(given))) {}

  std::string name;
  /// The module.
  mutable std::unique_ptr<Module> module;  // elements of an initializer list are const
};

/// Modules in an order, named "0", "1", ... unless they are given names. Takes temporaries, and
/// what std::move makes one; variables, which are cloned; and std::unique_ptr.
class ModuleContainer : public Module {
 public:
  /// The module where it now is.
  template <detail::ContainedModule M>
  auto& push_back(M&& module) {
    return push_back(free_number(size()), std::forward<M>(module));
  }
  template <detail::ContainedModule M>
  auto& push_back(std::string name, M&& module) {
    return register_module(std::move(name), detail::owned(std::forward<M>(module)));
  }
  /// Adds a module at the end, under this name.
  template <detail::ContainedModule M>
  auto& add_module(std::string name, M&& module) {
    return push_back(std::move(name), std::forward<M>(module));
  }
  /// push_back() that can be chained.
  template <detail::ContainedModule M>
  ModuleContainer& append(M&& module) {
    push_back(std::forward<M>(module));
    return *this;
  }
  /// Adds clones of the modules of another container at the end, or, of a temporary, the modules.
  ModuleContainer& extend(const ModuleContainer& other);
  ModuleContainer& extend(ModuleContainer&& other);
  /// Adds a module before the one at `index`, from -size() to size() (IndexError). All modules are
  /// then named by their numbers. Returns the module where it now is.
  template <detail::ContainedModule M>
  auto& insert(std::int64_t index, M&& module) {
    const std::size_t place = place_of(index);
    auto& added = push_back(std::forward<M>(module));
    move_last_child(place);
    number_children();
    return added;
  }
  /// Takes a module out. The others are then named by their numbers. IndexError as of operator[].
  std::unique_ptr<Module> pop(std::int64_t index = -1);
  /// Removes a module, as `del net[index]` does. IndexError and names as of pop().
  void erase(std::int64_t index) { pop(index); }

  /// The number of modules.
  std::size_t size() const { return num_children(); }
  bool empty() const { return size() == 0; }
  /// Negative indices count from the end. IndexError outside.
  Module& operator[](std::int64_t index) const;
  /// `i - 1` of an unsigned 0 is no index from the end.
  template <std::unsigned_integral I>
  Module& operator[](I index) const {
    if (index >= size()) fail_index(index);
    return (*this)[static_cast<std::int64_t>(index)];
  }

  /// Over the modules, in order.
  class Iterator {
   public:
    using value_type = Module;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(const ModuleContainer* list, std::int64_t index) : list_(list), index_(index) {}
    Module& operator*() const { return (*list_)[index_]; }
    Module* operator->() const { return &**this; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++index_;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const ModuleContainer* list_ = nullptr;
    std::int64_t index_ = 0;
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, static_cast<std::int64_t>(size())}; }

 protected:
  ModuleContainer() = default;
  /// Adds modules at the end.
  void push_back_all(std::initializer_list<NamedAnyModule> modules);

 private:
  std::size_t place_of(std::int64_t index) const;
  [[noreturn]] void fail_index(std::uint64_t index) const;
};

/// Runs its modules one after another: `Sequential(Conv2d(1, 6, 5), ReLU(), Flatten())`.
/// Consecutive layers without hooks run as one op where nn/fused.h supports it.
///
///   nn::Sequential net(nn::Flatten(), nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10));
///   Tensor logits = net(images);  // [N, 1, 28, 28] to [N, 10]
///
/// A single Sequential as argument is C++'s move, without nesting: give it a name,
/// `Sequential({{"0", std::move(inner)}})`, or push_back() it.
class Sequential : public Cloneable<Sequential, ModuleContainer> {
 public:
  Sequential() = default;
  template <detail::ContainedModule First, detail::ContainedModule... Rest>
  requires(
      sizeof...(Rest) > 0 ||
      !std::same_as<std::remove_cvref_t<First>, Sequential>) explicit Sequential(First&& first,
                                                                                 Rest&&... rest) {
    push_back(std::forward<First>(first));
    (push_back(std::forward<Rest>(rest)), ...);
  }
  Sequential(std::initializer_list<NamedAnyModule> modules) { push_back_all(modules); }

  Tensor forward(const Tensor& input) override;
};

/// Holds modules in order, as children "0", "1", ..., without a forward() of its own. Negative
/// indices count from the end; those out of range are an IndexError.
///
///   nn::ModuleList layers(nn::Linear(4, 8), nn::Linear(8, 2));
///   for (nn::Module& layer : layers) x = relu(layer(x));
class ModuleList : public Cloneable<ModuleList, ModuleContainer> {
 public:
  ModuleList() = default;
  template <detail::ContainedModule First, detail::ContainedModule... Rest>
  requires(
      sizeof...(Rest) > 0 ||
      !std::same_as<std::remove_cvref_t<First>, ModuleList>) explicit ModuleList(First&& first,
                                                                                 Rest&&... rest) {
    push_back(std::forward<First>(first));
    (push_back(std::forward<Rest>(rest)), ...);
  }
};

/// Modules by name, in the order in which they came:
/// `ModuleDict({{"conv", Conv2d(1, 8, 3)}, {"pool", MaxPool2d(2)}})`. Loops give pairs of name and
/// pointer (named_children()).
class ModuleDict : public Cloneable<ModuleDict> {
 public:
  ModuleDict() = default;
  ModuleDict(std::initializer_list<NamedAnyModule> modules) { update(modules); }

  /// Adds the module, or puts it in the place of the one of that name. Names are not empty and have
  /// no dots (ValueError).
  template <detail::ContainedModule M>
  auto& insert(const std::string& name, M&& module) {
    auto owned = detail::owned(std::forward<M>(module));
    if (contains(name)) return replace(name, std::move(owned));
    return register_module(name, std::move(owned));
  }
  /// Adds those of another, or replaces what has their names.
  void update(std::initializer_list<NamedAnyModule> modules);
  /// IndexError, with the closest name, if there is none of that name.
  Module& operator[](std::string_view name) const { return get_submodule(name); }
  bool contains(std::string_view name) const;
  /// The number of modules.
  std::size_t size() const { return num_children(); }
  bool empty() const { return size() == 0; }
  std::vector<std::string> keys() const;
  std::vector<NamedModule> items() const { return named_children(); }
  /// Takes the module out.
  std::unique_ptr<Module> pop(std::string_view name) { return unregister_module(name); }
  /// Removes all.
  void clear();
};

/// Parameters named "0", "1", ..., which the optimizer and the state dict see as those of other
/// modules.
///
///   nn::ParameterList scales({ones({3}), ones({5})});
///   Tensor y = x * scales[0];
class ParameterList : public Cloneable<ParameterList> {
 public:
  ParameterList() = default;
  explicit ParameterList(std::vector<Tensor> parameters);

  /// Adds a parameter at the end.
  ParameterList& append(Tensor parameter);
  /// Adds parameters at the end.
  ParameterList& extend(std::vector<Tensor> parameters);
  /// The number of parameters.
  std::size_t size() const { return numbered_parameters().size(); }
  bool empty() const { return size() == 0; }
  /// Negative indices count from the end. IndexError outside.
  Tensor operator[](std::int64_t index) const;
};

/// Parameters by name, in the order in which they came: `ParameterDict({{"scale", ones({3})}})`.
/// Names are not empty and have no dots (ValueError).
class ParameterDict : public Cloneable<ParameterDict> {
 public:
  ParameterDict() = default;
  ParameterDict(std::initializer_list<NamedTensor> parameters);

  /// Adds the parameter, or puts it in the place of the one of that name.
  ParameterDict& insert(const std::string& name, Tensor parameter);
  /// IndexError, with the closest name, if there is none of that name.
  Tensor operator[](std::string_view name) const { return get_parameter(name); }
  bool contains(std::string_view name) const;
  /// The number of parameters.
  std::size_t size() const { return keys().size(); }
  bool empty() const { return size() == 0; }
  std::vector<std::string> keys() const;
  std::vector<NamedTensor> items() const;
  /// Removes the parameter of this name, and returns it.
  Tensor pop(std::string_view name) {
    Tensor parameter = get_parameter(name);
    unregister_tensor(name);
    return parameter;
  }
};

namespace detail {
/// `Other` is left out first: to ask whether it can be copied would ask for this concept again.
template <class F, class Other, class... Arguments>
concept CallableOnTensor = !std::same_as<F, Other> && std::copy_constructible<F> &&
                           std::is_invocable_r_v<Tensor, F&, const Tensor&, Arguments&...>;
}  // namespace detail

/// A function as a layer: `Sequential(Linear(4, 2), Functional(relu), Functional(f, 1))` for
/// `f = [](const Tensor& x, int dim) { return softmax(x, dim); }`. Its other arguments are all
/// given here: a function's default arguments do not hold.
class Functional : public Cloneable<Functional> {
 public:
  template <class F, class... Arguments>
  requires detail::CallableOnTensor<F, Functional, Arguments...>
  explicit Functional(F function, Arguments... arguments)
      : function_([=](const Tensor& x) mutable { return function(x, arguments...); }) {}
  Tensor forward(const Tensor& input) override { return function_(input); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};

/// Returns its input.
class Identity : public Cloneable<Identity> {
 public:
  Tensor forward(const Tensor& input) override { return input; }
};

}  // namespace ferrite::nn
