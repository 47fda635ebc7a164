#include "ferrite/kernels/matmul.h"

#include <algorithm>

#include "ferrite/kernels/cuda/matmul_types.h"
#include "ferrite/kernels/cuda/native.h"
#include "ferrite/kernels/cuda/vendor/cublaslt.h"
#include "ferrite/kernels/unary.h"

namespace ferrite::kernels::cuda {

void matmul(const Stream& stream, const View& out, const View& a, const View& b,
            const MatmulOptions& options) {
  if (!vendor::matmul(stream, out, a, b, options)) native::matmul(stream, out, a, b, options);
}

namespace native {

namespace {

void product(const Stream& stream, const View& out, const View& a, const View& b,
             const MatmulOptions& options) {
  const std::int64_t rows = out.sizes[out.ndim - 2], columns = out.sizes[out.ndim - 1];
  const std::int64_t depth = a.sizes[a.ndim - 1];
  FERRITE_CHECK(std::max({rows, columns, depth}) < std::int64_t{1} << 31, ValueError, "matmul",
                "expected sizes below 2^31 on a CUDA device, got [{}, {}] by [{}, {}]", rows, depth,
                depth, columns);
  if ((rows == 1 || columns == 1) && is_floating(out.dtype))
    return vector_product(stream, out, a, b, options);
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

}  // namespace

void matmul(const Stream& stream, const View& out, const View& a, const View& b,
            const MatmulOptions& options) {
  if (options.row_sums.data) cuda::column_sum(stream, options.row_sums, transposed(a));
  if (out.numel == 0) return;
  product(stream, out, a, b, options);
  if (options.relu_of.data)
    cuda::unary_backward(stream, UnaryOp::relu, out, out, options.relu_of, {});
}

}  // namespace native

}  // namespace ferrite::kernels::cuda
