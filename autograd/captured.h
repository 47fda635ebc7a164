// What a call of grad() will return.
#pragma once

#include <span>

#include "ferrite/core/tensor.h"

namespace ferrite::autograd {

/// For functions given to queue_callback(): the gradients that the grad() whose pass has ended will
/// return, undefined where the outputs do not depend on the input; of a backward(), none.
std::span<const Tensor> captured_gradients();

}  // namespace ferrite::autograd
