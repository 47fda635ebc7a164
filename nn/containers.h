// Lists of modules, which they own: Sequential and ModuleList.
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "ferrite/nn/module.h"

namespace ferrite::nn {

/// A module passed by value: a temporary, or the result of std::move.
template <class M>
concept ModuleValue = std::derived_from<M, Module>;  // fails for lvalues, whose M is a reference

/// Modules named "0", "1", ...
class ModuleContainer : public Module {
 public:
  template <ModuleValue M>
  M& push_back(M&& module) {
    return push_back(std::make_unique<M>(std::move(module)));
  }
  template <std::derived_from<Module> M>
  M& push_back(std::unique_ptr<M> module) {
    return register_module(std::to_string(size_++), std::move(module));
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  /// IndexError unless index < size().
  Module& operator[](std::size_t index) const;

 protected:
  ModuleContainer() = default;

 private:
  std::size_t size_ = 0;
};

/// Runs its modules one after another: `Sequential(Conv2d(1, 6, 5), ReLU(), Flatten())`. Takes
/// modules by value (temporaries or std::move) and as std::unique_ptr. Consecutive layers without
/// hooks run as one op where nn/fused.h supports it.
class Sequential : public Cloneable<Sequential, ModuleContainer> {
 public:
  Sequential() = default;
  template <class... Modules>
  requires(sizeof...(Modules) > 0 &&
           (!std::is_reference_v<Modules> && ...)) explicit Sequential(Modules&&... modules) {
    (push_back(std::move(modules)), ...);
  }

  Tensor forward(const Tensor& input) override;
};

/// Holds modules in order, without a forward() of its own.
class ModuleList : public Cloneable<ModuleList, ModuleContainer> {
 public:
  ModuleList() = default;
  template <class... Modules>
  requires(sizeof...(Modules) > 0 &&
           (!std::is_reference_v<Modules> && ...)) explicit ModuleList(Modules&&... modules) {
    (push_back(std::move(modules)), ...);
  }
};

/// Returns its input.
class Identity : public Cloneable<Identity> {
 public:
  Tensor forward(const Tensor& input) override { return input; }
};

}  // namespace ferrite::nn
