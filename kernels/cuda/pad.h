#pragma once

#include "ferrite/kernels/pad.h"

namespace ferrite::kernels::cuda {

void pad(const Stream& stream, const View& out, const View& x, const Shape& before, PadMode mode,
         Scalar value);
void pad_backward(const Stream& stream, const View& grad_x, const View& grad, int dim,
                  std::int64_t before, PadMode mode);

}  // namespace ferrite::kernels::cuda
