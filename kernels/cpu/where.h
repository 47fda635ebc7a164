#pragma once

#include "ferrite/kernels/where.h"

namespace ferrite::kernels::cpu {

void where(const View& out, const View& condition, const View& a, const View& b);

}  // namespace ferrite::kernels::cpu
