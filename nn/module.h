// Module: parameters, buffers and child modules in one registry, which moving, saving, loading,
// cloning and printing are based on.
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
// Modules are ordinary objects: they live on the stack or as members of other modules, and are
// moved into containers. The registry stores the offset of a member in its object instead of its
// address, so that it stays valid when the object is moved or cloned. The registry owns modules and
// tensors that are not members, such as the elements of lists.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ferrite/core/profiler/range.h"
#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/nn/hooks.h"

namespace ferrite::nn {

class Module;

namespace detail {
class SubstitutedTensors;
}

/// `for (auto& [name, p] : net.named_parameters())`; p.key() and p.value() in libtorch.
struct NamedTensor : std::pair<std::string, Tensor> {
  using pair::pair;
  NamedTensor(pair named) : pair(std::move(named)) {}
  /// The name.
  const std::string& key() const { return first; }
  /// The tensor.
  const Tensor& value() const { return second; }
};
/// `for (auto& [name, module] : net.named_modules())`; m.key() and m.value() in libtorch.
struct NamedModule : std::pair<std::string, Module*> {
  using pair::pair;
  NamedModule(pair named) : pair(std::move(named)) {}
  /// The name.
  const std::string& key() const { return first; }
  /// The module.
  Module* value() const { return second; }
};

/// How load_state_dict() treats names and shapes that differ.
struct LoadOptions {
  /// Whether missing or unexpected names are a ValueError; otherwise they are only reported.
  bool strict = true;
  /// Removed from names in the dict that begin with it: "module." for files that DataParallel
  /// saved.
  std::string strip_prefix = {};
  /// After stripping, prepended to names that do not begin with it: "module." to load weights saved
  /// without the wrapper into a wrapped model, "backbone." to load into a part of the model.
  std::string add_prefix = {};
  /// Whether tensors of another shape keep their values and are only reported, for example when
  /// fine-tuning with another number of classes; otherwise they are a ShapeError.
  bool skip_mismatched = false;
};

/// The result of loading. Names are the module's names; those of the dict are given after the
/// change of prefixes.
struct LoadReport {
  /// A tensor whose shape differs.
  struct Mismatch {
    std::string name;
    Shape expected;  ///< the shape of the module's tensor
    Shape got;       ///< the shape of the file's tensor
  };
  std::size_t loaded = 0;                        ///< tensors
  std::vector<std::string> missing, unexpected;  ///< only in the module, only in the dict
  std::vector<Mismatch> mismatched;              ///< in both, of different shapes, not loaded
  /// Whether nothing is missing, left over or of another shape.
  bool complete() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
  /// "loaded 120 tensors; 1 missing from the dict: fc.bias; ...".
  std::string str() const;
};

/// Parameters, buffers and child modules in one registry, by which a network is moved, saved,
/// loaded, cloned, printed and given to an optimizer. Networks derive from Cloneable<Net>.
///
///   class Net : public nn::Cloneable<Net> {
///    public:
///     Net() { register_module("fc", fc); }
///     Tensor forward(const Tensor& x) override { return fc(x); }
///     nn::Linear fc{784, 10};
///   };
class Module {
 public:
  virtual ~Module() = default;
  Module& operator=(const Module&) = delete;  // layers are assigned by move: net.fc = Linear(4, 2)

  /// Computes the module's output. The default throws Error; modules of several inputs declare
  /// other overloads.
  virtual Tensor forward(const Tensor& input);
  /// forward() with the hooks around it.
  Tensor operator()(const Tensor& input) {
    const profiler::detail::ModuleRange range(*this);
    return in_call([&] {
      if (has_hooks()) [[unlikely]]
        return forward_with_hooks(input);
      return forward_one(input);
    });
  }
  /// f() as a part of this module's call: errors that leave it and operations that it records on
  /// the tape have the module's path.
  template <class F>
  std::invoke_result_t<F> in_call(F&& f) const {
    if (outer_hooks_ && !autograd::detail::module_path) [[unlikely]]
      warn_of_skipped_hooks();
    const detail::CallScope scope(*this, call_path());
    try {
      return std::forward<F>(f)();
    } catch (Error& error) {
      error.set_path(call_path());
      throw;
    }
  }

