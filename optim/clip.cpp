#include "optim/clip.h"

#include <utility>
#include <vector>

#include "autograd/grad_mode.h"
#include "core/stream.h"
#include "kernels/optim.h"
#include "optim/gradients.h"

namespace ferrite::optim {

namespace {

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
