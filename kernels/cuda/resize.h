#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/resize.h"

namespace ferrite::kernels::cuda {

void resize2d(const Stream& stream, const Resize2d& resize, const View& out, const View& in);
void resize2d_backward(const Stream& stream, const Resize2d& resize, const View& grad_in,
                       const View& grad_out);

}  // namespace ferrite::kernels::cuda
