// The kernels of swiglu: on raw views and an explicit stream, like Ferrite's own. All views of a
// call are contiguous, of one size and one floating dtype.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace swiglu {

using ferrite::Stream;
using ferrite::kernels::View;

/// out = gate * sigmoid(gate) * value. Called as forward(stream, out, gate, value), it runs
/// cpu::forward (kernels_cpu.cpp) or cuda::forward (kernels_cuda.cu).
FERRITE_KERNEL_OF("swiglu", forward, const View& out, const View& gate, const View& value);
/// Both gradients, from `grad`, the gradient of out.
FERRITE_KERNEL_OF("swiglu_backward", backward, const View& grad_gate, const View& grad_value,
                  const View& grad, const View& gate, const View& value);

}  // namespace swiglu
