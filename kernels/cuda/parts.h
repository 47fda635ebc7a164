#pragma once

#include "ferrite/kernels/parts.h"

namespace ferrite::kernels::cuda {

void copy_parts(const Stream& stream, const std::vector<CopyPart>& parts);
void sum_parts(const Stream& stream, DType dtype, const std::vector<SumPart>& parts,
               const std::vector<const void*>& inputs);

}  // namespace ferrite::kernels::cuda
