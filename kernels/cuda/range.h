#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/view.h"

namespace ferrite::kernels::cuda {

void check_range(const Stream& stream, const char* op, const View& in, double low, double high);

}  // namespace ferrite::kernels::cuda
