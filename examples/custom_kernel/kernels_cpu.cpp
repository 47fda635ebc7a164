// The CPU kernels of swiglu, composed of Ferrite's kernels. Only on a GPU are extra passes over
// memory so expensive that a fused kernel pays.
#include "ferrite/kernels/elementwise.h"
#include "ferrite/kernels/unary.h"
#include "kernels.h"

namespace swiglu::cpu {

using ferrite::kernels::BinaryOp;
using ferrite::kernels::UnaryOp;

void forward(const View& out, const View& gate, const View& value) {
  const Stream here;  // runs work at once, in the calling thread
  ferrite::kernels::unary(here, UnaryOp::silu, out, gate);
  ferrite::kernels::binary(here, BinaryOp::mul, out, out, value);
}

void backward(const View& grad_gate, const View& grad_value, const View& grad, const View& gate,
              const View& value) {
  const Stream here;
  ferrite::kernels::unary_backward(here, UnaryOp::silu, grad_gate, grad, gate);
  ferrite::kernels::binary(here, BinaryOp::mul, grad_gate, grad_gate, value);
  ferrite::kernels::unary(here, UnaryOp::silu, grad_value, gate);
  ferrite::kernels::binary(here, BinaryOp::mul, grad_value, grad_value, grad);
}

}  // namespace swiglu::cpu
