#pragma once

#include "ferrite/kernels/join.h"

namespace ferrite::kernels::cuda {

void join(const Stream& stream, void* out, std::int64_t rows, const std::vector<JoinPart>& parts);

}  // namespace ferrite::kernels::cuda
