#pragma once

#include "ferrite/kernels/cross_entropy.h"

namespace ferrite::kernels::cpu {

void cross_entropy(const CrossEntropyArgs& args, const CrossEntropyResult& result);
void cross_entropy_backward(const View& out, const CrossEntropyArgs& args, const View& log_sums,
                            const View& grad, const View& divisor);

}  // namespace ferrite::kernels::cpu
