#include "swiglu.h"

#include "ferrite/autograd/record.h"
#include "kernels.h"

namespace swiglu {

using namespace ferrite;
using autograd::Gradients;
using autograd::Needs;
using autograd::Saved;

Tensor swiglu(const Tensor& gate, const Tensor& value) {
  FERRITE_CHECK(gate.defined() && value.defined(), ValueError, "swiglu", "an input is undefined");
  FERRITE_CHECK(gate.shape() == value.shape(), ShapeError, "swiglu",
                "expected equal shapes, got {} and {}", gate.describe(), value.describe());
  FERRITE_CHECK(is_floating(gate.dtype()) && gate.dtype() == value.dtype(), DTypeError, "swiglu",
                "expected one floating type, got {} and {}", gate.describe(), value.describe());
  FERRITE_CHECK(gate.device() == value.device(), DeviceError, "swiglu",
                "expected one device, got {} and {}", gate.describe(), value.describe());

  const auto [g, v] = no_grad([&] { return std::pair(gate.contiguous(), value.contiguous()); });
  const Tensor out = empty(gate.shape(), {.dtype = gate.dtype(), .device = gate.device()});
  forward(current_stream(out.device()), out, g, v);

  if (autograd::recording(gate, value))
    autograd::record(out, "swiglu", {gate, value},
                     [g = Saved(g), v = Saved(v)](const Tensor& grad, Needs) -> Gradients {
                       // It consists of kernels, not ops, so it cannot be differentiated again.
                       autograd::once_differentiable();
                       const Tensor dy = grad.contiguous();
                       const Tensor grad_gate = empty_like(dy), grad_value = empty_like(dy);
                       backward(current_stream(dy.device()), grad_gate, grad_value, dy, g.get(),
                                v.get());
                       return {grad_gate, grad_value};
                     });
  return out;
}

}  // namespace swiglu
