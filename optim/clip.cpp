#include "ferrite/optim/clip.h"

#include <utility>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/stream.h"
#include "ferrite/optim/flat_batches.h"

namespace ferrite::optim {

namespace {

Tensor number_on(const Device& device) { return empty({}, {.dtype = kFloat64, .device = device}); }

struct Norm {
  Tensor norm, scale;
};

/// The norm of all arrays, and what clips it to `max_norm`, on the device of the first.
Norm norm_of(const FlatBatches& arrays, double max_norm, double norm_type, bool check,
             const char* op) {
  FERRITE_CHECK(norm_type > 0, ValueError, op, "expected a norm_type above 0, got {}", norm_type);
  const Device device = arrays.batches().empty() ? Device() : arrays.batches()[0].device;
  std::vector<Tensor> sums;
  std::vector<const double*> pointers;
  for (const auto& batch : arrays.batches()) {
    const Tensor sum = number_on(batch.device);
    kernels::sum_of_powers(current_stream(batch.device), batch.to, norm_type, sum);
    sums.push_back(sum.to(device));
    pointers.push_back(sums.back().data<double>());
  }
  Norm result{number_on(device), number_on(device)};
  kernels::clip_scale(current_stream(device), std::move(pointers), norm_type, max_norm, result.norm,
                      result.scale, check);
  return result;
}

void scale(const FlatBatches& gradients, const Tensor& scale, const char* op) {
  for (const auto& batch : gradients.batches())
    kernels::scale_all(current_stream(batch.device), batch.to, scale.to(batch.device));
  gradients.write_back(op);
}

}  // namespace

Tensor clip_grad_norm_(TensorList parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  NoGradGuard guard;
  const auto gradients = FlatBatches::of_gradients(parameters);
  const Norm found = norm_of(gradients, max_norm, norm_type, error_if_nonfinite, "clip_grad_norm_");
  scale(gradients, found.scale, "clip_grad_norm_");
  return found.norm;
}

void clip_grad_value_(TensorList parameters, double clip_value) {
  FERRITE_CHECK(clip_value >= 0, ValueError, "clip_grad_value_",
                "expected a clip_value of 0 or more, got {}", clip_value);
  NoGradGuard guard;
  const auto gradients = FlatBatches::of_gradients(parameters);
  for (const auto& batch : gradients.batches())
    kernels::clamp_all(current_stream(batch.device), batch.to, clip_value);
  gradients.write_back("clip_grad_value_");
}

Tensor get_total_norm(TensorList tensors, double norm_type, bool error_if_nonfinite) {
  NoGradGuard guard;
  FlatBatches arrays;
  for (const Tensor& t : tensors) arrays.add(t);
  return norm_of(arrays, 1, norm_type, error_if_nonfinite, "get_total_norm").norm;
}

void clip_grads_with_norm_(TensorList parameters, double max_norm, const Tensor& total_norm) {
  FERRITE_CHECK(total_norm.defined() && total_norm.numel() == 1 && is_floating(total_norm.dtype()),
                ValueError, "clip_grads_with_norm_", "expected one floating-point number, got {}",
                total_norm.describe());
  NoGradGuard guard;
  const Tensor known = total_norm.to(kFloat64);
  const auto gradients = FlatBatches::of_gradients(parameters);
  const Device& device = total_norm.device();
  const Tensor norm = number_on(device), factor = number_on(device);
  kernels::clip_scale(current_stream(device), {known.data<double>()}, 1, max_norm, norm, factor,
                      false);
  scale(gradients, factor, "clip_grads_with_norm_");
}

}  // namespace ferrite::optim
