// Accumulation of gradients.
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite::autograd {

/// Whether this is the only handle on the tensor's memory, so that the caller may keep it.
bool is_exclusive(const Tensor& t);

/// As is_exclusive(), and no queued work of another stream still reads the memory, so that the
/// stream it was allocated on may overwrite it.
bool is_overwritable(const Tensor& t);

/// Whether `t` uses all of its storage, so that keeping it wastes no memory.
bool fills_storage(const Tensor& t);

/// Throws AutogradError, naming `op`, unless `grad` may be added to `total`, which may be
/// undefined.
void check_addable(const Tensor& total, const Tensor& grad, const char* op);

/// Throws AutogradError unless backward may add `grad` to `kept`, what grad() has so far, which may
/// be undefined: mutable_grad() takes any tensor.
void check_accumulates(const Tensor& kept, const Tensor& grad);

/// a + b; recorded under create_graph.
Tensor sum(const Tensor& a, const Tensor& b);

/// Adds `grad` to `total`, in place if no other handle can see the change.
void add_to(Tensor& total, Tensor grad);

}  // namespace ferrite::autograd
