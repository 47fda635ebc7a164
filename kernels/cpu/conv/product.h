// 1 x 1 convolutions of bfloat16 as products of matrices, for machines that multiply pairs of it
// (simd.h), which matmul() does.
#pragma once

#include "ferrite/kernels/cpu/conv/plan.h"

namespace ferrite::kernels::cpu {

/// Whether the pixels of such images lie evenly apart.
bool is_product(const ConvCall& call);
void run_product(const ConvCall& call);

}  // namespace ferrite::kernels::cpu
