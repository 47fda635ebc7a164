#include "ferrite/autograd/zero_grad.h"

#include <algorithm>
#include <vector>

#include "ferrite/core/profiler/range.h"
#include "ferrite/core/stream.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/multi_tensor.h"

namespace ferrite::autograd {

namespace {

/// Arrays to be cleared together.
struct Batch {
  Device device;
  kernels::FlatTensors arrays;
};

void add_to(std::vector<Batch>& batches, const Tensor& t) {
  auto batch = std::ranges::find_if(batches, [&](const Batch& b) {
    return b.device == t.device() && b.arrays.dtype == t.dtype();
  });
  if (batch == batches.end()) {
    batches.push_back({t.device(), {.arrays = {}, .dtype = t.dtype()}});
    batch = batches.end() - 1;
  }
  batch->arrays.arrays.push_back({t.data_ptr(), t.numel()});
}

}  // namespace

void zero_grad(std::span<const Tensor> parameters, bool set_to_none) {
  const profiler::OpRange range("zero_grad");
  std::vector<Batch> batches;
  for (const Tensor& parameter : parameters) {
    Tensor grad = parameter.grad();
    if (!grad.defined()) continue;
    if (set_to_none) {
      parameter.set_grad({});
      continue;
    }
    if (grad.requires_grad()) parameter.set_grad(grad = grad.detach());
    if (grad.is_contiguous() || grad.is_contiguous(kChannelsLast))
      add_to(batches, grad);
    else
      kernels::fill(current_stream(grad.device()), grad, 0);
    grad.storage()->bump_version("zero_grad");
  }
  for (const Batch& batch : batches) kernels::zero_all(current_stream(batch.device), batch.arrays);
}

}  // namespace ferrite::autograd
