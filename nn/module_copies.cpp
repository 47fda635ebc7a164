// Moving, cloning and copying modules.
#include <algorithm>
#include <cstring>
#include <utility>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/stream.h"
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
      hooks_(std::move(other.hooks_)),
      training_(other.training_),
      computes_tensors_(other.computes_tensors_),
      has_tensors_(other.has_tensors_),
      is_part_(other.is_part_),
      call_path_(other.call_path_.load()) {
  address_.take(other.address_, this);
  note_self_references(other);
}

Module& Module::operator=(Module&& other) noexcept {
  registry_ = std::move(other.registry_);
  hooks_ = std::move(other.hooks_);
  training_ = other.training_;
  computes_tensors_ = other.computes_tensors_;
  has_tensors_ = other.has_tensors_;
  call_path_ = other.call_path_.load();
  forget_call_paths();
  if (&other == this) return *this;
  address_.take(other.address_, this);
  note_self_references(other);
  return *this;
}

Module::Module(const Module& other)
    : training_(other.training_),
      computes_tensors_(other.computes_tensors_),
      has_tensors_(other.has_tensors_),
      is_part_(other.is_part_),
      call_path_(other.call_path_.load()) {
  FERRITE_CHECK(cloning > 0, Error, "module",
                "{} was copied; pass modules by reference, or make an independent one with clone()",
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
  module->apply(detail::compute_tensors);
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

/// Called on a copy: throws if the object contains the address of a child of the original, as the
/// copy of a reference or pointer does. It is then in the same place in both; elsewhere it is what
/// the memory held before.
void Module::check_own_children(const Module& original) const {
  const std::span<const std::byte> object = memory(), same = original.memory();
  for (std::size_t i = 0; i < registry_.size(); ++i) {
    if (registry_[i].kind != Kind::module) continue;
    const Module& child = original.module_of(original.registry_[i]);
    const std::size_t size = std::min(object.size(), same.size());
    for (std::size_t at = 0; at + sizeof(void*) <= size; at += alignof(void*)) {
      const void* word = nullptr;
      std::memcpy(&word, object.data() + at, sizeof(word));
      FERRITE_CHECK(
          (word != &child && word != child.memory().data()) ||
              std::memcmp(same.data() + at, &word, sizeof(word)) != 0,
          Error, "clone",
          "{} holds a reference or a pointer to its child '{}', which in the copy would be that of "
          "the original; hold the {} itself as a member and register that, or find it by "
          "get<{}>(\"{}\")",
          name(), registry_[i].name, child.name(), child.name(), registry_[i].name);
    }
    module_of(registry_[i]).check_own_children(child);
  }
}

/// Keeps the addresses of registered children that `other`, which is being moved here and whose
/// registry this has, holds in its own object, but not in those of the children: these note their
/// own, and layers without children hold no such addresses, though bytes that nobody wrote, in
/// arrays that are moved as a whole, may look like them.
void Module::note_self_references(Module& other) {
  moved_ = std::move(other.moved_);  // of a move before that
  const std::span<const std::byte> object = other.memory();
  struct Child {
    std::span<const std::byte> memory;
    const std::byte* address;  // of its Module
    const std::string* name;
  };
  std::vector<Child> children;
  for (const Entry& e : registry_) {
    if (e.kind != Kind::module || e.module || e.wrapped) continue;
    const auto* const address = reinterpret_cast<const std::byte*>(&other) + e.offset;
    children.push_back({reinterpret_cast<const Module*>(address)->memory(), address, &e.name});
  }
  if (children.empty()) return;
  for (std::size_t at = 0; at + sizeof(void*) <= object.size(); at += alignof(void*)) {
    const std::byte* const place = object.data() + at;
    if (std::ranges::any_of(children, [&](const Child& c) {
          return place >= c.memory.data() && place < c.memory.data() + c.memory.size();
        }))
      continue;
    const std::byte* word = nullptr;
    std::memcpy(&word, place, sizeof(word));
    for (const Child& c : children) {
      if (word != c.address && word != c.memory.data()) continue;
      if (!moved_) moved_ = std::make_unique<std::vector<SelfReference>>();
      moved_->push_back({at, word, *c.name});
    }
  }
  if (moved_) call_path_ = nullptr;  // the next call looks for them (name_calls)
}

/// Throws if an address that was kept still lies in this object.
void Module::check_self_references() const {
  if (!moved_) [[likely]]
    return;
  const std::span<const std::byte> object = memory();
  for (const SelfReference& held : *moved_) {
    const void* word = nullptr;
    if (held.offset + sizeof(word) > object.size()) continue;
    std::memcpy(&word, object.data() + held.offset, sizeof(word));
    FERRITE_CHECK(word != held.target, Error, "move",
                  "{} holds a reference or a pointer to its member '{}', which after the move is "
                  "that of the object it was moved from; set it anew in the move constructor, or "
                  "use the member itself",
                  name(), held.name);
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
