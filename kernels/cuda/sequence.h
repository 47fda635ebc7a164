#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/sequence.h"

namespace ferrite::kernels::cuda {

void arange(const Stream& stream, const View& out, Scalar start, Scalar step);
void linspace(const Stream& stream, const View& out, double start, double end);

}  // namespace ferrite::kernels::cuda
