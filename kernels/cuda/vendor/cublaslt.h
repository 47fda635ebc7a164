// Products by cuBLASLt. The folders cublaslt/ and no_cublaslt/ define these; one of them is built.
#pragma once

#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cuda::vendor {

/// Puts the product on the stream, or answers false, having done nothing, where cuBLASLt is not
/// there, is switched off, or does not take these dtypes and strides.
bool matmul(const Stream& stream, const View& out, const View& a, const View& b,
            const MatmulOptions& options);

}  // namespace ferrite::kernels::cuda::vendor