  // ---- Forward hooks. As in PyTorch, they run when the module is called by `net(x)`, not by
  // `net.forward(x)`, which is the user's own function. If a part of the module then finds that
  // hooks around it did not run, mixed precision among them, it warns once. Containers and models
  // that fuse layers run layers with hooks one by one. Hooks belong to this object: they move with
  // it, and clone() does not copy them.
  /// `f` runs before every forward(), after the hooks registered before it. It is a ForwardPreHook
  /// (nn/hooks.h), or f(Module&, const Tensor& input), which sees only the first input and returns
  /// nothing or its replacement. Hooks do not see inputs that are not tensors.
  ModuleHook register_forward_pre_hook(ForwardPreHook f);
  template <std::invocable<Module&, const Tensor&> F>
  ModuleHook register_forward_pre_hook(F f) {
    return register_forward_pre_hook(
        detail::pre_hook_of_one(detail::returning_tensor(std::move(f))));
  }
  /// `f` runs after every forward(). It is a ForwardHook (nn/hooks.h), or f(Module&, const Tensor&
  /// input, const Tensor& output), which sees only the first input and output and returns nothing
  /// or a replacement of the output. Outputs are the tensors in the result, which may be a tensor,
  /// a pair, tuple, vector or optional, or a struct that consists of up to four tensors.
  ModuleHook register_forward_hook(ForwardHook f);
  template <std::invocable<Module&, const Tensor&, const Tensor&> F>
  ModuleHook register_forward_hook(F f) {
    return register_forward_hook(detail::hook_of_one(detail::returning_tensor(std::move(f))));
  }
  /// `f` runs in backward, when the gradients of what a call returned and of its inputs are known
  /// (BackwardHook in nn/hooks.h). If no input requires a gradient, it runs when those of the
  /// outputs are known. The module must live until backward (AutogradError).
  ModuleHook register_full_backward_hook(BackwardHook f);
  /// The object that `f` returns (nn/hooks.h) exists for the duration of a call, including its
  /// hooks: for example a guard of autocast or of a profiler range.
  ModuleHook register_forward_scope(ForwardScope f);
  /// Whether more than forward() runs when this module is called, regardless of its submodules.
  bool has_hooks() const { return (hooks_ && !hooks_->empty()) || computes_tensors_; }

  // ---- Contents. Names are paths: "layer1.0.conv1.weight". A tensor or module registered in
  // several places appears once, under its first name; undefined tensors do not appear.
  /// The parameters of this module and of all below it, in order of registration.
  std::vector<Tensor> parameters() const;
  /// The parameters of this module and of all below it, with names such as "layer1.0.conv1.weight".
  std::vector<NamedTensor> named_parameters() const;
  /// Those whose names fit `pattern`, which is that of requires_grad_(): `parameters("*.bias")`.
  std::vector<Tensor> parameters(std::string_view pattern) const;
  /// With `recurse` false, those of this module alone.
  template <std::same_as<bool> Recurse>
  std::vector<NamedTensor> named_parameters(Recurse recurse) const {
    std::vector<NamedTensor> all = named_parameters();
    if (!recurse)
      std::erase_if(all, [](const auto& p) { return p.key().find('.') != p.key().npos; });
    return all;
  }
  template <std::same_as<bool> Recurse>
  std::vector<Tensor> parameters(Recurse recurse) const {
    std::vector<Tensor> tensors;
    for (const NamedTensor& p : named_parameters(recurse)) tensors.push_back(p.value());
    return tensors;
  }
  /// The buffers of this module and of all below it, in order of registration.
  std::vector<Tensor> buffers() const;
  /// The buffers of this module and of all below it, with names such as
  /// "layer1.0.bn1.running_mean".
  std::vector<NamedTensor> named_buffers() const;
  /// The modules directly in this one.
  std::vector<Module*> children() const;
  /// The modules directly in this one, with their names.
  std::vector<NamedModule> named_children() const;
  /// This module under the name "", then all its submodules, parents first.
  std::vector<NamedModule> named_modules() const;
  /// This module and all below it; with a type, those of that type.
  std::vector<Module*> modules() const;
  /// The module with that path, such as "layer1.0.bn1"; "" is this one. Paths in a wrapper are
  /// those of the wrapped module. If there is no such path, throws IndexError, which names the
  /// closest one.
  Module& get_submodule(std::string_view path) const;
  /// The parameter or buffer of that path, "layer1.0.bn1.weight", under any name that it has.
  /// IndexError names the closest path if there is none.
  Tensor get_parameter(std::string_view path) const;
  /// The buffer at this path: IndexError, with the closest name, if there is none.
  Tensor get_buffer(std::string_view path) const;
  /// get_submodule() as the layer that it is: `net.get<nn::Linear>("fc").weight`. ValueError if the
  /// module is of another type, which the message names.
  template <std::derived_from<Module> M>
  M& get(std::string_view path) const {
    return get_submodule(path).template as<M>();
  }
  /// This module as the layer that it is: `net[0].as<nn::Conv2d>()`. ValueError if it is of another
  /// type.
  template <std::derived_from<Module> M>
  M& as() {
    if (M* const typed = dynamic_cast<M*>(this)) return *typed;
    fail_type(typeid(M));
  }
  /// Those of modules() that are an M, or derive from it, in the same order.
  template <std::derived_from<Module> M>
  std::vector<M*> modules() const {
    std::vector<M*> found;
    for (Module* const module : modules())
      if (M* const typed = dynamic_cast<M*>(module)) found.push_back(typed);
    return found;
  }
  /// The number of elements of all parameters.
  std::int64_t num_parameters() const;
  /// The number of elements of the parameters that require a gradient.
  std::int64_t num_trainable_parameters() const;

