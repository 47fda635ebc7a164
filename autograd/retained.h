// Gradients of tensors that are not leaves, which retain_grad() keeps.
#pragma once

#include <cstdint>

#include "ferrite/autograd/meta.h"

namespace ferrite::autograd {

/// From now on the gradient that reaches output `output` of `node` is that of the tensor of `meta`,
/// after what it has so far. A gradient that reaches another node, as before a change in place, is
/// so no more.
void retain_gradient(Meta& meta, Node& node, std::uint32_t output);

}  // namespace ferrite::autograd
