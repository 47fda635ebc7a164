#include "ferrite/nn/containers.h"

#include <algorithm>

#include "ferrite/nn/fused.h"

namespace ferrite::nn {

namespace {

template <class Named>
std::vector<std::string> names(const std::vector<Named>& items) {
  std::vector<std::string> out;
  for (const auto& [name, item] : items) out.push_back(name);
  return out;
}

}  // namespace

void ModuleContainer::push_back_all(std::initializer_list<NamedAnyModule> modules) {
  for (const NamedAnyModule& named : modules) push_back(named.name, std::move(named.module));
}

Module& ModuleContainer::operator[](std::size_t index) const {
  FERRITE_CHECK(index < size_, IndexError, "module", "{} has {} modules, got index {}", name(),
                size_, index);
  return child(index);
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

ParameterList::ParameterList(std::vector<Tensor> parameters) {
  for (Tensor& parameter : parameters) append(std::move(parameter));
}

ParameterList& ParameterList::append(Tensor parameter) {
  add_parameter(std::to_string(size_), std::move(parameter));
  ++size_;
  return *this;
}

Tensor ParameterList::operator[](std::size_t index) const {
  FERRITE_CHECK(index < size_, IndexError, "module", "{} has {} parameters, asked for number {}",
                name(), size_, index);
  return get_parameter(std::to_string(index));
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