  /// Parameters and persistent buffers, detached from the tape, sharing memory with the module,
  /// under all of their names, preceded by `prefix`.
  StateDict state_dict(std::string_view prefix = {}) const;
  /// Copies the dict's values into the module's tensors, in place, converting dtype and device.
  /// A ShapeError names the tensor with the expected and the actual shape; complex values for a
  /// real tensor are a DTypeError. After an error, nothing has been copied. The buffer
  /// num_batches_tracked of a norm may be missing, also if strict, and then keeps its value.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {});
  /// load_state_dict(dict, {.strict = strict})
  template <std::same_as<bool> Strict>
  LoadReport load_state_dict(const StateDict& dict, Strict strict) {
    return load_state_dict(dict, LoadOptions{.strict = strict});
  }

  // ---- Operations on all tensors and modules. Most return *this.
  /// Calls `f` on every submodule, children first, then on this one.
  Module& apply(const std::function<void(Module&)>& f);
  /// Calls `f` with the path ("" for this one) and the module of named_modules().
  Module& apply(const std::function<void(const std::string&, Module&)>& f) {
    for (const NamedModule& named : named_modules()) f(named.key(), *named.value());
    return *this;
  }
  /// The same on those that are an M: `net.apply<nn::Linear>([](nn::Linear& l) { ... })`.
  template <std::derived_from<Module> M, std::invocable<M&> F>
  Module& apply(F f) {
    return apply([&f](Module& module) {
      if (M* const typed = dynamic_cast<M*>(&module)) f(*typed);
    });
  }
  /// Puts `module` in the place of the one at `path`, under its name, and returns it where it now
  /// is: `net.replace("fc", nn::Linear(512, 10))`. An element of a list, or a module that was given
  /// to the registry, may be replaced by any type; a member by its own type alone (ValueError). The
  /// new module keeps its device, mode and hooks. An optimizer made before still has the parameters
  /// of the old one.
  template <std::derived_from<Module> M>
  M& replace(std::string_view path, M module) {
    return replace(path, std::make_unique<M>(std::move(module)));
  }
  template <std::derived_from<Module> M>
  M& replace(std::string_view path, std::unique_ptr<M> module) {
    return static_cast<M&>(replace_module(path, std::move(module)));
  }
  /// Moves or converts parameters, buffers and gradients. Tensors keep their identity and get other
  /// memory (Tensor::set_data), so that existing optimizers and handles stay valid.
  Module& to(const Device& device, bool non_blocking = false);
  /// Floating-point tensors only.
  Module& to(DType dtype);
  Module& to(const Device& device, DType dtype);
  /// 4-dimensional tensors only.
  Module& to(MemoryFormat format);
  /// Moves parameters and buffers to the host, in place.
  Module& cpu() { return to(Device()); }
  /// To the current CUDA device.
  Module& cuda() { return to(Device(kCUDA)); }
  Module& cuda(int index) { return to(Device(kCUDA, index)); }
  /// Converts floating-point parameters and buffers to float16, in place.
  Module& half() { return to(kFloat16); }
  /// Converts floating-point parameters and buffers to bfloat16, in place.
  Module& bfloat16() { return to(kBFloat16); }
  /// Converts floating-point parameters and buffers to float32, in place. `float` is a keyword.
  Module& float_() { return to(kFloat32); }
  /// Converts floating-point parameters and buffers to float64, in place. `double` is a keyword.
  Module& double_() { return to(kFloat64); }

