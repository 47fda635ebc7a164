// The way to each device. On the host Ferrite's own kernels do the parts; only on a GPU do passes
// over memory cost so much that one kernel for all of it is worth writing.
#include "kernels.h"

#include "ferrite/kernels/elementwise.h"
#include "ferrite/kernels/unary.h"

namespace swiglu {

using ferrite::kernels::BinaryOp;
using ferrite::kernels::UnaryOp;

void forward(const Stream& stream, const View& out, const View& gate, const View& value) {
  if (stream.device().is_cuda()) return cuda::forward(stream, out, gate, value);
  ferrite::kernels::unary(stream, UnaryOp::silu, out, gate);
  ferrite::kernels::binary(stream, BinaryOp::mul, out, out, value);
}

void backward(const Stream& stream, const View& grad_gate, const View& grad_value, const View& grad,
              const View& gate, const View& value) {
  if (stream.device().is_cuda())
    return cuda::backward(stream, grad_gate, grad_value, grad, gate, value);
  ferrite::kernels::unary_backward(stream, UnaryOp::silu, grad_gate, grad, gate);
  ferrite::kernels::binary(stream, BinaryOp::mul, grad_gate, grad_gate, value);
  ferrite::kernels::unary(stream, UnaryOp::silu, grad_value, gate);
  ferrite::kernels::binary(stream, BinaryOp::mul, grad_value, grad_value, grad);
}

}  // namespace swiglu
