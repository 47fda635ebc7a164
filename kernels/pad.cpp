#include "ferrite/kernels/pad.h"

#include "ferrite/kernels/cpu/pad.h"
#include "ferrite/kernels/cuda/pad.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void pad(const Stream& stream, const View& out, const View& x, const Shape& before, PadMode mode,
         Scalar value) {
  launch(
      stream, "pad", [=] { cpu::pad(out, x, before, mode, value); },
      [&] { cuda::pad(stream, out, x, before, mode, value); });
}

void pad_backward(const Stream& stream, const View& grad_x, const View& grad, int dim,
                  std::int64_t before, PadMode mode) {
  launch(
      stream, "pad_backward", [=] { cpu::pad_backward(grad_x, grad, dim, before, mode); },
      [&] { cuda::pad_backward(stream, grad_x, grad, dim, before, mode); });
}

}  // namespace ferrite::kernels
