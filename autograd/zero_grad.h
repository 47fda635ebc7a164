// Clears gradients, for modules and optimizers.
#pragma once

#include <span>

#include "ferrite/core/tensor.h"

namespace ferrite::autograd {

/// Fills the gradients that there are with zeros, in place, so that what holds them (buckets of
/// gradients, captured graphs) keeps them; `set_to_none` drops them instead. A gradient that is
/// itself on the tape (create_graph) leaves it.
void zero_grad(std::span<const Tensor> parameters, bool set_to_none = false);

}  // namespace ferrite::autograd
