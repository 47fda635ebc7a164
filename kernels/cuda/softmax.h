#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/softmax.h"

namespace ferrite::kernels::cuda {

void softmax(const Stream& stream, SoftmaxKind kind, const View& out, const View& in, int dim);
void softmax_backward(const Stream& stream, SoftmaxKind kind, const View& out, const View& grad,
                      const View& y, int dim);

}  // namespace ferrite::kernels::cuda
