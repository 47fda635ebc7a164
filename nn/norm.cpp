#include "ferrite/nn/norm.h"

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/init.h"
#include "ferrite/nn/repr.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"

namespace ferrite::nn {

namespace {

/// PyTorch 2.15 always prints bias. It is printed here only where `.bias = false` matters, so that
/// the text of other norms stays that of older versions.
const char* bias_repr(bool affine, bool bias) { return affine && !bias ? ", bias=False" : ""; }

}  // namespace

NormBase::NormBase(std::int64_t num_features, bool affine, bool track_running_stats, bool with_bias)
    : num_features_(num_features) {
  if (affine) {
    weight = empty({num_features});
    if (with_bias) bias = empty({num_features});
  }
  if (track_running_stats) {
    running_mean = empty({num_features});
    running_var = empty({num_features});
    num_batches_tracked = empty({}, {.dtype = kInt64});
  }
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  register_buffer("running_mean", running_mean);
  register_buffer("running_var", running_var);
  register_buffer("num_batches_tracked", num_batches_tracked);
  reset_parameters();
  reset_running_stats();
}

void NormBase::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}

void NormBase::reset_running_stats() {
  if (!running_mean.defined()) return;
  init::zeros_(running_mean);
  init::ones_(running_var);
  init::zeros_(num_batches_tracked);
}

// ---- Batch norm

BatchNorm::BatchNorm(std::int64_t num_features, const BatchNormOptions& options)
    : NormBase(num_features, options.affine, options.track_running_stats, options.bias),
      options_(options) {}

Tensor BatchNorm::forward(const Tensor& input) { return forward(input, {}); }

Tensor BatchNorm::forward(const Tensor& input, BatchNormFuncOptions options) {
  check_input(input);
  if (is_identity_) {
    FERRITE_CHECK(!options.shortcut, ValueError, "BatchNorm",
                  "a norm that returns its input computes none for the shortcut: add its output as "
                  "the residual");
    const Tensor sum = options.residual.defined() ? input + options.residual : input;
    const Tensor out = options.relu ? relu(sum) : sum;
    return options.max_pool ? max_pool2d(out, *options.max_pool) : out;
  }
  options.training = uses_batch_statistics();
  options.momentum = options_.momentum.value_or(1);
  options.eps = options_.eps;
  if (is_training() && batch_parts_) options.parts = batch_parts();
  if (!is_training() || !running_mean.defined())
    return batch_norm(input, running_mean, running_var, weight, bias, options);
  // A checkpoint that recomputes a batch must not count it twice.
  if (autograd::is_recomputing()) return batch_norm(input, {}, {}, weight, bias, options);

  if (options_.momentum) {
    options.batches = num_batches_tracked;
    return batch_norm(input, running_mean, running_var, weight, bias, options);
  }
  no_grad([&] { num_batches_tracked.add_(1); });
  // The mean over all batches: only the device knows the weight of this batch. One without values
  // leaves them as they are.
  const Tensor mean = running_mean.clone(), var = running_var.clone();
  Tensor out = batch_norm(input, mean, var, weight, bias, options);
  no_grad([&] {
    running_mean.add_((mean - running_mean) / num_batches_tracked);
    running_var.add_((var - running_var) / num_batches_tracked);
  });
  return out;
}

std::optional<BatchNormShortcut> BatchNorm::as_shortcut(const Tensor& x,
                                                        const ChannelStatistics& statistics) const {
  if (!uses_batch_statistics() || (is_training() && batch_parts_)) return {};
  // Also where a checkpoint recomputes a batch: it must save what the first run did.
  if (running_mean.defined() && !options_.momentum) return {};
  BatchNormShortcut shortcut{
      .input = x, .weight = weight, .bias = bias, .eps = options_.eps, .statistics = statistics};
  if (running_mean.defined() && !autograd::is_recomputing()) {
    shortcut.running_mean = running_mean, shortcut.running_var = running_var;
    shortcut.batches = num_batches_tracked;
    shortcut.momentum = *options_.momentum;
  }
  return shortcut;
}

void BatchNorm::become_identity() {
  for (Tensor* const t : {&weight, &bias, &running_mean, &running_var, &num_batches_tracked})
    *t = Tensor();
  is_identity_ = true;
}

std::string BatchNorm::name() const {
  return is_identity_ ? "Identity" : is_synchronized() ? "SyncBatchNorm" : Module::name();
}

std::string BatchNorm::extra_repr() const {
  if (is_identity_) return "";
  return fmt::format("{}, eps={}, momentum={}, affine={}{}, track_running_stats={}", num_features_,
                     repr(options_.eps), options_.momentum ? repr(*options_.momentum) : "None",
                     repr(options_.affine), bias_repr(options_.affine, options_.bias),
                     repr(options_.track_running_stats));
}

void BatchNorm1d::check_input(const Tensor& input) const {
  FERRITE_CHECK(input.defined() && (input.dim() == 2 || input.dim() == 3), ShapeError,
                "BatchNorm1d", "expected [N, {0}] or [N, {0}, L], got {1}", num_features_,
                input.describe());
}

void BatchNorm2d::check_input(const Tensor& input) const {
  FERRITE_CHECK(input.defined() && input.dim() == 4, ShapeError, "BatchNorm2d",
                "expected [N, {}, H, W], got {}", num_features_, input.describe());
}

