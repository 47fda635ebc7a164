// The kernels of swiglu: on raw views and an explicit stream, like Ferrite's own. All views of a
// call are contiguous, of one size and one floating dtype.
#pragma once

#include "ferrite/core/stream.h"
#include "ferrite/kernels/view.h"

namespace swiglu {

using ferrite::Stream;
using ferrite::kernels::View;

/// out = gate * sigmoid(gate) * value.
void forward(const Stream& stream, const View& out, const View& gate, const View& value);
/// Both gradients from `grad`, that of out.
void backward(const Stream& stream, const View& grad_gate, const View& grad_value, const View& grad,
              const View& gate, const View& value);

/// The same on streams of CUDA devices: kernels_cuda.cu, or no_cuda.cpp where there is no CUDA.
namespace cuda {
void forward(const Stream& stream, const View& out, const View& gate, const View& value);
void backward(const Stream& stream, const View& grad_gate, const View& grad_value, const View& grad,
              const View& gate, const View& value);
}  // namespace cuda

}  // namespace swiglu
