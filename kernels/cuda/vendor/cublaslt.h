// Products by cuBLASLt. The folders cublaslt/ and no_cublaslt/ define these; one of them is built.
#pragma once

#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cuda::vendor {

/// Launches the product on the stream and returns true. Returns false, without having done
/// anything, if cuBLASLt is not available, is switched off, or does not support these dtypes and
/// strides.
bool matmul(const Stream& stream, const View& out, const View& a, const View& b,
            const MatmulOptions& options);

}  // namespace ferrite::kernels::cuda::vendor
