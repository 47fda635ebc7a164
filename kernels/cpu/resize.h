#pragma once

#include "ferrite/kernels/resize.h"

namespace ferrite::kernels::cpu {

void resize2d(const Resize2d& resize, const View& out, const View& in);
void resize2d_backward(const Resize2d& resize, const View& grad_in, const View& grad_out);

}  // namespace ferrite::kernels::cpu
