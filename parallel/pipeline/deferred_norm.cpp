#include "ferrite/parallel/pipeline/deferred_norm.h"

#include <algorithm>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/record.h"
#include "ferrite/kernels/norm.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"

namespace ferrite::parallel::pipeline {

namespace {

/// The whole batch as one part: the norm computes the same as without it, and exposes its
/// statistics.
class OnePart final : public BatchParts {
 public:
  explicit OnePart(std::vector<Tensor>* seen) : seen_(seen) {}
  Tensor gather(const Tensor& of_this_part) override {
    if (seen_) seen_->push_back(of_this_part);
    return of_this_part.reshape({1, of_this_part.numel()});
  }
  void sum(const Tensor&) override {}
  bool alone() const override { return true; }

 private:
  std::vector<Tensor>* seen_;
};

}  // namespace

DeferredNorms::DeferredNorms(std::span<nn::Module* const> layers) {
  for (nn::Module* layer : layers)
    for (nn::Module* module : layer->modules()) {
      auto* norm = dynamic_cast<nn::BatchNorm*>(module);
      if (!norm || !norm->running_mean.defined()) continue;
      if (std::ranges::none_of(norms_, [&](const Norm& n) { return n.layer == norm; }))
        norms_.push_back({norm});
    }
}

DeferredNorms::MicroBatch::MicroBatch(DeferredNorms& norms) {
  const bool again = autograd::is_recomputing();
  for (Norm& norm : norms.norms_) {
    nn::BatchNorm& layer = *norm.layer;
    if (!layer.is_training() || layer.is_synchronized()) continue;
    deferred_.push_back(&norm);
    layer.set_batch_parts(
        [seen = again ? nullptr : &norm.parts] { return std::make_shared<OnePart>(seen); });
    if (again) continue;  // a recomputation does not change the statistics
    norm.mean = std::exchange(layer.running_mean, Tensor());
    norm.var = std::exchange(layer.running_var, Tensor());
  }
}

DeferredNorms::MicroBatch::~MicroBatch() {
  for (Norm* norm : deferred_) {
    norm->layer->set_batch_parts(nullptr);
    if (!norm->mean.defined()) continue;
    norm->layer->running_mean = std::exchange(norm->mean, Tensor());
    norm->layer->running_var = std::exchange(norm->var, Tensor());
  }
}

void DeferredNorms::begin() {
  for (Norm& norm : norms_) norm.parts.clear();
}

void DeferredNorms::commit() {
  for (Norm& norm : norms_) commit(norm);
}

void DeferredNorms::commit(Norm& norm) {
  if (norm.parts.empty()) return;
  const NoGradGuard no_grad;
  nn::BatchNorm& layer = *norm.layer;
  const Tensor parts = stack(std::exchange(norm.parts, {}));
  const std::int64_t channels = layer.running_mean.numel();
  const Stream stream = current_stream(parts.device());
  const TensorOptions options{.dtype = parts.dtype(), .device = parts.device()};
  const Tensor mean = empty({channels}, options), m2 = empty({channels}, options),
               invstd = empty({channels}, options), count = empty({1}, options);
  kernels::combine_stats(stream, mean, m2, count, parts.narrow(1, 0, channels),
                         parts.narrow(1, channels, channels), parts.select(1, 2 * channels));
  layer.num_batches_tracked.add_(1);
  const auto momentum = layer.options().momentum;
  // Without momentum the running statistics are the mean over all batches.
  const Tensor to_mean = momentum ? layer.running_mean : zeros_like(layer.running_mean),
               to_var = momentum ? layer.running_var : zeros_like(layer.running_var);
  kernels::batch_norm_finish(stream, invstd, to_mean, to_var, mean, m2, count, 0,
                             momentum.value_or(1), layer.options().eps);
  if (momentum) {
    autograd::changed_inplace(to_mean, "batch_norm");
    autograd::changed_inplace(to_var, "batch_norm");
    return;
  }
  layer.running_mean.add_((to_mean - layer.running_mean) / layer.num_batches_tracked);
  layer.running_var.add_((to_var - layer.running_var) / layer.num_batches_tracked);
}

}  // namespace ferrite::parallel::pipeline
