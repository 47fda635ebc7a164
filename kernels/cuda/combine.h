#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/combine.h"

namespace ferrite::kernels::cuda {

void combine(const Stream& stream, Combine op, const View& out, const View& a, const View& b,
             double scale);

}  // namespace ferrite::kernels::cuda
