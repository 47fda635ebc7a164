#include "ferrite/nn/module.h"

#include <algorithm>
#include <unordered_set>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/zero_grad.h"
#include "ferrite/core/closest.h"
#include "ferrite/core/profiler/records.h"

namespace ferrite::nn {

namespace {

/// Registries that are longer have an index of their names, so that n registrations take
/// O(n log n).
constexpr std::size_t kMostSearched = 64;

std::string path(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : name.empty() ? prefix : prefix + "." + name;
}

}  // namespace

// ---- Registry

bool Module::has_part(std::string_view name) {
  const bool is_long = registry_.size() > kMostSearched;
  // The names differ in number after a copy, a move or an error.
  if (is_long && (!names_ || names_->size() != registry_.size())) {
    auto names = std::make_unique<std::set<std::string, std::less<>>>();
    for (const Entry& e : registry_) names->insert(e.name);
    names_ = std::move(names);
  }
  return is_long ? names_->contains(name) : find_entry(name) != nullptr;
}

void Module::check_name(std::string_view name) {
  FERRITE_CHECK(
      !name.empty() && name.find('.') == std::string_view::npos, ValueError, "module",
      "'{}' is not a valid name for a part of {}: names must not be empty or contain dots", name,
      this->name());
  FERRITE_CHECK(!has_part(name), ValueError, "module", "{} has a part named '{}' already",
                this->name(), name);
}

/// Adds an entry whose name has been checked.
Module::Entry& Module::add_entry(Entry entry) {
  registry_.push_back(std::move(entry));
  if (names_) names_->insert(registry_.back().name);
  return registry_.back();
}

void Module::erase_entry(const Entry& entry) {
  if (names_) names_->erase(entry.name);
  registry_.erase(registry_.begin() + (&entry - registry_.data()));
}

Module::Entry* Module::find_entry(std::string_view name) const {
  const auto entry = std::ranges::find(registry_, name, &Entry::name);
  return entry == registry_.end() ? nullptr : const_cast<Entry*>(&*entry);
}

void Module::check_no_cycle(const Module& child, std::string_view name) const {
  FERRITE_CHECK(&child != this, ValueError, "module",
                "'{}' of {} would be the module itself; a module cannot be part of itself", name,
                this->name());
  const std::vector<Module*> below = child.modules();
  FERRITE_CHECK(std::ranges::find(below, this) == below.end(), ValueError, "module",
                "'{}', a {}, has this {} among its own modules; a module cannot be part of itself",
                name, child.name(), this->name());
}

std::ptrdiff_t Module::offset_of(const void* member, std::string_view name) const {
  const auto* p = static_cast<const std::byte*>(member);
  const std::span<const std::byte> object = memory();
  FERRITE_CHECK(
      object.empty() || (p >= object.data() && p < object.data() + object.size()), ValueError,
      "module",
      "'{}' is registered by reference but is not a member of {}; give it to the registry "
      "(register_module(name, std::make_unique<...>), add_parameter, add_buffer)",
      name, this->name());
  return p - reinterpret_cast<const std::byte*>(this);
}

Tensor& Module::tensor_of(const Entry& e) const {
  if (e.tensor) return *e.tensor;
  const auto* at = reinterpret_cast<const std::byte*>(this) + e.offset;
  return *const_cast<Tensor*>(reinterpret_cast<const Tensor*>(at));
}

Module& Module::module_of(const Entry& e) const {
  if (e.module) return *e.module;
  if (e.wrapped) return *e.wrapped;
  const auto* at = reinterpret_cast<const std::byte*>(this) + e.offset;
  return *const_cast<Module*>(reinterpret_cast<const Module*>(at));
}

void Module::register_parameter(std::string name, Tensor& member, bool requires_grad) {
  check_name(name);
  const std::ptrdiff_t offset = offset_of(&member, name);
  if (member.defined()) member.set_requires_grad(requires_grad);
  has_tensors_ = true;
  add_entry({.name = std::move(name), .kind = Kind::parameter, .offset = offset});
}

void Module::register_buffer(std::string name, Tensor& member, bool persistent) {
  check_name(name);
  const std::ptrdiff_t offset = offset_of(&member, name);
  has_tensors_ = true;
  add_entry({.name = std::move(name),
             .kind = persistent ? Kind::buffer : Kind::temporary_buffer,
             .offset = offset});
}

void Module::register_module(std::string name, Module& member) {
  check_name(name);
  const std::ptrdiff_t offset = offset_of(&member, name);
  check_no_cycle(member, name);
  member.become_part();
  add_entry({.name = std::move(name), .kind = Kind::module, .offset = offset});
}

void Module::take_module(std::string name, std::unique_ptr<Module> module) {
  check_name(name);
  FERRITE_CHECK(module != nullptr, ValueError, "module", "the module '{}' of {} is null", name,
                this->name());
  module->warn_of_moved_references();
  check_no_cycle(*module, name);
  module->become_part();
  add_entry({.name = std::move(name), .kind = Kind::module, .module = std::move(module)});
}

void Module::assign(Module& other) {
  fail<ValueError>(
      "module",
      "a {} cannot be assigned to (it does not derive from nn::Cloneable, or has const "
      "or reference members), so no other {} can take its place",
      name(), other.name());
}

Module& Module::replace_module(std::string_view path, std::unique_ptr<Module> module) {
  FERRITE_CHECK(module != nullptr, ValueError, "replace", "the module for '{}' is null", path);
  Module& old = get_submodule(path);  // throws where there is none
  const std::size_t dot = path.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? path : path.substr(dot + 1);
  Module* parent = dot == std::string_view::npos ? this : &get_submodule(path.substr(0, dot));
  while (parent->wrapped() && parent->wrapped() != &old) parent = parent->wrapped();
  Entry* const entry = parent->find_entry(last);
  FERRITE_CHECK(entry && !entry->wrapped, ValueError, "replace",
                "expected the path of a module below this {}, got '{}'", name(), path);
  module->warn_of_moved_references();
  parent->check_no_cycle(*module, last);
  module->become_part();
  if (entry->module) {
    entry->module = std::move(module);
    return *entry->module;
  }
  const Module& fresh = *module;
  FERRITE_CHECK(typeid(old) == typeid(fresh), ValueError, "replace",
                "'{}' is a member of its {}, of type {}, which a {} cannot take the place of; a "
                "module that the registry owns (register_module with a std::unique_ptr, elements "
                "of a Sequential) can be replaced by any other",
                path, parent->name(), old.name(), module->name());
  old.assign(*module);
  return old;
}

std::unique_ptr<Module> Module::unregister_module(std::string_view name) {
  Entry* const entry = find_entry(name);
  FERRITE_CHECK(entry && entry->module, IndexError, "module", "{} owns no module named '{}'",
                this->name(), name);
  std::unique_ptr<Module> module = std::move(entry->module);
  erase_entry(*entry);
  module->is_part_ = false;
  module->forget_call_paths();
  return module;
}

void Module::unregister_tensor(std::string_view name) {
  Entry* const entry = find_entry(name);
  FERRITE_CHECK(entry && entry->kind != Kind::module, IndexError, "module",
                "{} has no parameter or buffer named '{}'", this->name(), name);
  erase_entry(*entry);
}

Module* Module::wrapped() const {
  for (const Entry& e : registry_)
    if (e.wrapped) return e.wrapped;
  return nullptr;
}

void Module::wrap_module(Module& module) {
  FERRITE_CHECK(&module != this, ValueError, "module", "{} cannot wrap itself", name());
  check_no_cycle(module, "");
  FERRITE_CHECK(!wrapped(), ValueError, "module", "{} wraps a {} already", name(),
                wrapped()->name());
  module.become_part();
  add_entry({.name = "", .kind = Kind::module, .wrapped = &module});
}

Tensor& Module::add_parameter(std::string name, Tensor parameter, bool requires_grad) {
  check_name(name);
  if (parameter.defined()) parameter.set_requires_grad(requires_grad);
  has_tensors_ = true;
  return *add_entry({.name = std::move(name),
                     .kind = Kind::parameter,
                     .tensor = std::make_unique<Tensor>(std::move(parameter))})
              .tensor;
}

Tensor& Module::add_buffer(std::string name, Tensor buffer, bool persistent) {
  check_name(name);
  has_tensors_ = true;
  return *add_entry({.name = std::move(name),
                     .kind = persistent ? Kind::buffer : Kind::temporary_buffer,
                     .tensor = std::make_unique<Tensor>(std::move(buffer))})
              .tensor;
}

// ---- Contents

/// Calls f(path, kind, tensor) on all tensors, in PyTorch's order: a module's parameters, its
/// buffers, then those of its children.
void Module::for_each_tensor(const std::string& prefix, const Visitor& f) const {
  warn_of_moved_references();
  for (bool parameters : {true, false})
    for (const Entry& e : registry_)
      if (e.kind < Kind::computed && (e.kind == Kind::parameter) == parameters)
        if (const Tensor& t = tensor_of(e); t.defined()) f(path(prefix, e.name), e.kind, t);
  for (const Entry& e : registry_)
    if (e.kind == Kind::module) module_of(e).for_each_tensor(path(prefix, e.name), f);
}

std::vector<NamedTensor> Module::named_tensors(bool parameters) const {
  std::vector<NamedTensor> out;
  std::unordered_set<const TensorImpl*> seen;
  for_each_tensor("", [&](const std::string& name, Kind kind, const Tensor& t) {
    if ((kind == Kind::parameter) == parameters && seen.insert(t.impl()).second)
      out.emplace_back(name, t);
  });
  return out;
}

std::vector<NamedTensor> Module::named_parameters() const { return named_tensors(true); }
std::vector<NamedTensor> Module::named_buffers() const { return named_tensors(false); }

/// Those of named_tensors(), without the cost of names.
void Module::collect_tensors(bool parameters, std::unordered_set<const TensorImpl*>& seen,
                             std::vector<Tensor>& out) const {
  warn_of_moved_references();
  for (const Entry& e : registry_)
    if (e.kind < Kind::computed && (e.kind == Kind::parameter) == parameters)
      if (const Tensor& t = tensor_of(e); t.defined() && seen.insert(t.impl()).second)
        out.push_back(t);
  for (const Entry& e : registry_)
    if (e.kind == Kind::module) module_of(e).collect_tensors(parameters, seen, out);
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> out;
  std::unordered_set<const TensorImpl*> seen;
  collect_tensors(true, seen, out);
  return out;
}

std::vector<Tensor> Module::buffers() const {
  std::vector<Tensor> out;
  std::unordered_set<const TensorImpl*> seen;
  collect_tensors(false, seen, out);
  return out;
}

std::vector<NamedModule> Module::named_children() const {
  std::vector<NamedModule> out;
  for (const Entry& e : registry_)
    if (e.kind == Kind::module) out.emplace_back(e.name, &module_of(e));
  return out;
}

std::vector<Module*> Module::children() const {
  std::vector<Module*> out;
  for (const auto& [name, module] : named_children()) out.push_back(module);
  return out;
}

Module& Module::child(std::size_t index) const {
  if (!has_tensors_ && index < registry_.size()) return module_of(registry_[index]);
  for (const Entry& e : registry_)
    if (e.kind == Kind::module && index-- == 0) return module_of(e);
  fail<IndexError>("module", "{} has {} modules", name(), children().size());
}

const Tensor& Module::own_tensor(std::string_view name) const {
  const Entry* const entry = find_entry(name);
  FERRITE_CHECK(entry && entry->kind != Kind::module, IndexError, "module",
                "{} has no parameter or buffer of its own named '{}'", this->name(), name);
  return tensor_of(*entry);
}

std::vector<NamedModule> Module::named_modules() const {
  std::vector<NamedModule> out;
  std::unordered_set<const Module*> seen;
  const auto visit = [&](const auto& self, const std::string& prefix, Module& module) -> void {
    if (!seen.insert(&module).second) return;
    out.emplace_back(prefix, &module);
    for (const auto& [name, child] : module.named_children())
      self(self, path(prefix, name), *child);
  };
  visit(visit, "", const_cast<Module&>(*this));
  return out;
}

std::vector<Module*> Module::modules() const {
  std::vector<Module*> out;
  for (const auto& [name, module] : named_modules()) out.push_back(module);
  return out;
}

Module& Module::get_submodule(std::string_view path) const {
  Module* module = const_cast<Module*>(this);
  for (std::string_view rest = path; module && !rest.empty();) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view name = rest.substr(0, dot);
    const std::vector<NamedModule> children = module->named_children();
    const auto child = std::ranges::find(children, name, &NamedModule::first);
    if (child == children.end()) {
      module = module->wrapped();
      continue;
    }
    module = child->second;
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  if (module) return *module;
  std::vector<std::string> paths;
  for (const auto& [name, m] : named_modules())
    if (!name.empty()) paths.push_back(name);
  if (paths.empty()) fail<IndexError>("module", "{} has no modules, asked for '{}'", name(), path);
  fail<IndexError>("module", "{} has no module '{}'; the closest is '{}'", name(), path,
                   closest_names(path, std::move(paths)).front());
}

void Module::fail_type(const std::type_info& expected) const {
  fail<ValueError>("module", "expected a {}, got a {}", name_of(expected), name());
}

Tensor Module::find_tensor(std::string_view path, bool parameter) const {
  Tensor found;
  std::vector<std::string> paths;
  for_each_tensor("", [&](const std::string& name, Kind kind, const Tensor& t) {
    if ((kind == Kind::parameter) != parameter) return;
    if (name == path) found = t;
    paths.push_back(name);
  });
  if (found.defined()) return found;
  const char* const kind = parameter ? "parameter" : "buffer";
  if (paths.empty())
    fail<IndexError>("module", "{} has no {}s, asked for '{}'", name(), kind, path);
  fail<IndexError>("module", "{} has no {} '{}'; the closest is '{}'", name(), kind, path,
                   closest_names(path, std::move(paths)).front());
}

Tensor Module::get_parameter(std::string_view path) const { return find_tensor(path, true); }
Tensor Module::get_buffer(std::string_view path) const { return find_tensor(path, false); }

void Module::compute_before_forward(std::string_view name, std::function<Tensor(Module&)> compute) {
  Entry* const entry = find_entry(name);
  FERRITE_CHECK(entry && entry->kind == Kind::parameter && tensor_of(*entry).defined(), ValueError,
                "module", "{} has no parameter '{}' of its own", this->name(), name);
  entry->kind = Kind::computed;
  entry->compute = std::make_shared<const Compute>(std::move(compute));
  computes_tensors_ = true;
  NoGradGuard guard;
  detail::compute_tensors(*this);
}

void Module::stop_computing(std::string_view name) {
  Entry* const entry = find_entry(name);
  FERRITE_CHECK(entry && entry->kind == Kind::computed, ValueError, "module",
                "'{}' of {} is not computed from others", name, this->name());
  NoGradGuard guard;
  Tensor value = (*entry->compute)(*this).detach().clone();
  entry->kind = Kind::parameter;
  entry->compute.reset();
  tensor_of(*entry) = value.set_requires_grad();
  computes_tensors_ = std::ranges::count(registry_, Kind::computed, &Entry::kind) > 0;
}

void detail::compute_tensors(Module& module) {
  if (!module.computes_tensors_) return;
  for (const Module::Entry& e : module.registry_)
    if (e.compute) module.tensor_of(e) = (*e.compute)(module);
}

const char* Module::name_calls() const {
  warn_of_moved_references();
  const Module* const outermost = detail::CallScope::outermost;
  // One that is registered nowhere, and often made for a single call, goes by its caller's path.
  if (outermost && !is_part_) return autograd::detail::module_path;
  for (const auto& [path, module] : (outermost ? outermost : this)->named_modules()) {
    module->warn_of_moved_references();
    module->call_path_ = profiler::detail::intern(path);
  }
  if (!call_path_) call_path_ = autograd::detail::module_path;  // a part of another model
  return call_path_;
}

void Module::become_part() {
  is_part_ = true;
  forget_call_paths();
}

void Module::forget_call_paths() const {
  if (!call_path_) return;
  for (Module* const module : modules()) module->call_path_ = nullptr;
}

std::int64_t Module::num_parameters() const {
  std::int64_t count = 0;
  for (const Tensor& p : parameters()) count += p.numel();
  return count;
}

std::int64_t Module::num_trainable_parameters() const {
  std::int64_t count = 0;
  for (const Tensor& p : parameters())
    if (p.requires_grad()) count += p.numel();
  return count;
}

// ---- Operations on all tensors and modules

Module& Module::apply(const std::function<void(Module&)>& f) {
  std::unordered_set<const Module*> seen;
  const auto visit = [&](const auto& self, Module& module) -> void {
    if (!seen.insert(&module).second) return;
    for (Module* child : module.children()) self(self, *child);
    f(module);
  };
  visit(visit, *this);
  return *this;
}

Module& Module::convert(const std::function<Tensor(const Tensor&)>& f) {
  NoGradGuard guard;
  const auto replace = [&](const Tensor& t) {
    if (const Tensor converted = f(t.detach()); !converted.shares_storage(t)) t.set_data(converted);
  };
  for_each_tensor("", [&](const std::string&, Kind, const Tensor& t) {
    replace(t);
    if (const Tensor grad = t.grad(); grad.defined()) replace(grad);
  });
  return *this;
}

Module& Module::to(const Device& device, bool non_blocking) {
  return convert([&](const Tensor& t) { return t.to(device, non_blocking); });
}

Module& Module::to(DType dtype) {
  FERRITE_CHECK(is_floating(dtype), DTypeError, "to",
                "modules compute in floating-point types, got {}", dtype);
  return convert([&](const Tensor& t) { return is_floating(t.dtype()) ? t.to(dtype) : t; });
}

Module& Module::to(const Device& device, DType dtype) {
  FERRITE_CHECK(is_floating(dtype), DTypeError, "to",
                "modules compute in floating-point types, got {}", dtype);
  return convert(
      [&](const Tensor& t) { return is_floating(t.dtype()) ? t.to(device, dtype) : t.to(device); });
}

Module& Module::to(MemoryFormat format) {
  return convert([&](const Tensor& t) { return t.dim() == 4 ? t.to(format) : t; });
}

Module& Module::train(bool on) {
  training_ = on;
  for (Module* child : children()) child->train(on);
  return *this;
}

Module& Module::zero_grad(bool set_to_none) {
  autograd::zero_grad(parameters(), set_to_none);
  return *this;
}

Tensor Module::forward(const Tensor&) {
  fail(
      "module",
      "{} has no forward() that can be called with one tensor: write Tensor forward(const Tensor&) "
      "or Tensor forward(Tensor), and derive from nn::Cloneable<{}>",
      name(), name());
}

std::optional<std::int64_t> Module::multiply_adds(std::span<const Tensor>,
                                                  std::span<const Tensor>) const {
  for (const Entry& e : registry_)
    if (e.kind == Kind::parameter)
      if (const Tensor& t = tensor_of(e); t.defined() && t.dim() > 1) return {};
  return 0;
}

}  // namespace ferrite::nn
