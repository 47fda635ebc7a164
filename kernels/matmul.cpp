#include "ferrite/kernels/matmul.h"

#include "ferrite/kernels/cpu/matmul.h"
#include "ferrite/kernels/cuda/matmul.h"
#include "ferrite/kernels/cuda/reduce.h"
#include "ferrite/kernels/launch.h"

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
