#include "optim/clip.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "autograd/grad_mode.h"
#include "kernels/optim.h"
#include "optim/layout.h"

namespace ferrite::optim {

namespace {

/// The gradients of parameters as dense arrays, one batch a device and dtype.
class Gradients {
 public:
  struct Batch {
    Device device;
    kernels::FlatTensors arrays;
  };

  explicit Gradients(std::span<const Tensor> parameters) {
    for (const Tensor& parameter : parameters) {
      const Tensor grad = parameter.grad();
      if (!grad.defined()) continue;
      const Tensor dense = densely(grad);
      grads_.emplace_back(grad, dense);
      auto batch = std::ranges::find_if(batches_, [&](const Batch& b) {
        return b.device == grad.device() && b.arrays.dtype == grad.dtype();
      });
      if (batch == batches_.end()) {
        batches_.push_back({grad.device(), {.arrays = {}, .dtype = grad.dtype()}});
        batch = batches_.end() - 1;
      }
      batch->arrays.arrays.push_back({dense.data_ptr(), dense.numel()});
    }
  }
  const std::vector<Batch>& batches() const { return batches_; }

  /// After the arrays were changed.
  void write_back(const char* op) const {
    for (const auto& [grad, dense] : grads_) {
      if (!dense.is_same(grad)) kernels::copy(current_stream(grad.device()), grad, dense);
      grad.storage()->bump_version(op);
    }
  }

 private:
  std::vector<Batch> batches_;
  std::vector<std::pair<Tensor, Tensor>> grads_;
};

Tensor number_on(const Device& device) { return empty({}, {.dtype = kFloat64, .device = device}); }

}  // namespace

Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, double norm_type) {
  FERRITE_CHECK(norm_type > 0, ValueError, "clip_grad_norm_",
                "expected a norm_type above 0, got {}", norm_type);
  NoGradGuard guard;
  const Gradients gradients(parameters);
  const Device device = gradients.batches().empty() ? Device() : gradients.batches()[0].device;
  std::vector<Tensor> sums;
  std::vector<const double*> pointers;
  for (const auto& batch : gradients.batches()) {
    const Tensor sum = number_on(batch.device);
    kernels::sum_of_powers(current_stream(batch.device), batch.arrays, norm_type, sum);
    sums.push_back(sum.to(device));
    pointers.push_back(sums.back().data<double>());
  }
  const Tensor norm = number_on(device), scale = number_on(device);
  kernels::clip_scale(current_stream(device), std::move(pointers), norm_type, max_norm, norm,
                      scale);
  for (const auto& batch : gradients.batches())
    kernels::scale_all(current_stream(batch.device), batch.arrays, scale.to(batch.device));
  gradients.write_back("clip_grad_norm_");
  return norm;
}

void clip_grad_value_(std::span<const Tensor> parameters, double clip_value) {
  FERRITE_CHECK(clip_value >= 0, ValueError, "clip_grad_value_",
                "expected a clip_value of 0 or more, got {}", clip_value);
  NoGradGuard guard;
  const Gradients gradients(parameters);
  for (const auto& batch : gradients.batches())
    kernels::clamp_all(current_stream(batch.device), batch.arrays, clip_value);
  gradients.write_back("clip_grad_value_");
}

}  // namespace ferrite::optim
