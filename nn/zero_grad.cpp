#include "nn/zero_grad.h"

#include "core/stream.h"
#include "kernels/copy.h"

namespace ferrite::nn {

void zero_grad(std::span<const Tensor> parameters, bool set_to_none) {
  for (const Tensor& parameter : parameters) {
    Tensor grad = parameter.grad();
    if (!grad.defined()) continue;
    if (set_to_none) {
      parameter.set_grad({});
      continue;
    }
    if (grad.requires_grad()) parameter.set_grad(grad = grad.detach());
    kernels::fill(current_stream(grad.device()), grad, 0);
    grad.storage()->bump_version("zero_grad");
  }
}

}  // namespace ferrite::nn
