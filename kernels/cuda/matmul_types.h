// Products by element type, one source file each so that they compile side by side.
#pragma once

#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cuda::native {

decltype(cuda::matmul) float_product, double_product, half_product, bfloat16_product,
    integer_product;
/// Of one row or one column, floating.
decltype(cuda::matmul) vector_product;

}  // namespace ferrite::kernels::cuda::native
