#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/view.h"

namespace ferrite::kernels::cuda {

void where(const Stream& stream, const View& out, const View& condition, const View& a,
           const View& b);

}  // namespace ferrite::kernels::cuda
