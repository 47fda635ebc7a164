// Module: parameters, buffers and child modules under one registry, from which everything that
// handles them all is made: moving, saving, loading, cloning, printing.
//
//   class Net : public nn::Cloneable<Net> {
//    public:
//     Net() {
//       register_module("conv", conv_);
//       register_module("fc", fc_);
//     }
//     Tensor forward(const Tensor& x) override { return fc_(relu(conv_(x)).flatten(1)); }
//
//    private:
//     nn::Conv2d conv_{1, 8, 3};
//     nn::Linear fc_{8 * 26 * 26, 10};
//   };
//
// Modules are plain objects: on the stack, as members of other modules, moved where a container or
// a caller takes them over. The registry keeps where in its object a member lies, not its address,
// so that it is right in whatever object the members were moved or cloned to. What is not a member
// (the elements of lists) is given to the registry, which then owns it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ferrite/core/profiler/range.h"
#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/nn/hooks.h"

namespace ferrite::nn {

class Module;

using NamedTensor = std::pair<std::string, Tensor>;
using NamedModule = std::pair<std::string, Module*>;

struct LoadOptions {
  /// Whether a missing or unexpected name is a ValueError; else they are only reported.
  bool strict = true;
  /// Taken off the names in the dict that begin with it: "module." for what DataParallel saved.
  std::string strip_prefix = {};
  /// Put before the names that do not begin with it, after stripping: "module." to load into a
  /// wrapped model what was saved without the wrapper, "backbone." to load into a part.
  std::string add_prefix = {};
  /// Whether tensors of another shape keep their values and are reported, as in fine-tuning with
  /// another number of classes; else they are a ShapeError.
  bool skip_mismatched = false;
};

/// What loading found: names as the module has them, those of the dict after prefixes were changed.
struct LoadReport {
  struct Mismatch {
    std::string name;
    Shape expected, got;
  };
  std::size_t loaded = 0;                        ///< tensors
  std::vector<std::string> missing, unexpected;  ///< of the module alone, of the dict alone
  std::vector<Mismatch> mismatched;  ///< in both, of different shapes, left as they were
  bool complete() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
  /// "loaded 120 tensors; 1 missing from the dict: fc.bias; ...".
  std::string str() const;
};

class Module {
 public:
  virtual ~Module() = default;
  Module& operator=(const Module&) = delete;

  /// What the module computes. The default throws: modules of several inputs have forms of their
  /// own.
  virtual Tensor forward(const Tensor& input);
  /// forward() with the hooks around it.
  Tensor operator()(const Tensor& input) {
    const profiler::detail::ModuleRange range(*this);
    if (has_hooks()) [[unlikely]]
      return forward_with_hooks(input);
    return forward_one(input);
  }

  // ---- Forward hooks. They run where the module is called, as PyTorch's: `net(x)`, not
  // `net.forward(x)`. What runs layers as one op (Sequential, the models) runs those that have
  // hooks one by one. Hooks belong to this object: they are moved with it, and clone() leaves them.
  /// `f` runs before every forward(), after the hooks registered before it. It is a ForwardPreHook
  /// (nn/hooks.h), or sees the first input alone, f(Module&, const Tensor& input), and returns
  /// nothing or the tensor to take its place. Inputs that are not tensors are not shown.
  ModuleHook register_forward_pre_hook(ForwardPreHook f);
  template <std::invocable<Module&, const Tensor&> F>
  ModuleHook register_forward_pre_hook(F f) {
    return register_forward_pre_hook(
        detail::pre_hook_of_one(detail::returning_tensor(std::move(f))));
  }
  /// `f` runs after every forward(). It is a ForwardHook (nn/hooks.h), or sees the first input and
  /// output alone, f(Module&, const Tensor& input, const Tensor& output), and returns nothing or
  /// the tensor to take the output's place. Outputs are the tensors in the result: itself, those of
  /// a pair, tuple, vector or optional, those of a struct of up to four tensors and nothing else.
  ModuleHook register_forward_hook(ForwardHook f);
  template <std::invocable<Module&, const Tensor&, const Tensor&> F>
  ModuleHook register_forward_hook(F f) {
    return register_forward_hook(detail::hook_of_one(detail::returning_tensor(std::move(f))));
  }
  /// What `f` returns (nn/hooks.h) lasts as long as a call, hooks included: a guard of autocast, of
  /// a profiler's range.
  ModuleHook register_forward_scope(ForwardScope f);
  /// Of this module, not of those below it.
  bool has_hooks() const { return hooks_ && !hooks_->empty(); }

