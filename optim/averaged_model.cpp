#include "ferrite/optim/averaged_model.h"

#include <algorithm>
#include <span>

#include "ferrite/core/stream.h"
#include "ferrite/kernels/average.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/optim/flat_batches.h"
#include "ferrite/optim/layout.h"
#include "ferrite/optim/modes.h"

namespace ferrite::optim {

namespace {

constexpr const char* kOp = "AveragedModel";

/// Whether kernels over many arrays take the pair.
bool is_flat(const Tensor& to, const Tensor& from) {
  if (!is_floating(to.dtype()) || !is_floating(from.dtype()) || !is_dense(to)) return false;
  return to.dtype() == from.dtype() || (to.dtype() == kFloat32 && from.dtype() != kFloat64) ||
         (from.dtype() == kFloat32 && to.dtype() != kFloat64);
}

void copy_all(std::span<const Tensor> to, std::span<const Tensor> from) {
  FlatBatches pairs;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (is_flat(to[i], from[i]))
      pairs.add(to[i], from[i]);
    else
      kernels::copy(current_stream(to[i].device()), to[i], from[i].to(to[i].device()));
    to[i].storage()->bump_version(kOp);
  }
  for (const auto& b : pairs.batches())
    kernels::unscale_all(current_stream(b.device), b.to, b.from, nullptr, nullptr);
}

void check_alike(std::span<const Tensor> averages, std::span<const Tensor> values,
                 const char* what) {
  FERRITE_CHECK(averages.size() == values.size(), ValueError, kOp,
                "expected {} {}, as the model had that the averages were made of, got {}",
                averages.size(), what, values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    FERRITE_CHECK(averages[i].shape() == values[i].shape(), ValueError, kOp,
                  "number {} of the {} is {}, expected {}", i, what, values[i].describe(),
                  averages[i].shape());
}

std::vector<Tensor> detached(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> result;
  for (const Tensor& t : tensors) result.push_back(t.detach());
  return result;
}

std::vector<Tensor> tensors_of(const nn::Module& model) {
  std::vector<Tensor> all = model.parameters();
  const std::vector<Tensor> buffers = model.buffers();
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

}  // namespace

AveragedModel::AveragedModel(const nn::Module& model, const AveragedModelOptions& options)
    : options_(options) {
  if (options.decay)
    FERRITE_CHECK(*options.decay >= 0 && *options.decay <= 1, ValueError, kOp,
                  "expected a decay from 0 to 1, got {}", *options.decay);
  FERRITE_CHECK(options.warmup_gamma > 0 && options.warmup_power > 0, ValueError, kOp,
                "expected warmup_gamma and warmup_power above 0, got {} and {}",
                options.warmup_gamma, options.warmup_power);
  nn::Module& module = register_module("module", model.clone());
  if (options.device) module.to(*options.device);
  if (options.dtype) module.to(*options.dtype);
  module.requires_grad_(false);
  const std::vector<Tensor> parameters = module.parameters();
  n_averaged = zeros(
      {}, {.dtype = kInt64, .device = parameters.empty() ? Device() : parameters[0].device()});
  register_buffer("n_averaged", n_averaged);
}

void AveragedModel::update_parameters(const nn::Module& model) {
  update_parameters(model, model.parameters());
}

void AveragedModel::update_parameters(const nn::Module& model, std::span<const Tensor> parameters) {
  NoGradGuard guard;
  std::vector<Tensor> averages = module().parameters(),
                      values(parameters.begin(), parameters.end());
  check_alike(averages, values, "parameters");
  const std::vector<Tensor> own = module().buffers(), buffers = model.buffers();
  check_alike(own, buffers, "buffers");
  std::vector<Tensor> copies, sources;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const bool averaged = options_.use_buffers && is_floating(own[i].dtype());
    (averaged ? averages : copies).push_back(own[i]);
    (averaged ? values : sources).push_back(buffers[i]);
  }
  average(averages, values);
  copy_all(copies, sources);
}

void AveragedModel::average(std::span<const Tensor> averages, std::span<const Tensor> values) {
  const std::vector<Tensor> to = detached({averages.begin(), averages.end()}),
                            from = detached({values.begin(), values.end()});
  if (options_.avg_fn) {
    const Tensor is_first = n_averaged.eq(zeros_like(n_averaged));
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Tensor value = from[i].to(to[i].device(), to[i].dtype());
      const Tensor count = n_averaged.to(to[i].device());
      to[i].copy_(where(is_first.to(to[i].device()), value, options_.avg_fn(to[i], value, count)));
    }
    n_averaged.add_(1);
    return;
  }
  FlatBatches pairs;
  for (std::size_t i = 0; i < to.size(); ++i) {
    FERRITE_CHECK(is_dense(to[i]), ValueError, kOp, "average {} is a view that is not dense: {}", i,
                  to[i].describe());
    pairs.add(to[i], is_flat(to[i], from[i]) ? from[i] : from[i].to(to[i].dtype()));
    to[i].storage()->bump_version(kOp);
  }
  const Tensor weight = empty({}, {.dtype = kFloat64, .device = n_averaged.device()});
  kernels::average_weight(current_stream(n_averaged.device()), n_averaged.data<std::int64_t>(),
                          weight,
                          {.decay = options_.decay.value_or(-1),
                           .warmup = options_.warmup,
                           .warmup_gamma = options_.warmup_gamma,
                           .warmup_power = options_.warmup_power});
  for (const auto& b : pairs.batches())
    kernels::average_all(current_stream(b.device), b.to, b.from, weight.to(b.device));
}

void AveragedModel::copy_to(nn::Module& model) const {
  NoGradGuard guard;
  const std::vector<Tensor> to = tensors_of(model), from = tensors_of(module());
  check_alike(from, to, "parameters and buffers");
  copy_all(to, from);
}

AveragedWeights::AveragedWeights(nn::Module& model, const AveragedModel& averaged)
    : tensors_(tensors_of(model)) {
  NoGradGuard guard;
  for (const Tensor& t : tensors_) own_.push_back(t.detach().clone());
  averaged.copy_to(model);
}

AveragedWeights::~AveragedWeights() {
  try {
    NoGradGuard guard;
    copy_all(tensors_, own_);
  } catch (const Error&) {
    // The weights on a lost device cannot be restored. The next use of the device reports the loss.
  }
}

namespace detail {

FreshStatistics::FreshStatistics(nn::Module& model) {
  for (nn::Module* m : model.modules()) {
    modes_.emplace_back(m, m->is_training());
    if (auto* const norm = dynamic_cast<nn::BatchNorm*>(m); norm && norm->running_mean.defined()) {
      norms_.emplace_back(norm, norm->options().momentum);
      norm->set_momentum({});
      norm->reset_running_stats();
    }
  }
  model.train();
}

FreshStatistics::~FreshStatistics() {
  for (const auto& [norm, momentum] : norms_) norm->set_momentum(momentum);
  restore_modes(modes_);
}

}  // namespace detail

}  // namespace ferrite::optim
