#pragma once

#include "ferrite/kernels/range.h"

namespace ferrite::kernels::cpu {

void check_range(const char* op, const View& in, double low, double high);

}  // namespace ferrite::kernels::cpu
