#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/dropout.h"

namespace ferrite::kernels::cuda {

void dropout(const Stream& stream, const View& out, const View& in, PhiloxState state, double p);

}  // namespace ferrite::kernels::cuda
