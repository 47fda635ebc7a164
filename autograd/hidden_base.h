// Views whose base is out of reach.
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite::autograd {

/// Makes a view a tensor of its own, with the history that it has, if nothing else holds its base:
/// then no change of the one can be seen in the other. So are results of ops that end in a view.
void drop_hidden_base(const Tensor& t);

}  // namespace ferrite::autograd