  /// Sets the mode of layers such as Dropout and BatchNorm. It does not affect whether gradients
  /// are computed; see NoGradGuard and requires_grad_.
  virtual Module& train(bool on = true);
  /// Evaluation mode: train(false).
  Module& eval() { return train(false); }
  /// The mode that train() or eval() set.
  bool is_training() const { return training_; }

  /// Freezes or unfreezes the parameters. A frozen parameter gets no gradient, and its current
  /// gradient is dropped, so that optimizers do not change it (not even by momentum or weight
  /// decay). Freezing does not affect buffers: a batch norm in training mode continues to update
  /// its running statistics and to normalise by those of the batch. eval() prevents that, until
  /// train() of a parent.
  Module& requires_grad_(bool on = true);
  /// The same for parameters by name: `pattern` is "*.bias", "layer1" or several separated by
  /// commas, "conv1, bn1, layer?.*.bn*". "*" matches any text, including dots, and "?" any
  /// character; the name of a submodule stands for all parameters in it. Returns the number of
  /// tensors that matched. If any pattern matches none, changes nothing and throws ValueError with
  /// the closest names.
  std::int64_t requires_grad_(bool on, std::string_view pattern);
  Module& requires_grad_(const char*) = delete;
  /// Drops the gradients; with `set_to_none` false, fills them with zeros, in place.
  Module& zero_grad(bool set_to_none = true);

  /// An independent deep copy, of the same type and on the same devices, without gradients. Tensors
  /// and modules that are shared inside this module are shared in the same way inside the copy.
  /// Members that are not registered are copied by their copy constructors. Throws Error unless the
  /// type derives from Cloneable.
  std::unique_ptr<Module> clone() const;
  /// A copy of this module and its submodules with other tensors: `f` maps each tensor of this
  /// module to that of the copy, and is called once per tensor, even if it is registered in several
  /// places. Hooks and modes are those of this module. Throws Error unless the type derives from
  /// Cloneable. Replicas are such copies.
  std::unique_ptr<Module> copy_with(const std::function<Tensor(const Tensor&)>& f) const;

  // ---- The registry. ValueError unless names are new in this module, not empty and without dots.
  // A module must not become part of itself, directly or indirectly (ValueError).
  /// The registry owns what it is given; the reference is valid as long as the module exists. A
  /// module that keeps it as a member cannot be cloned (Error), because it would refer to the
  /// original's; look the part up by get<M>(name) instead.
  template <class M>
  M& register_module(std::string name, std::unique_ptr<M> module) {
    M* given = module.get();
    take_module(std::move(name), std::move(module));  // throws if it is null
    return *given;
  }
  /// The same of a temporary: `auto& fc = net.register_module("fc", nn::Linear(4, 2))`.
  template <class M>
  requires std::derived_from<M, Module> M& register_module(std::string name, M&& module) {
    return register_module(std::move(name), std::make_unique<M>(std::move(module)));
  }
  /// PyTorch's name.
  template <class M>
  requires(!std::is_lvalue_reference_v<M>) auto& add_module(std::string name, M&& module) {
    return register_module(std::move(name), std::move(module));
  }
  /// Makes a parameter that is no member: the module owns it. Returns it.
  Tensor& add_parameter(std::string name, Tensor parameter, bool requires_grad = true);
  /// Makes a buffer that is no member: the module owns it. Returns it.
  Tensor& add_buffer(std::string name, Tensor buffer, bool persistent = true);
  /// Takes what is called `name` off the registry, which must own it if it is a module, and
  /// returns that module. IndexError if there is none of that name.
  std::unique_ptr<Module> unregister_module(std::string_view name);
  /// The parameter or buffer of this name is no longer in the registry.
  void unregister_tensor(std::string_view name);
  /// From now on the parameter `name` of this module is no parameter: `compute` gives it before
  /// each call, from other parameters. Clones and replicas compute theirs in the same way.
  void compute_before_forward(std::string_view name, std::function<Tensor(Module&)> compute);
  /// Makes it a parameter again, of the value that it has.
  void stop_computing(std::string_view name);

