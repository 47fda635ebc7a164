#pragma once

#include "ferrite/kernels/dropout.h"

namespace ferrite::kernels::cpu {

void dropout(const View& out, const View& in, PhiloxState state, double p);

}  // namespace ferrite::kernels::cpu