  // ---- What it holds. Names are paths: "layer1.0.conv1.weight". A tensor or module registered in
  // several places appears once, under its first name; undefined tensors do not appear.
  std::vector<Tensor> parameters() const;
  std::vector<NamedTensor> named_parameters() const;
  std::vector<Tensor> buffers() const;
  std::vector<NamedTensor> named_buffers() const;
  std::vector<Module*> children() const;
  std::vector<NamedModule> named_children() const;
  /// This module under the name "", then all below it, parents first.
  std::vector<NamedModule> named_modules() const;
  std::vector<Module*> modules() const;
  /// The module of that path, "layer1.0.bn1"; "" is this one; paths in a wrapper are those in what
  /// it wraps. IndexError names the closest path where there is none.
  Module& get_submodule(std::string_view path) const;
  std::int64_t num_parameters() const;
  /// Of those that require a gradient.
  std::int64_t num_trainable_parameters() const;

  /// Parameters and persistent buffers, off the tape, sharing memory with the module; under every
  /// name they have, behind `prefix`.
  StateDict state_dict(std::string_view prefix = {}) const;
  /// Copies the dict's values into the module's tensors, in place, converting dtype and device.
  /// ShapeError names the tensor, with what was expected and what was got. Where anything is wrong
  /// nothing is copied.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {});

  // ---- What is done to all of it; all return *this.
  /// Calls `f` on every module below, children first, then on this one.
  Module& apply(const std::function<void(Module&)>& f);
  /// Moves or converts parameters, buffers and gradients. The tensors stay the same tensors with
  /// other memory (Tensor::set_data), so that optimizers and handles made before follow.
  Module& to(const Device& device, bool non_blocking = false);
  /// Floating-point tensors only.
  Module& to(DType dtype);
  Module& to(const Device& device, DType dtype);
  /// 4-dimensional tensors only.
  Module& to(MemoryFormat format);
  Module& cpu() { return to(Device()); }

  /// Sets how layers such as Dropout and BatchNorm behave. Whether gradients are computed is
  /// another matter: NoGradGuard, requires_grad_.
  virtual Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }

  /// Freezes the parameters, or frees them. A frozen parameter gets no gradient, and the one that
  /// it has is dropped, so that optimizers leave it alone (momentum and weight decay too). Freezing
  /// does not touch buffers: a batch norm in training goes on updating its running statistics, and
  /// normalises by those of the batch, until it is in eval() mode, which train() of a parent ends.
  Module& requires_grad_(bool on = true);
  /// The same for parameters by name: `pattern` is "*.bias", "layer1" or several with commas
  /// between, "conv1, bn1, layer?.*.bn*". "*" is any text, dots included, and "?" any character;
  /// the name of a submodule stands for all below it. Returns how many tensors matched. ValueError,
  /// with the closest names, where any of the patterns matches none; then nothing is changed.
  std::int64_t requires_grad_(bool on, std::string_view pattern);
  Module& requires_grad_(const char*) = delete;
  /// Fills gradients with zeros, in place; `set_to_none` drops them instead.
  Module& zero_grad(bool set_to_none = false);

  /// An independent deep copy, of the same type and on the same devices, without gradients. Tensors
  /// and modules that are shared inside this module are shared in the same way inside the copy.
  /// Members that are not registered are copied as C++ copies them. The type must derive from
  /// Cloneable (Error).
  std::unique_ptr<Module> clone() const;
  /// A copy of the object, and of all below it, on other tensors: those that `f` gives for this
  /// module's, asked once for each, be it in several places. Hooks and modes are this module's.
  /// The type must derive from Cloneable (Error). Replicas are such copies.
  std::unique_ptr<Module> copy_with(const std::function<Tensor(const Tensor&)>& f) const;