void BatchNorm3d::check_input(const Tensor& input) const {
  FERRITE_CHECK(input.defined() && input.dim() == 5, ShapeError, "BatchNorm3d",
                "expected [N, {}, D, H, W], got {}", num_features_, input.describe());
}

// ---- Instance norm

template <int N>
InstanceNormNd<N>::InstanceNormNd(std::int64_t num_features, const InstanceNormOptions& options)
    : NormBase(num_features, options.affine, options.track_running_stats, options.bias),
      options_(options) {}

template <int N>
Tensor InstanceNormNd<N>::forward(const Tensor& input) {
  constexpr const char* kNames[] = {"InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"};
  FERRITE_CHECK(input.defined() && (input.dim() == N + 1 || input.dim() == N + 2), ShapeError,
                kNames[N - 1], "expected an input of {} or, without a batch, {} dimensions, got {}",
                N + 2, N + 1, input.describe());
  if (input.dim() == N + 1) return forward(input.unsqueeze(0)).squeeze(0);
  FERRITE_CHECK(input.size(1) == num_features_ || !(weight.defined() || running_mean.defined()),
                ShapeError, kNames[N - 1], "expected {} channels, got {}", num_features_,
                input.describe());
  // A checkpoint that recomputes a batch must not count it twice.
  const bool own = is_training() || !running_mean.defined();
  const bool update = is_training() && running_mean.defined() && !autograd::is_recomputing();
  return instance_norm(
      input, own && !update ? Tensor() : running_mean, own && !update ? Tensor() : running_var,
      weight, bias, {.use_input_stats = own, .momentum = options_.momentum, .eps = options_.eps});
}

template <int N>
std::string InstanceNormNd<N>::extra_repr() const {
  return fmt::format("{}, eps={}, momentum={}, affine={}{}, track_running_stats={}", num_features_,
                     repr(options_.eps), repr(options_.momentum), repr(options_.affine),
                     bias_repr(options_.affine, options_.bias), repr(options_.track_running_stats));
}

template class InstanceNormNd<1>;
template class InstanceNormNd<2>;
template class InstanceNormNd<3>;

Tensor LocalResponseNorm::forward(const Tensor& input) {
  return local_response_norm(input, size_, options_);
}

std::string LocalResponseNorm::extra_repr() const {
  return fmt::format("{}, alpha={}, beta={}, k={}", size_, repr(options_.alpha),
                     repr(options_.beta), repr(options_.k));
}

LayerNorm::LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options)
    : normalized_shape_(normalized_shape), options_(options) {
  if (options.elementwise_affine) {
    weight = empty(normalized_shape);
    if (options.bias) bias = empty(normalized_shape);
  }
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  reset_parameters();
}

void LayerNorm::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}

Tensor LayerNorm::forward(const Tensor& input) {
  return layer_norm(input, normalized_shape_, weight, bias, options_.eps);
}

std::string LayerNorm::extra_repr() const {
  return fmt::format("{}, eps={}, elementwise_affine={}{}", repr(normalized_shape_),
                     repr(options_.eps), repr(options_.elementwise_affine),
                     bias_repr(options_.elementwise_affine, options_.bias));
}

RMSNorm::RMSNorm(const Shape& normalized_shape, const RMSNormOptions& options)
    : normalized_shape_(normalized_shape), options_(options) {
  if (options.elementwise_affine) weight = empty(normalized_shape);
  register_parameter("weight", weight);
  reset_parameters();
}

void RMSNorm::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
}

Tensor RMSNorm::forward(const Tensor& input) {
  return rms_norm(input, normalized_shape_, weight, options_.eps);
}

std::string RMSNorm::extra_repr() const {
  return fmt::format("{}, eps={}, elementwise_affine={}", repr(normalized_shape_),
                     options_.eps ? repr(*options_.eps) : "None",
                     repr(options_.elementwise_affine));
}

GroupNorm::GroupNorm(std::int64_t num_groups, std::int64_t num_channels,
                     const GroupNormOptions& options)
    : num_groups_(num_groups), num_channels_(num_channels), options_(options) {
  FERRITE_CHECK(num_groups >= 1 && num_channels >= 1 && num_channels % num_groups == 0, ValueError,
                "GroupNorm", "{} channels are not divisible by {} groups", num_channels,
                num_groups);
  if (options.affine) {
    weight = empty({num_channels});
    if (options.bias) bias = empty({num_channels});
  }
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  reset_parameters();
}

void GroupNorm::reset_parameters() {
  if (weight.defined()) init::ones_(weight);
  if (bias.defined()) init::zeros_(bias);
}

Tensor GroupNorm::forward(const Tensor& input) {
  FERRITE_CHECK(input.defined() && input.dim() >= 2 && input.size(1) == num_channels_, ShapeError,
                "GroupNorm", "expected [N, {}, *], got {}", num_channels_, input.describe());
  return group_norm(input, num_groups_, weight, bias, options_.eps);
}

std::string GroupNorm::extra_repr() const {
  return fmt::format("{}, {}, eps={}, affine={}{}", num_groups_, num_channels_, repr(options_.eps),
                     repr(options_.affine), bias_repr(options_.affine, options_.bias));
}

}  // namespace ferrite::nn
