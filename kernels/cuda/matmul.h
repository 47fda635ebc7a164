#pragma once

#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cuda {

/// Chooses who makes the product (kernels/cuda/own.h).
void matmul(const Stream& stream, const View& out, const View& a, const View& b,
            const MatmulOptions& options);

}  // namespace ferrite::kernels::cuda
