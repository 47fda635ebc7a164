#pragma once

#include "core/forward.h"
#include "kernels/dropout.h"

namespace ferrite::kernels::cuda {

void dropout(const Stream& stream, const View& out, const View& in, PhiloxState state, double p);

}  // namespace ferrite::kernels::cuda
