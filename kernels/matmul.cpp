#include "kernels/matmul.h"

#include "kernels/cpu/matmul.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/reduce.h"
#include "kernels/launch.h"

namespace ferrite::kernels {

void matmul(const Stream& stream, const View& out, const View& a, const View& b,
            const MatmulOptions& options) {
  FERRITE_CHECK(
      is_floating(out.dtype) || (options.activation == Activation::none && !options.row_sums.data),
      DTypeError, "matmul", "activations and sums of rows are for floats, not {}", out.dtype);
  launch(
      stream, "matmul", [=] { cpu::matmul(out, a, b, options); },
      [&] { cuda::matmul(stream, out, a, b, options); });
}
void column_sum(const Stream& stream, const View& out, const View& a) {
  launch(
      stream, "column_sum", [=] { cpu::column_sum(out, a); },
      [&] { cuda::column_sum(stream, out, a); });
}

}  // namespace ferrite::kernels
