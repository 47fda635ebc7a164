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

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/state_dict.h"
#include "core/tensor.h"

namespace ferrite::nn {

class Module;

using NamedTensor = std::pair<std::string, Tensor>;
using NamedModule = std::pair<std::string, Module*>;

struct LoadOptions {
  /// Whether a missing or unexpected name is a ValueError; else they are only reported.
  bool strict = true;
  /// Taken off the names in the dict that begin with it: "module." for what DataParallel saved.
  std::string strip_prefix = {};
};

/// Names the module has and the dict lacks, and the other way round.
struct LoadReport {
  std::vector<std::string> missing, unexpected;
  bool complete() const { return missing.empty() && unexpected.empty(); }
};

class Module {
 public:
  virtual ~Module() = default;
  Module& operator=(const Module&) = delete;

  /// What the module computes. The default throws: modules of several inputs have forms of their
  /// own.
  virtual Tensor forward(const Tensor& input);
  Tensor operator()(const Tensor& input) { return forward(input); }

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
  std::int64_t num_parameters() const;
  /// Of those that require a gradient.
  std::int64_t num_trainable_parameters() const;

  /// Parameters and persistent buffers, off the tape, sharing memory with the module; under every
  /// name they have.
  StateDict state_dict() const;
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

  /// Freezes the parameters, or frees them.
  Module& requires_grad_(bool on = true);
  /// Fills gradients with zeros, in place; `set_to_none` drops them instead.
  Module& zero_grad(bool set_to_none = false);

  /// An independent deep copy, of the same type and on the same devices, without gradients. Tensors
  /// and modules that are shared inside this module are shared in the same way inside the copy.
  /// Members that are not registered are copied as C++ copies them. The type must derive from
  /// Cloneable (Error).
  std::unique_ptr<Module> clone() const;

  // ---- What it looks like
  /// The class name, without namespaces.
  virtual std::string name() const { return name_of(typeid(*this)); }
  static std::string name_of(const std::type_info& type);
  /// What stands between the parentheses: "in_features=4, out_features=2, bias=True".
  virtual std::string extra_repr() const { return {}; }
  /// The tree as PyTorch prints it. `<<` adds a line that counts the parameters.
  std::string str() const;

 protected:
  Module() = default;
  Module(Module&&) noexcept = default;
  /// Only for clone(): throws Error where a module is copied by accident.
  Module(const Module& other);

  // Names must be new in this module, not empty and without dots (ValueError). What is registered
  // by reference must be a member of the object (ValueError); an undefined tensor takes the name of
  // one that is absent, as a layer's bias.
  void register_parameter(std::string name, Tensor& member, bool requires_grad = true);
  /// Non-persistent buffers are not in state_dict().
  void register_buffer(std::string name, Tensor& member, bool persistent = true);
  void register_module(std::string name, Module& member);
  /// The registry owns what it is given; the reference is good as long as the module.
  Tensor& add_parameter(std::string name, Tensor parameter, bool requires_grad = true);
  Tensor& add_buffer(std::string name, Tensor buffer, bool persistent = true);
  template <class M>
  M& register_module(std::string name, std::unique_ptr<M> module) {
    M* given = module.get();
    add_module(std::move(name), std::move(module));  // throws where it is null
    return *given;
  }

  /// Cloneable's: copies this object with handles shared, and tells where it lies in memory.
  virtual std::unique_ptr<Module> copy() const;
  virtual std::span<const std::byte> memory() const { return {}; }

 private:
  enum class Kind : std::uint8_t { parameter, buffer, temporary_buffer, module };
  struct Entry {
    std::string name;
    Kind kind;
    std::ptrdiff_t offset = 0;  // of a member, from this
    std::unique_ptr<Tensor> tensor = {};
    std::unique_ptr<Module> module = {};
  };
  using Memo = std::unordered_map<const TensorImpl*, Tensor>;

  void add_module(std::string name, std::unique_ptr<Module> module);
  void check_name(std::string_view name) const;
  std::ptrdiff_t offset_of(const void* member, std::string_view name) const;
  Tensor& tensor_of(const Entry& entry) const;
  Module& module_of(const Entry& entry) const;
  void own_tensors(Memo& copies);
  template <class F>
  void for_each_tensor(const std::string& prefix, F&& f) const;
  std::vector<NamedTensor> named_tensors(bool parameters) const;
  Module& convert(const std::function<Tensor(const Tensor&)>& f);

  std::vector<Entry> registry_;
  bool training_ = true;
};

std::ostream& operator<<(std::ostream& out, const Module& module);

/// Base of modules that can be cloned: `class Net : public Cloneable<Net>`; of one that derives
/// from another module: `class Net18 : public Cloneable<Net18, Net>`.
template <class Derived, class Base = Module>
class Cloneable : public Base {
 public:
  using Base::Base;

  template <class... Inputs>
  requires requires(Derived& module, Inputs&&... inputs) {
    module.forward(std::forward<Inputs>(inputs)...);
  }
  decltype(auto) operator()(Inputs&&... inputs) {
    return static_cast<Derived&>(*this).forward(std::forward<Inputs>(inputs)...);
  }
  std::unique_ptr<Derived> clone() const {
    return std::unique_ptr<Derived>(static_cast<Derived*>(Module::clone().release()));
  }

 protected:
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
