// softmax, its logarithm and their gradients. All views of a call have equal sizes and equal
// strides, without gaps or overlaps (any order of dimensions); floating types, 16-bit ones
// computing in float.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

enum class SoftmaxKind : std::uint8_t { plain, log };

/// out = softmax(in) or log_softmax(in) along `dim`.
FERRITE_KERNEL(softmax, SoftmaxKind kind, const View& out, const View& in, int dim);
/// The gradient of the input from that of the output and the output `y` itself.
FERRITE_KERNEL(softmax_backward, SoftmaxKind kind, const View& out, const View& grad, const View& y,
               int dim);

}  // namespace ferrite::kernels
