#include "ferrite/kernels/unary.h"

#include "ferrite/kernels/cpu/unary.h"
#include "ferrite/kernels/cuda/unary.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void unary(const Stream& stream, UnaryOp op, const View& out, const View& in,
           const UnaryParams& p) {
  launch(
      stream, "unary", [=] { cpu::unary(op, out, in, p); },
      [&] { cuda::unary(stream, op, out, in, p); });
}
void unary_backward(const Stream& stream, UnaryOp op, const View& out, const View& grad,
                    const View& saved, const UnaryParams& p) {
  launch(
      stream, "unary_backward", [=] { cpu::unary_backward(op, out, grad, saved, p); },
      [&] { cuda::unary_backward(stream, op, out, grad, saved, p); });
}
void predicate(const Stream& stream, Predicate op, const View& out, const View& in) {
  launch(
      stream, "predicate", [=] { cpu::predicate(op, out, in); },
      [&] { cuda::predicate(stream, op, out, in); });
}

}  // namespace ferrite::kernels
