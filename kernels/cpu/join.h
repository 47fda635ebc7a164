#pragma once

#include "ferrite/kernels/join.h"

namespace ferrite::kernels::cpu {

void join(void* out, std::int64_t rows, const std::vector<JoinPart>& parts);

}  // namespace ferrite::kernels::cpu
