#include "ferrite/nn/containers.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "ferrite/nn/fused.h"

namespace ferrite::nn {

namespace {

template <class Named>
std::vector<std::string> names(const std::vector<Named>& items) {
  std::vector<std::string> out;
  for (const auto& [name, item] : items) out.push_back(name);
  return out;
}

/// The number that a name is, if it is one.
std::optional<std::uint64_t> number_of(const std::string& name) {
  std::uint64_t number = 0;
  const char* const end = name.data() + name.size();
  if (std::from_chars(name.data(), end, number).ptr != end) return {};
  return number;
}

/// The number, from 0 on, of the element that `index` means, which may count from the end.
std::size_t element(const Module& list, const char* elements, std::size_t size,
                    std::int64_t index) {
  const auto n = static_cast<std::int64_t>(size);
  FERRITE_CHECK(index >= -n && index < n, IndexError, "module", "{} has {} {}, got index {}",
                list.name(), n, elements, index);
  return static_cast<std::size_t>(index < 0 ? index + n : index);
}

}  // namespace

// ---- What lists need of the registry

std::size_t Module::num_children() const {
  if (!has_tensors_) return registry_.size();
  return static_cast<std::size_t>(std::ranges::count(registry_, Kind::module, &Entry::kind));
}

void Module::move_last_child(std::size_t index) {
  std::vector<Entry*> places;
  for (Entry& e : registry_)
    if (e.kind == Kind::module) places.push_back(&e);
  for (std::size_t i = places.size(); i-- > index + 1;) std::swap(*places[i], *places[i - 1]);
}

void Module::number_children() {
  const std::size_t count = num_children();
  for (const Entry& e : registry_) {
    if (e.kind == Kind::module) continue;
    FERRITE_CHECK(number_of(e.name).value_or(count) >= count, ValueError, "module",
                  "modules of {} cannot be named by their numbers: it has a tensor named '{}'",
                  name(), e.name);
  }
  std::size_t number = 0;
  for (Entry& e : registry_)
    if (e.kind == Kind::module) e.name = std::to_string(number++);
  names_.reset();
  forget_call_paths();
}

std::string Module::free_number(std::size_t first) {
  while (has_part(std::to_string(first))) ++first;
  return std::to_string(first);
}

std::vector<const Tensor*> Module::numbered_parameters() const {
  std::vector<std::pair<std::uint64_t, const Tensor*>> found;
  for (const Entry& e : registry_) {
    // Computed ones, too: weight_norm() makes an element of others.
    if (e.kind != Kind::parameter && e.kind != Kind::computed) continue;
    if (const auto number = number_of(e.name)) found.emplace_back(*number, &tensor_of(e));
  }
  std::ranges::sort(found);
  std::vector<const Tensor*> out;
  for (const auto& [number, tensor] : found) out.push_back(tensor);
  return out;
}

// ---- Modules

void ModuleContainer::push_back_all(std::initializer_list<NamedAnyModule> modules) {
  for (const NamedAnyModule& named : modules) push_back(named.name, std::move(named.module));
}

Module& ModuleContainer::operator[](std::int64_t index) const {
  return child(element(*this, "modules", size(), index));
}

void ModuleContainer::fail_index(std::uint64_t index) const {
  fail<IndexError>("module", "{} has {} modules, got index {}", name(), size(), index);
}

/// Where a module is inserted.
std::size_t ModuleContainer::place_of(std::int64_t index) const {
  const auto n = static_cast<std::int64_t>(size());
  FERRITE_CHECK(index >= -n && index <= n, IndexError, "module",
                "{} has {} modules, so one can be inserted at {} to {}, got index {}", name(), n,
                -n, n, index);
  return static_cast<std::size_t>(index < 0 ? index + n : index);
}

std::unique_ptr<Module> ModuleContainer::pop(std::int64_t index) {
  const std::size_t place = element(*this, "modules", size(), index);
  std::unique_ptr<Module> module = unregister_module(named_children()[place].key());
  number_children();
  return module;
}

ModuleContainer& ModuleContainer::extend(const ModuleContainer& other) {
  for (const Module* module : other.children()) push_back(module->clone());
  return *this;
}

ModuleContainer& ModuleContainer::extend(ModuleContainer&& other) {
  if (&other == this) return extend(std::as_const(other));
  for (const std::string& name : names(other.named_children()))
    push_back(other.unregister_module(name));
  return *this;
}

Tensor Sequential::forward(const Tensor& input) { return run_in_order(children(), input); }

void ModuleDict::update(std::initializer_list<NamedAnyModule> modules) {
  for (const NamedAnyModule& named : modules) insert(named.name, std::move(named.module));
}

bool ModuleDict::contains(std::string_view name) const {
  return std::ranges::count(keys(), name) > 0;
}

std::vector<std::string> ModuleDict::keys() const { return names(named_children()); }

void ModuleDict::clear() {
  for (const std::string& name : keys()) unregister_module(name);
}

// ---- Parameters

ParameterList::ParameterList(std::vector<Tensor> parameters) { extend(std::move(parameters)); }

ParameterList& ParameterList::append(Tensor parameter) {
  add_parameter(free_number(size()), std::move(parameter));
  return *this;
}

ParameterList& ParameterList::extend(std::vector<Tensor> parameters) {
  for (Tensor& parameter : parameters) append(std::move(parameter));
  return *this;
}

Tensor ParameterList::operator[](std::int64_t index) const {
  const std::vector<const Tensor*> all = numbered_parameters();
  return *all[element(*this, "parameters", all.size(), index)];
}

ParameterDict::ParameterDict(std::initializer_list<NamedTensor> parameters) {
  for (const auto& [name, parameter] : parameters) insert(name, parameter);
}

ParameterDict& ParameterDict::insert(const std::string& name, Tensor parameter) {
  if (contains(name)) unregister_tensor(name);
  add_parameter(name, std::move(parameter));
  return *this;
}

bool ParameterDict::contains(std::string_view name) const { return state_dict().contains(name); }

// named_parameters() has a tensor of two names only once.
std::vector<std::string> ParameterDict::keys() const {
  std::vector<std::string> all;
  for (const auto& [name, parameter] : state_dict()) all.push_back(name);
  return all;
}

std::vector<NamedTensor> ParameterDict::items() const {
  std::vector<NamedTensor> all;
  for (const std::string& name : keys()) all.emplace_back(name, get_parameter(name));
  return all;
}

}  // namespace ferrite::nn
