#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/cross_entropy.h"

namespace ferrite::kernels::cuda {

void cross_entropy(const Stream& stream, const CrossEntropyArgs& args,
                   const CrossEntropyResult& result);
void cross_entropy_backward(const Stream& stream, const View& out, const CrossEntropyArgs& args,
                            const View& log_sums, const View& grad, const View& divisor);

}  // namespace ferrite::kernels::cuda
