#include "ferrite/optim/flat_batches.h"

#include <algorithm>

#include "ferrite/optim/layout.h"

namespace ferrite::optim {

FlatBatches FlatBatches::of_gradients(std::span<const Tensor> parameters) {
  FlatBatches all;
  all.tensors_.reserve(parameters.size());
  for (const Tensor& p : parameters) all.add(p.grad());
  return all;
}

FlatBatches::Batch& FlatBatches::batch_for(const Tensor& to, DType from) {
  auto batch = std::ranges::find_if(batches_, [&](const Batch& b) {
    return b.device == to.device() && b.to.dtype == to.dtype() && b.from.dtype == from;
  });
  if (batch == batches_.end()) {
    batches_.push_back({to.device(), {{}, to.dtype()}, {{}, from}});
    batch = batches_.end() - 1;
    batch->to.arrays.reserve(tensors_.capacity());
  }
  return *batch;
}

void FlatBatches::add(const Tensor& tensor) {
  if (!tensor.defined()) return;
  const Tensor dense = densely(tensor);
  batch_for(dense, dense.dtype()).to.arrays.push_back({dense.data_ptr(), dense.numel()});
  tensors_.emplace_back(tensor, dense);
}

void FlatBatches::add(const Tensor& to, const Tensor& from) {
  const Tensor near = laid_out_like(from.to(to.device()), to);
  Batch& batch = batch_for(to, near.dtype());
  batch.to.arrays.push_back({to.data_ptr(), to.numel()});
  batch.from.arrays.push_back({near.data_ptr(), near.numel()});
  tensors_.emplace_back(to, near);
}

void FlatBatches::write_back(const char* op) const {
  for (const auto& [tensor, dense] : tensors_) {
    if (!dense.is_same(tensor)) kernels::copy(current_stream(tensor.device()), tensor, dense);
    tensor.storage()->bump_version(op);
    tensor.storage()->count_rescaling();
  }
}

}  // namespace ferrite::optim
