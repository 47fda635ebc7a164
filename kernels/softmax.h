// softmax, log_softmax and their gradients. All views of a call share a floating dtype, sizes and
// strides, and are dense in any order of dimensions. 16-bit types are computed in float32.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

enum class SoftmaxKind : std::uint8_t { plain, log };

/// out = softmax(in) or log_softmax(in) along `dim`.
FERRITE_KERNEL(softmax, SoftmaxKind kind, const View& out, const View& in, int dim);
/// out = the gradient of the input, from `grad`, the gradient of the output, and the output `y`.
FERRITE_KERNEL(softmax_backward, SoftmaxKind kind, const View& out, const View& grad, const View& y,
               int dim);

}  // namespace ferrite::kernels
