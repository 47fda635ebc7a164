// Adding up gradients.
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite::autograd {

/// Whether nobody else holds this tensor's memory, so that it may be kept.
bool is_exclusive(const Tensor& t);

/// Whether nobody else holds this tensor's memory, nor does another stream's queued work still read
/// it, so that the stream it was allocated on may overwrite it.
bool is_overwritable(const Tensor& t);

/// Whether keeping `t` keeps no more memory than it needs.
bool fills_storage(const Tensor& t);

/// AutogradError, naming `op`, unless `grad` may be added to `total`, which may be undefined.
void check_addable(const Tensor& total, const Tensor& grad, const char* op);

/// a + b; recorded under create_graph.
Tensor sum(const Tensor& a, const Tensor& b);

/// Adds `grad` to `total`, in place where nobody would notice.
void add_to(Tensor& total, Tensor grad);

}  // namespace ferrite::autograd
