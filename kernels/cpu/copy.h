#pragma once

#include "ferrite/kernels/copy.h"

namespace ferrite::kernels::cpu {

void copy(const View& out, const View& in);
void fill(const View& out, Scalar value);

}  // namespace ferrite::kernels::cpu
