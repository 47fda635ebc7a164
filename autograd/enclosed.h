// Aliases by which a node is put behind a tensor, as modules do for backward hooks.
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite::autograd {

/// link_view() for an alias `out` of `base` that has a node of its own, through which gradients
/// must pass: `out` and its views cannot be changed in place while recording (check_inplace).
void link_enclosed(const Tensor& out, const Tensor& base);

}  // namespace ferrite::autograd
