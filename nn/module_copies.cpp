// Moving, cloning and copying modules.
#include <algorithm>
#include <cstring>
#include <functional>
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
  module->relink_copy(*this);
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
  module->relink_copy(*this);
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

/// Appends this object, its children and the tensors that the registry owns, each beside the same
/// part of the original of which this is a copy. What is a member lies within its module's object.
void Module::append_copied_parts(const Module& original, std::vector<CopiedPart>& parts) const {
  for (std::size_t i = 0; i < registry_.size(); ++i) {
    const Entry &own = registry_[i], &other = original.registry_[i];
    if (own.tensor)
      parts.push_back({std::as_bytes(std::span(other.tensor.get(), 1)),
                       reinterpret_cast<std::byte*>(own.tensor.get())});
    if (own.kind != Kind::module) continue;
    const Module &child = module_of(own), &same = original.module_of(other);
    if (own.module) parts.push_back({same.memory(), const_cast<std::byte*>(child.memory().data())});
    child.append_copied_parts(same, parts);
  }
}

/// Called on a copy: the references and pointers to parts of the original that it has in the same
/// places as the original become those to its own parts.
void Module::relink_copy(const Module& original) const {
  std::vector<CopiedPart> parts{{original.memory(), const_cast<std::byte*>(memory().data())}};
  append_copied_parts(original, parts);
  const auto begin = [](const CopiedPart& part) { return part.original.data(); };
  std::ranges::sort(parts, std::less(), begin);
  for (const CopiedPart& object : parts)
    for (std::size_t at = 0; at + sizeof(void*) <= object.original.size(); at += alignof(void*)) {
      const std::byte *word = nullptr, *same = nullptr;
      std::memcpy(&word, object.copy + at, sizeof(word));
      std::memcpy(&same, object.original.data() + at, sizeof(same));
      if (word != same || !std::greater_equal()(word, begin(parts.front()))) continue;
      const CopiedPart& part = *(std::ranges::upper_bound(parts, word, std::less(), begin) - 1);
      if (word >= part.original.data() + part.original.size()) continue;
      word = part.copy + (word - part.original.data());
      std::memcpy(object.copy + at, &word, sizeof(word));
    }
}

/// Keeps which references and pointers to its own parts `other` has, which is being moved here.
/// Bytes that nobody wrote may look like one: whether they are changed is of no account.
void Module::note_self_references(Module& other) {
  other.relink_after_move();
  moved_.reset();
  const std::span<const std::byte> object = other.memory();
  for (std::size_t at = 0; at + sizeof(void*) <= object.size(); at += alignof(void*)) {
    const std::byte* word = nullptr;
    std::memcpy(&word, object.data() + at, sizeof(word));
    if (!std::greater_equal()(word, object.data()) || word >= object.data() + object.size())
      continue;
    if (!moved_) moved_ = std::make_unique<Moved>();
    moved_->references.push_back({at, word, static_cast<std::size_t>(word - object.data())});
  }
  if (moved_) call_path_ = nullptr;  // the next call relinks them (name_calls)
}

/// The references and pointers that still point to where this object was moved from become those to
/// its own parts. The members were moved after the base, so this is done at the first use.
void Module::relink_after_move() const {
  if (!moved_) [[likely]]
    return;
  std::call_once(moved_->relinked, [this] {
    auto* const object = const_cast<std::byte*>(memory().data());
    for (const SelfReference& held : moved_->references) {
      const std::byte* word = nullptr;
      if (held.offset + sizeof(word) > memory().size()) continue;
      std::memcpy(&word, object + held.offset, sizeof(word));
      if (word != held.address) continue;  // set anew by the move constructor
      word = object + held.target;
      std::memcpy(object + held.offset, &word, sizeof(word));
    }
  });
}

/// Called on a copy.
void Module::share_hooks(const Module& other) {
  hooks_ = other.hooks_;
  for (std::size_t i = 0; i < registry_.size(); ++i)
    if (registry_[i].kind == Kind::module)
      module_of(registry_[i]).share_hooks(other.module_of(other.registry_[i]));
}

}  // namespace ferrite::nn
