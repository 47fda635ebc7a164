#pragma once

#include "core/forward.h"
#include "kernels/index.h"

namespace ferrite::kernels::cuda {

void count_nonzero(const Stream& stream, const View& out, const View& x);
void nonzero(const Stream& stream, const View& out, const View& x);

}  // namespace ferrite::kernels::cuda
