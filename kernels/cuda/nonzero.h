#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/index.h"

namespace ferrite::kernels::cuda {

void count_nonzero(const Stream& stream, const View& out, const View& x);
void nonzero(const Stream& stream, const View& out, const View& x);

}  // namespace ferrite::kernels::cuda
