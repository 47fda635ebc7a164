#pragma once

#include "ferrite/kernels/pad.h"

namespace ferrite::kernels::cpu {

void pad(const View& out, const View& x, const Shape& before, PadMode mode, Scalar value);
void pad_backward(const View& grad_x, const View& grad, int dim, std::int64_t before, PadMode mode);

}  // namespace ferrite::kernels::cpu
