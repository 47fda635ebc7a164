#include "ferrite/kernels/softmax.h"

#include "ferrite/kernels/cpu/softmax.h"
#include "ferrite/kernels/cuda/softmax.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void softmax(const Stream& stream, SoftmaxKind kind, const View& out, const View& in, int dim) {
  launch(
      stream, "softmax", [=] { cpu::softmax(kind, out, in, dim); },
      [&] { cuda::softmax(stream, kind, out, in, dim); });
}
void softmax_backward(const Stream& stream, SoftmaxKind kind, const View& out, const View& grad,
                      const View& y, int dim) {
  launch(
      stream, "softmax_backward", [=] { cpu::softmax_backward(kind, out, grad, y, dim); },
      [&] { cuda::softmax_backward(stream, kind, out, grad, y, dim); });
}

}  // namespace ferrite::kernels
