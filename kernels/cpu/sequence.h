#pragma once

#include "ferrite/kernels/sequence.h"

namespace ferrite::kernels::cpu {

void arange(const View& out, Scalar start, Scalar step);
void linspace(const View& out, double start, double end);

}  // namespace ferrite::kernels::cpu
