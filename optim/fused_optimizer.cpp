#include "ferrite/optim/fused_optimizer.h"

#include <algorithm>

#include "ferrite/optim/layout.h"

namespace ferrite::optim {

FusedBatches::FusedBatches(std::vector<Optimizer::Update> updates, const StateNames& names,
                           const char* scalar, bool mixes, const char* op)
    : mixes_(mixes), updates_(std::move(updates)) {
  for (Optimizer::Update& u : updates_) add(u, names, scalar, op);
}

void FusedBatches::add(Optimizer::Update& u, const StateNames& names, const char* scalar,
                       const char* op) {
  const bool has_master = !u.updated.is_same(u.parameter), dense = is_dense(u.parameter);
  const Tensor dense_copy = has_master || dense ? Tensor() : densely(u.parameter);
  const Tensor& updated = dense_copy.defined() ? dense_copy : u.updated;
  if (!dense) not_dense_.emplace_back(u.parameter, updated);
  if (!same_layout(u.grad, updated)) u.grad = laid_out_like(u.grad, updated);
  const Tensor* const copy = has_master && dense ? &u.parameter : nullptr;
  kernels::OptimTensor& t = add_to_batch(updated, u.grad, copy);
  t.param = updated.data_ptr();
  t.grad = u.grad.data_ptr();
  t.numel = updated.numel();
  t.adapts = updated.dim() > 1;
  t.step = u.state.step.data<std::int64_t>();
  for (std::size_t k = 0; k < names.size(); ++k)
    if (names[k]) t.state[k] = u.state.get(names[k], u.updated.shape(), u.updated, op).data_ptr();
  if (scalar) t.scalar = u.state.get(scalar, {}, u.updated, op).data_ptr();
  if (copy) t.copy = copy->data_ptr();
}

namespace {

/// Adds an update to a batch of float32 parameters whose gradients, or copies, have other types so
/// far; null if these do not go together.
kernels::OptimTensor* mix(kernels::OptimBatch& batch, std::optional<DType> grad_dtype,
                          const Tensor* copy) {
  if (grad_dtype && batch.grad_dtype && *grad_dtype != *batch.grad_dtype) return nullptr;
  const bool copies = std::ranges::any_of(batch.tensors, [](const auto& t) { return t.copy; });
  if (copy && copies && batch.copy_dtype != copy->dtype()) return nullptr;
  if (copy) batch.copy_dtype = copy->dtype();
  if (grad_dtype && !batch.grad_dtype) {
    batch.grad_dtype = grad_dtype;
    for (kernels::OptimTensor& t : batch.tensors) t.wide_grad = true;
  }
  kernels::OptimTensor& t = batch.tensors.emplace_back();
  t.wide_grad = batch.grad_dtype && !grad_dtype;
  return &t;
}

}  // namespace

kernels::OptimTensor& FusedBatches::add_to_batch(const Tensor& updated, const Tensor& grad,
                                                 const Tensor* copy) {
  const DType dtype = updated.dtype();
  const auto grad_dtype = grad.dtype() == dtype ? std::nullopt : std::optional(grad.dtype());
  const DType copy_dtype = copy ? copy->dtype() : kFloat16;
  if (mixes_ && dtype == kFloat32)
    for (auto& [device, batch] : batches_)
      if (batch.dtype == dtype && device == updated.device())
        if (kernels::OptimTensor* const t = mix(batch, grad_dtype, copy)) return *t;
  for (auto& [device, batch] : batches_)
    if (batch.dtype == dtype && batch.grad_dtype == grad_dtype && batch.copy_dtype == copy_dtype &&
        device == updated.device())
      return batch.tensors.emplace_back();
  batches_.push_back(
      {updated.device(), {.dtype = dtype, .grad_dtype = grad_dtype, .copy_dtype = copy_dtype}});
  batches_.back().kernel.tensors.reserve(updates_.size());
  return batches_.back().kernel.tensors.emplace_back();
}

void FusedBatches::write_back() const {
  for (const auto& [parameter, updated] : not_dense_)
    kernels::copy(current_stream(parameter.device()), parameter, updated);
}

}  // namespace ferrite::optim
