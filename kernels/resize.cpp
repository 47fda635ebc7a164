#include "ferrite/kernels/resize.h"

#include "ferrite/kernels/cpu/resize.h"
#include "ferrite/kernels/cuda/resize.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void resize2d(const Stream& stream, const Resize2d& resize, const View& out, const View& in) {
  launch(
      stream, "interpolate", [=] { cpu::resize2d(resize, out, in); },
      [&] { cuda::resize2d(stream, resize, out, in); });
}

void resize2d_backward(const Stream& stream, const Resize2d& resize, const View& grad_in,
                       const View& grad_out) {
  launch(
      stream, "interpolate", [=] { cpu::resize2d_backward(resize, grad_in, grad_out); },
      [&] { cuda::resize2d_backward(stream, resize, grad_in, grad_out); });
}

}  // namespace ferrite::kernels
