#include "kernels/cuda/matmul.h"

#include "kernels/cuda/matmul_types.h"
#include "kernels/cuda/own.h"

namespace ferrite::kernels::cuda {

void matmul(const Stream& stream, const View& out, const View& a, const View& b,
            const MatmulOptions& options) {
  own::matmul(stream, out, a, b, options);
}

void own::matmul(const Stream& stream, const View& out, const View& a, const View& b,
                 const MatmulOptions& options) {
  if (out.numel == 0) return;
  switch (out.dtype) {
    case kFloat32:
      return float_product(stream, out, a, b, options);
    case kFloat64:
      return double_product(stream, out, a, b, options);
    case kBFloat16:
      return bfloat16_product(stream, out, a, b, options);
    case kFloat16:
      return half_product(stream, out, a, b, options);
    default:
      return integer_product(stream, out, a, b, options);
  }
}

}  // namespace ferrite::kernels::cuda
