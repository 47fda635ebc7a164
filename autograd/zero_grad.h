// Clears gradients, for modules and optimizers.
#pragma once

#include <span>

#include "ferrite/core/tensor.h"

namespace ferrite::autograd {

/// Drops the gradients. With `set_to_none` false fills those that there are with zeros, in place,
/// so that what holds them keeps them; a gradient that is itself on the tape (create_graph) leaves
/// it.
void zero_grad(std::span<const Tensor> parameters, bool set_to_none = true);

}  // namespace ferrite::autograd
