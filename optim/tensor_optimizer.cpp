#include "ferrite/optim/tensor_optimizer.h"

#include "ferrite/kernels/where.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/unary.h"

namespace ferrite::optim {

namespace {

/// Steps compute in float32 where parameters have 16 bits.
DType step_dtype(const Tensor& t) { return itemsize(t.dtype()) == 2 ? kFloat32 : t.dtype(); }

Tensor unscaled(const Tensor& grad, DType dtype, const Tensor& inv_scale) {
  const Tensor wide = grad.detach().to(dtype);
  return inv_scale.defined() ? wide.mul(inv_scale.reshape({})) : wide;
}

bool is_on_device(const Tensor& t) { return t.defined() && !t.device().is_host(); }

}  // namespace

bool ParameterStep::is_skipped(const Optimizer::Controls& c) {
  return c.found_inf.defined() && !is_on_device(c.found_inf) && c.found_inf.item<float>() != 0;
}

ParameterStep::ParameterStep(const Optimizer& optimizer, const Optimizer::Update& u,
                             const Optimizer::Controls& c)
    : skip_(is_on_device(c.found_inf) ? ne(c.found_inf.reshape({}), 0) : Tensor()),
      param(changeable(u.updated)),
      grad(unscaled(u.grad, param.dtype(), c.inv_scale)),
      lr(c.lr),
      momentum(c.momentum),
      optimizer_(optimizer),
      update_(u) {}

Tensor ParameterStep::changeable(const Tensor& stored) {
  const DType dtype = step_dtype(stored);
  if (dtype == stored.dtype() && !skip_.defined()) return stored;
  return copies_
      .emplace_back(stored, dtype == stored.dtype() ? stored.detach().clone() : stored.to(dtype))
      .second;
}

Tensor ParameterStep::state(std::string_view name) {
  const Tensor& stored = update_.state.get(name, optimizer_.state_shape(name, update_.parameter),
                                           update_.updated, optimizer_.name_);
  for (const auto& [known, copy] : copies_)
    if (known.is_same(stored)) return copy;
  return changeable(stored);
}

Tensor ParameterStep::step() const { return update_.state.step + 1; }

void ParameterStep::finish() {
  const auto store = [this](const Tensor& to, const Tensor& value) {
    if (!skip_.defined()) {
      to.copy_(value);
    } else if (to.dtype() == value.dtype()) {
      kernels::where(current_stream(to.device()), to, skip_.expand(to.shape()), to, value);
      to.storage()->bump_version(optimizer_.name_);
    } else {
      to.copy_(where(skip_, to, value));
    }
  };
  for (const auto& [stored, copy] : copies_) store(stored, copy);
  if (!update_.updated.is_same(update_.parameter)) store(update_.parameter, update_.updated);
  if (skip_.defined())
    update_.state.step.add_(logical_not(skip_));
  else
    update_.state.step.add_(1);
}

}  // namespace ferrite::optim