  // ---- Printing
  /// The class name, without namespaces.
  virtual std::string name() const { return name_of(typeid(*this)); }
  /// A type's name without namespaces.
  static std::string name_of(const std::type_info& type);
  /// The text between the parentheses: "in_features=4, out_features=2, bias=True".
  virtual std::string extra_repr() const { return {}; }
  /// The module tree in PyTorch's format. `<<` adds a line with the number of parameters.
  std::string str() const;
  /// Multiply-adds of a forward() with these inputs and outputs, for nn::summary, without those of
  /// submodules. Layers that compute products override it. The default is 0, or nullopt (unknown)
  /// if the module itself has a parameter of two or more dimensions.
  virtual std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                                    std::span<const Tensor> outputs) const;

 protected:
  Module() = default;
  /// A module that holds a reference or a pointer to a child that is its member must set it anew in
  /// its move constructor, as C++ does not: else the first use of the moved module warns.
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  /// Only for clone(); throws Error for accidental copies.
  Module(const Module& other);

  // A tensor or module registered by reference must be a member of the object (ValueError). An
  // undefined tensor may be registered for one that is absent, such as a layer's bias.
  /// Makes a member a parameter, under this name.
  void register_parameter(std::string name, Tensor& member, bool requires_grad = true);
  /// Non-persistent buffers are not in state_dict().
  void register_buffer(std::string name, Tensor& member, bool persistent = true);
  void register_module(std::string name, Module& member);
  /// Makes this module a wrapper of `module`, which it does not own and which must outlive it. The
  /// parameters, buffers and submodules of `module` have the same names in the wrapper, such as
  /// "fc.weight"; load_state_dict() also accepts names with the prefix "module.", with which
  /// PyTorch's wrappers save them. Cloning a wrapper throws Error, because the clone would share
  /// the wrapped module. ValueError if this module already wraps one, or for itself.
  void wrap_module(Module& module);

  /// Implemented by Cloneable: calls the forward() of one tensor that the class itself declares,
  /// which may hide the virtual one: `Tensor forward(Tensor x)`.
  virtual Tensor forward_one(const Tensor& input) { return forward(input); }
  /// Implemented by Cloneable: copies this object with shared handles, and gives its address and
  /// size.
  virtual std::unique_ptr<Module> copy() const;
  /// The bytes of the object, in which members lie.
  virtual std::span<const std::byte> memory() const { return {}; }
  /// Cloneable's: moves `other`, which is of this type, into this object.
  virtual void assign(Module& other);

  /// Number `index` of children().
  Module& child(std::size_t index) const;
  /// The number of children().
  std::size_t num_children() const;
  /// Puts the last of children() in the place of number `index`, before the one that is there.
  void move_last_child(std::size_t index);
  /// Names the children "0", "1", ... in their order.
  void number_children();
  /// The first number from `first` on that is not the name of a part.
  std::string free_number(std::size_t first);
  /// The parameters of this module alone whose names are numbers, in the order of these.
  std::vector<const Tensor*> numbered_parameters() const;
  /// The parameter or buffer of this name in this module itself, also if it is computed from others
  /// (compute_before_forward). IndexError if there is none.
  const Tensor& own_tensor(std::string_view name) const;
  /// The registered hooks.
  const detail::Hooks& hooks() const;

 private:
  enum class Kind : std::uint8_t { parameter, buffer, temporary_buffer, computed, module };
  using Compute = std::function<Tensor(Module&)>;
  struct Entry {
    std::string name;
    Kind kind;
    std::ptrdiff_t offset = 0;  // of a member, from this
    std::unique_ptr<Tensor> tensor = {};
    std::unique_ptr<Module> module = {};
    Module* wrapped = nullptr;  // not owned, and the name is empty
    std::shared_ptr<const Compute> compute = {};
  };
  using Memo = std::unordered_map<const TensorImpl*, Tensor>;
  /// The address of a registered child, which an object holds at `offset`.
  struct ChildReference {
    std::size_t offset;
    const std::byte* child;
    std::string name;
  };

