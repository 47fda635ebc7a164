#include "ferrite/optim/amp/models.h"

#include <memory>
#include <unordered_set>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/norm.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/copy.h"

namespace ferrite::optim::amp {

namespace {

void convert(const Tensor& t, DType dtype) {
  if (is_floating(t.dtype()) && t.dtype() != dtype) t.set_data(t.detach().to(dtype));
}

void convert(std::span<Tensor> tensors, DType dtype) {
  for (Tensor& t : tensors)
    if (t.defined() && is_floating(t.dtype())) t = t.to(dtype);
}

}  // namespace

void convert(nn::Module& model, DType dtype, bool keep_batchnorm_fp32) {
  NoGradGuard guard;
  std::unordered_set<const TensorImpl*> kept;
  for (nn::Module* module : model.modules())
    if (keep_batchnorm_fp32 && dynamic_cast<nn::BatchNorm*>(module))
      for (const auto& tensors : {module->parameters(), module->buffers()})
        for (const Tensor& t : tensors) kept.insert(t.impl());
  for (const auto& tensors : {model.parameters(), model.buffers()})
    for (const Tensor& t : tensors) {
      if (kept.contains(t.impl())) continue;
      if (const Tensor grad = t.grad(); grad.defined() && is_floating(t.dtype())) {
        t.set_grad({});
        convert(t, dtype);
        t.set_grad(grad.to(dtype));
      } else {
        convert(t, dtype);
      }
    }
}

void wrap_forward(nn::Module& model, const Properties& p, DType outputs) {
  if (p.autocast)
    model.register_forward_scope([dtype = p.dtype] {
      return std::make_shared<AutocastGuard>(AutocastOptions{.dtype = dtype});
    });
  if (p.cast_model_type)
    model.register_forward_pre_hook(
        [dtype = *p.cast_model_type](nn::Module&, std::span<Tensor> inputs) {
          convert(inputs, dtype);
        });
  if (p.autocast || p.cast_model_type)
    model.register_forward_hook(
        [outputs](nn::Module&, std::span<const Tensor>, std::span<Tensor> results) {
          convert(results, outputs);
        });
}

}  // namespace ferrite::optim::amp