  // ---- What it looks like
  /// The class name, without namespaces.
  virtual std::string name() const { return name_of(typeid(*this)); }
  static std::string name_of(const std::type_info& type);
  /// What stands between the parentheses: "in_features=4, out_features=2, bias=True".
  virtual std::string extra_repr() const { return {}; }
  /// The tree as PyTorch prints it. `<<` adds a line that counts the parameters.
  std::string str() const;
  /// Multiply-adds of a forward() from these inputs to these outputs, for nn::summary; those of
  /// modules below are not among them. Layers that are products override it. The default is 0, or
  /// not known where the module itself has a parameter of two or more dimensions.
  virtual std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                                    std::span<const Tensor> outputs) const;

 protected:
  Module() = default;
  Module(Module&&) noexcept = default;
  /// Only for clone(): throws Error where a module is copied by accident.
  Module(const Module& other);

  // Names must be new in this module, not empty and without dots, and no module may become part of
  // itself, be it through others (ValueError). What is registered
  // by reference must be a member of the object (ValueError); an undefined tensor takes the name of
  // one that is absent, as a layer's bias.
  void register_parameter(std::string name, Tensor& member, bool requires_grad = true);
  /// Non-persistent buffers are not in state_dict().
  void register_buffer(std::string name, Tensor& member, bool persistent = true);
  void register_module(std::string name, Module& member);
  /// The registry owns what it is given; the reference is good as long as the module. A module that
  /// keeps it as a member cannot be cloned (Error): in the copy it would refer to the original's.
  Tensor& add_parameter(std::string name, Tensor parameter, bool requires_grad = true);
  Tensor& add_buffer(std::string name, Tensor buffer, bool persistent = true);
  template <class M>
  M& register_module(std::string name, std::unique_ptr<M> module) {
    M* given = module.get();
    add_module(std::move(name), std::move(module));  // throws where it is null
    return *given;
  }
  /// Makes this module a wrapper: `module`, which is another's and must live longer, is its child
  /// without a name. Its parameters, buffers and modules have in the wrapper the names that they
  /// have in it, "fc.weight"; and load_state_dict() takes names with "module." before them too, as
  /// PyTorch's wrappers save them. A wrapper is not cloned, as what it wraps would be shared
  /// (Error). ValueError where it wraps one already, or itself.
  void wrap_module(Module& module);

  /// Cloneable's: the forward() that the class itself has of one tensor, which may hide the virtual
  /// one: `Tensor forward(Tensor x)`.
  virtual Tensor forward_one(const Tensor& input) { return forward(input); }
  /// Cloneable's: copies this object with handles shared, and tells where it lies in memory.
  virtual std::unique_ptr<Module> copy() const;
  virtual std::span<const std::byte> memory() const { return {}; }

  const detail::Hooks& hooks() const { return *hooks_; }

 private:
  enum class Kind : std::uint8_t { parameter, buffer, temporary_buffer, module };
  struct Entry {
    std::string name;
    Kind kind;
    std::ptrdiff_t offset = 0;  // of a member, from this
    std::unique_ptr<Tensor> tensor = {};
    std::unique_ptr<Module> module = {};
    Module* wrapped = nullptr;  // not owned, and the name is empty
  };
  using Memo = std::unordered_map<const TensorImpl*, Tensor>;

  void add_module(std::string name, std::unique_ptr<Module> module);
  void check_name(std::string_view name) const;
  void check_no_cycle(const Module& child, std::string_view name) const;
  std::ptrdiff_t offset_of(const void* member, std::string_view name) const;
  Tensor& tensor_of(const Entry& entry) const;
  Module& module_of(const Entry& entry) const;
  Module* wrapped() const;
  void replace_tensors(const std::function<Tensor(const Tensor&)>& f, Memo& replaced);
  void share_hooks(const Module& other);
  void check_own_children(const Module& original) const;
  Tensor forward_with_hooks(const Tensor& input);
  const std::shared_ptr<detail::Hooks>& own_hooks();
  using Visitor = std::function<void(const std::string& path, Kind kind, const Tensor& tensor)>;
  void for_each_tensor(const std::string& prefix, const Visitor& f) const;
  std::vector<NamedTensor> named_tensors(bool parameters) const;
  Module& convert(const std::function<Tensor(const Tensor&)>& f);

  std::vector<Entry> registry_;
  std::shared_ptr<detail::Hooks> hooks_;  // null until there is one; handles know it too
  bool training_ = true;
};

std::ostream& operator<<(std::ostream& out, const Module& module);

/// Base of modules that can be cloned, and called with whatever their forward() takes:
/// `class Net : public Cloneable<Net>`; of one that derives from another module:
/// `class Net18 : public Cloneable<Net18, Net>`.
template <class Derived, class Base = Module>
class Cloneable : public Base {
 public:
  using Base::Base;

  // Self, so that nothing looks into Derived while it is incomplete (Clang 14 would).
  template <class... Inputs, class Self = Derived>
  requires requires(Self& module, Inputs&&... inputs) {
    module.forward(std::forward<Inputs>(inputs)...);
  }
  auto operator()(Inputs&&... inputs) {
    const profiler::detail::ModuleRange range(*this);
    Derived& self = static_cast<Derived&>(*this);
    if (Module::has_hooks()) [[unlikely]]
      return detail::call_hooked(
          Module::hooks(), self,
          [&](auto&&... x) { return self.forward(std::forward<decltype(x)>(x)...); },
          std::forward<Inputs>(inputs)...);
    return self.forward(std::forward<Inputs>(inputs)...);
  }
  std::unique_ptr<Derived> clone() const {
    return std::unique_ptr<Derived>(static_cast<Derived*>(Module::clone().release()));
  }

 protected:
  Tensor forward_one(const Tensor& input) override {
    if constexpr (requires(Derived & module) {
                    { module.forward(input) } -> std::convertible_to<Tensor>;
                  })
      return static_cast<Derived&>(*this).forward(input);
    else
      return Base::forward_one(input);
  }
  std::unique_ptr<Module> copy() const override {
    FERRITE_CHECK(typeid(*this) == typeid(Derived), Error, "clone",
                  "{} derives from {}, whose clone it would be; derive from Cloneable<{}, ...>",
                  this->name(), Module::name_of(typeid(Derived)), this->name());
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
  std::span<const std::byte> memory() const override {
    return {reinterpret_cast<const std::byte*>(static_cast<const Derived*>(this)), sizeof(Derived)};
  }
};

}  // namespace ferrite::nn
