#include "ferrite/optim/gradients.h"

#include <algorithm>

#include "ferrite/optim/layout.h"

namespace ferrite::optim {

void Gradients::add_array(Tensor tensor, std::size_t capacity) {
  if (!tensor.defined()) return;
  Tensor dense = densely(tensor);
  auto batch = std::ranges::find_if(batches_, [&](const Batch& b) {
    return b.arrays.dtype == dense.dtype() && b.device == dense.device();
  });
  if (batch == batches_.end()) {
    batches_.push_back({dense.device(), {.arrays = {}, .dtype = dense.dtype()}});
    batch = batches_.end() - 1;
    batch->arrays.arrays.reserve(capacity);
  }
  batch->arrays.arrays.push_back({dense.data_ptr(), dense.numel()});
  grads_.emplace_back(std::move(tensor), std::move(dense));
}

void Gradients::add(std::span<const Tensor> parameters) {
  grads_.reserve(grads_.size() + parameters.size());
  for (const Tensor& parameter : parameters) add_array(parameter.grad(), parameters.size());
}

void Gradients::add_arrays(std::span<const Tensor> tensors) {
  grads_.reserve(grads_.size() + tensors.size());
  for (const Tensor& t : tensors) add_array(t, tensors.size());
}

void Gradients::write_back(const char* op) const {
  for (const auto& [grad, dense] : grads_) {
    if (!dense.is_same(grad)) kernels::copy(current_stream(grad.device()), grad, dense);
    grad.storage()->bump_version(op);
  }
}

}  // namespace ferrite::optim
