#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/index.h"

namespace ferrite::kernels::cuda {

void masked_fill(const Stream& stream, const View& out, const View& x, const View& mask,
                 Scalar value);
void triangle(const Stream& stream, const View& out, const View& x, Triangle part,
              std::int64_t diagonal);

}  // namespace ferrite::kernels::cuda
