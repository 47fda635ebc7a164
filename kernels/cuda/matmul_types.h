// Products by element type, one source file each so that they compile side by side.
#pragma once

#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cuda::own {

void float_product(const Stream& stream, const View& out, const View& a, const View& b,
                   const MatmulOptions& options);
void double_product(const Stream& stream, const View& out, const View& a, const View& b,
                    const MatmulOptions& options);
void half_product(const Stream& stream, const View& out, const View& a, const View& b,
                  const MatmulOptions& options);
void bfloat16_product(const Stream& stream, const View& out, const View& a, const View& b,
                      const MatmulOptions& options);
void integer_product(const Stream& stream, const View& out, const View& a, const View& b,
                     const MatmulOptions& options);
/// Of one row or one column, floating.
void vector_product(const Stream& stream, const View& out, const View& a, const View& b,
                    const MatmulOptions& options);

}  // namespace ferrite::kernels::cuda::own
