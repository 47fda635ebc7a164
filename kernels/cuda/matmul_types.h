// Products by element type, one source file each, so that they compile in parallel.
#pragma once

#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cuda::native {

decltype(cuda::matmul) float_product, double_product, half_product, bfloat16_product,
    integer_product;
/// Products of one row or one column, for floating dtypes.
decltype(cuda::matmul) vector_product;

}  // namespace ferrite::kernels::cuda::native