  /// The path in the outermost of the modules whose call led to this one's, when it got one; it
  /// lives as long as the process.
  const char* call_path() const {
    const char* const path = call_path_.load(std::memory_order_relaxed);
    return path ? path : name_calls();
  }
  const char* name_calls() const;
  void forget_call_paths() const;
  void become_part();
  [[noreturn]] void fail_type(const std::type_info& expected) const;
  std::vector<Tensor> parameters_like(std::string_view pattern, const char* op) const;
  Module& replace_module(std::string_view path, std::unique_ptr<Module> module);
  Tensor find_tensor(std::string_view path, bool parameter) const;
  void take_module(std::string name, std::unique_ptr<Module> module);
  void check_name(std::string_view name);
  void collect_tensors(bool parameters, std::unordered_set<const TensorImpl*>& seen,
                       std::vector<Tensor>& out) const;
  bool has_part(std::string_view name);
  Entry& add_entry(Entry entry);
  void erase_entry(const Entry& entry);
  /// The part of this module with that name, or null.
  Entry* find_entry(std::string_view name) const;
  void check_no_cycle(const Module& child, std::string_view name) const;
  std::ptrdiff_t offset_of(const void* member, std::string_view name) const;
  Tensor& tensor_of(const Entry& entry) const;
  Module& module_of(const Entry& entry) const;
  Module* wrapped() const;
  void replace_tensors(const std::function<Tensor(const Tensor&)>& f, Memo& replaced);
  void share_hooks(const Module& other);
  void check_own_children(const Module& original) const;
  std::vector<ChildReference> child_references(const Module& object, bool owned) const;
  bool holds(const ChildReference& reference) const;
  void note_child_references(Module& other);
  void warn_of_moved_references() const;
  Tensor forward_with_hooks(const Tensor& input);
  const std::shared_ptr<detail::Hooks>& own_hooks();
  void warn_of_skipped_hooks() const;
  using Visitor = std::function<void(const std::string& path, Kind kind, const Tensor& tensor)>;
  void for_each_tensor(const std::string& prefix, const Visitor& f) const;
  std::vector<NamedTensor> named_tensors(bool parameters) const;
  Module& convert(const std::function<Tensor(const Tensor&)>& f);

  friend class detail::BackwardHookNodes;
  friend class detail::SubstitutedTensors;
  friend void detail::compute_tensors(Module& module);

  std::vector<Entry> registry_;
  std::unique_ptr<std::set<std::string, std::less<>>> names_;  // of the registry, if it is long
  std::shared_ptr<detail::Hooks> hooks_;  // null until the first hook; handles also refer to it
  std::shared_ptr<const detail::Hooks>
      outer_hooks_;  // of a module of which this is a part, or null
  bool training_ = true;
  bool computes_tensors_ = false;
  bool has_tensors_ = false;                              // or had; in the registry
  bool is_part_ = false;                                  // of the module that registered it
  mutable std::atomic<const char*> call_path_ = nullptr;  // set by the first call
  detail::ModuleAddress address_;
  std::unique_ptr<std::vector<ChildReference>> moved_;  // null but after a move with such addresses
};

std::ostream& operator<<(std::ostream& out, const Module& module);

/// Base of modules that can be cloned, and called with the arguments of any of their forward()
/// overloads: `class Net : public Cloneable<Net>`, or, to derive from another module, `class Net18
/// : public Cloneable<Net18, Net>`.
template <class Derived, class Base = Module>
class Cloneable : public Base {
 public:
  using Base::Base;

  // Self, so that nothing looks into Derived while it is incomplete (Clang 14 would).
  /// Calls forward() with the hooks around it.
  template <class... Inputs, class Self = Derived>
  requires requires(Self& module, Inputs&&... inputs) {
    module.forward(std::forward<Inputs>(inputs)...);
  }
  auto operator()(Inputs&&... inputs) {
    const profiler::detail::ModuleRange range(*this);
    Derived& self = static_cast<Derived&>(*this);
    return this->in_call([&] {
      if (Module::has_hooks()) [[unlikely]]
        return detail::call_hooked(
            Module::hooks(), self,
            [&](auto&&... x) { return self.forward(std::forward<decltype(x)>(x)...); },
            std::forward<Inputs>(inputs)...);
      return self.forward(std::forward<Inputs>(inputs)...);
    });
  }
  /// A copy with tensors of its own.
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
  /// The bytes of the object, in which members lie.
  std::span<const std::byte> memory() const override {
    return {reinterpret_cast<const std::byte*>(static_cast<const Derived*>(this)), sizeof(Derived)};
  }
  void assign(Module& other) override {
    if constexpr (std::is_move_assignable_v<Derived>)
      static_cast<Derived&>(*this) = std::move(static_cast<Derived&>(other));
    else
      Module::assign(other);
  }
};

}  // namespace ferrite::nn
