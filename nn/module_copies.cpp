// Moving, cloning and copying modules.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <typeinfo>
#include <utility>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/warning.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/nn/module.h"

namespace ferrite::nn {

namespace {

/// Above 0 while clone() copies objects in this thread.
thread_local int cloning = 0;

struct CloningGuard {
  CloningGuard() { ++cloning; }
  ~CloningGuard() { --cloning; }
};

/// A copy of values and layout, off the tape.
Tensor deep_copy(const Tensor& t) {
  Tensor out = empty_like(t);
  kernels::copy(current_stream(t.device()), out, t);
  if (t.requires_grad()) out.set_requires_grad();
  return out;
}

}  // namespace

Module::Module(Module&& other) noexcept
    : registry_(std::move(other.registry_)),
      names_(std::move(other.names_)),
      hooks_(std::move(other.hooks_)),
      training_(other.training_),
      computes_tensors_(other.computes_tensors_),
      has_tensors_(other.has_tensors_),
      is_part_(other.is_part_),
      call_path_(other.call_path_.load()) {
  address_.take(other.address_, this);
  note_child_references(other);
}

Module& Module::operator=(Module&& other) noexcept {
  registry_ = std::move(other.registry_);
  names_ = std::move(other.names_);
  hooks_ = std::move(other.hooks_);
  training_ = other.training_;
  computes_tensors_ = other.computes_tensors_;
  has_tensors_ = other.has_tensors_;
  call_path_ = other.call_path_.load();
  forget_call_paths();
  if (&other == this) return *this;
  address_.take(other.address_, this);
  note_child_references(other);
  return *this;
}

Module::Module(const Module& other)
    : training_(other.training_),
      computes_tensors_(other.computes_tensors_),
      has_tensors_(other.has_tensors_),
      is_part_(other.is_part_),
      call_path_(other.call_path_.load()) {
  FERRITE_CHECK(
      cloning > 0, Error, "module",
      "{} was copied; pass modules by reference, or make an independent one with clone(). To "
      "be a part of another module it is a member, which the constructor registers: "
      "register_module(\"fc\", fc)",
      other.name());
  FERRITE_CHECK(!other.wrapped(), Error, "clone",
                "{} wraps a {} that is not its own; clone that, and wrap the clone", other.name(),
                other.wrapped()->name());
  registry_.reserve(other.registry_.size());
  for (const Entry& e : other.registry_)
    registry_.push_back({.name = e.name,
                         .kind = e.kind,
                         .offset = e.offset,
                         .tensor = e.tensor ? std::make_unique<Tensor>(*e.tensor) : nullptr,
                         .module = e.module ? e.module->copy() : nullptr,
                         .compute = e.compute});
}

std::unique_ptr<Module> Module::copy() const {
  fail("clone", "{} does not derive from nn::Cloneable<{}>, so its type cannot be copied", name(),
       name());
}

std::unique_ptr<Module> Module::clone() const {
  std::unique_ptr<Module> module;
  {
    CloningGuard guard;
    module = copy();
  }
  module->check_own_children(*this);
  NoGradGuard guard;
  Memo copies;
  module->replace_tensors(deep_copy, copies);
  // Computed tensors are copied, too: computing them may change buffers, as spectral norms do.
  module->apply([](Module& m) {
    for (const Entry& e : m.registry_)
      if (e.kind == Kind::computed)
        if (Tensor& t = m.tensor_of(e); t.defined()) t = deep_copy(t.detach());
  });
  return module;
}

std::unique_ptr<Module> Module::copy_with(const std::function<Tensor(const Tensor&)>& f) const {
  std::unique_ptr<Module> module;
  {
    CloningGuard guard;
    module = copy();
  }
  module->check_own_children(*this);
  Memo given;
  module->replace_tensors(f, given);
  module->share_hooks(*this);
  return module;
}

/// Called on a copy, which until then shares the tensors of the original.
void Module::replace_tensors(const std::function<Tensor(const Tensor&)>& f, Memo& replaced) {
  for (const Entry& e : registry_) {
    if (e.kind == Kind::module) {
      module_of(e).replace_tensors(f, replaced);
      continue;
    }
    Tensor& tensor = tensor_of(e);
    if (!tensor.defined() || e.kind == Kind::computed) continue;
    Tensor other = replaced[tensor.impl()];
    if (!other.defined()) {
      other = f(tensor);
      replaced[tensor.impl()] = replaced[other.impl()] = other;  // if visited again, it stays
    }
    tensor = std::move(other);
  }
}

/// The references and pointers to children that `object` holds, whose registry this has; those to
/// children that the registry owns only if `owned`. They are found by their values. Unwritten bytes
/// may have such values by chance, so the objects of children are left out; classes of the library
/// hold none.
std::vector<Module::ChildReference> Module::child_references(const Module& object,
                                                             bool owned) const {
  struct Child {
    std::span<const std::byte> memory;
    const std::byte* address;  // of its Module
    const std::string* name;
  };
  std::vector<ChildReference> references;
  if (std::string_view(typeid(object).name()).starts_with("N7ferrite")) return references;
  std::vector<Child> children;
  for (const Entry& e : registry_) {
    if (e.kind != Kind::module || e.wrapped || (e.module && !owned)) continue;
    const auto* const address = e.module ? reinterpret_cast<const std::byte*>(e.module.get())
                                         : reinterpret_cast<const std::byte*>(&object) + e.offset;
    children.push_back({reinterpret_cast<const Module*>(address)->memory(), address, &e.name});
  }
  const std::span<const std::byte> bytes = object.memory();
  if (children.empty()) return references;
  for (std::size_t at = 0; at + sizeof(void*) <= bytes.size(); at += alignof(void*)) {
    const std::byte* const place = bytes.data() + at;
    if (std::ranges::any_of(children, [&](const Child& c) {
          return place >= c.memory.data() && place < c.memory.data() + c.memory.size();
        }))
      continue;
    const std::byte* word = nullptr;
    std::memcpy(&word, place, sizeof(word));
    for (const Child& c : children)
      if (word == c.address || word == c.memory.data()) references.push_back({at, word, *c.name});
  }
  return references;
}

bool Module::holds(const ChildReference& reference) const {
  const std::byte* word = nullptr;
  const std::span<const std::byte> object = memory();
  if (reference.offset + sizeof(word) > object.size()) return false;
  std::memcpy(&word, object.data() + reference.offset, sizeof(word));
  return word == reference.child;
}

/// Called on a copy: throws if the object holds a reference or a pointer to a child of the
/// original.
void Module::check_own_children(const Module& original) const {
  for (const ChildReference& held : original.child_references(original, true)) {
    const std::string& child = held.name;
    const std::string type = original.module_of(*original.find_entry(child)).name();
    FERRITE_CHECK(!holds(held), Error, "clone",
                  "{} holds a reference or a pointer to its child '{}', which in the copy would be "
                  "that of the original; hold the {} itself as a member and register that, or find "
                  "it by get<{}>(\"{}\")",
                  name(), child, type, type, child);
  }
  for (std::size_t i = 0; i < registry_.size(); ++i)
    if (registry_[i].kind == Kind::module)
      module_of(registry_[i]).check_own_children(original.module_of(original.registry_[i]));
}

/// Keeps the references and pointers to its own members that `other` holds, which is being moved
/// here and whose registry this has.
void Module::note_child_references(Module& other) {
  moved_ = std::move(other.moved_);  // of a move before that
  std::vector<ChildReference> held = child_references(other, false);
  if (held.empty()) return;
  if (!moved_) moved_ = std::make_unique<std::vector<ChildReference>>();
  moved_->insert(moved_->end(), held.begin(), held.end());
  call_path_ = nullptr;  // the next call warns of them (name_calls)
}

/// Warns, once for each type and child, if a reference or pointer that was kept is still that to a
/// member of the object that was moved here. It is no error, because it may be none.
void Module::warn_of_moved_references() const {
  if (!moved_) [[likely]]
    return;
  static std::mutex mutex;
  static std::set<std::pair<std::string, std::string>> given;
  for (const ChildReference& held : *moved_) {
    if (!holds(held)) continue;
    {
      std::lock_guard lock(mutex);
      if (!given.emplace(name(), held.name).second) continue;
    }
    warn(
        "move",
        fmt::format("{} seems to hold a reference or a pointer to its member '{}', which after the "
                    "move is that of the object it was moved from; set it anew in the move "
                    "constructor, or use the member itself",
                    name(), held.name));
  }
}

/// Called on a copy.
void Module::share_hooks(const Module& other) {
  hooks_ = other.hooks_;
  for (std::size_t i = 0; i < registry_.size(); ++i)
    if (registry_[i].kind == Kind::module)
      module_of(registry_[i]).share_hooks(other.module_of(other.registry_[i]));
}

}  // namespace ferrite::nn
