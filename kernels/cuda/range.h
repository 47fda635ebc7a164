#pragma once

#include "core/forward.h"
#include "kernels/view.h"

namespace ferrite::kernels::cuda {

void check_range(const Stream& stream, const char* op, const View& in, double low, double high);

}  // namespace ferrite::kernels::cuda
