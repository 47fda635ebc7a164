#pragma once

#include "ferrite/kernels/parts.h"

namespace ferrite::kernels::cpu {

void copy_parts(const std::vector<CopyPart>& parts);
void sum_parts(DType dtype, const std::vector<SumPart>& parts,
               const std::vector<const void*>& inputs);

}  // namespace ferrite::kernels::cpu
