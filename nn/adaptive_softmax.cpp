#include "ferrite/nn/adaptive_softmax.h"

#include <fmt/ranges.h>

#include <cmath>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/views.h"

namespace ferrite::nn {

namespace {

constexpr const char* kLayer = "AdaptiveLogSoftmaxWithLoss";

std::vector<std::int64_t> checked(std::vector<std::int64_t> cutoffs, std::int64_t n_classes) {
  FERRITE_CHECK(!cutoffs.empty(), ValueError, kLayer, "expected one cutoff or more, got none");
  cutoffs.push_back(n_classes);
  std::int64_t last = 0;
  for (const std::int64_t cutoff : cutoffs) {
    FERRITE_CHECK(cutoff > last, ValueError, kLayer,
                  "expected increasing cutoffs of 1 to n_classes - 1, got {} of {} classes",
                  fmt::join(cutoffs.begin(), cutoffs.end() - 1, ", "), n_classes);
    last = cutoff;
  }
  return cutoffs;
}

}  // namespace

AdaptiveLogSoftmaxWithLoss::AdaptiveLogSoftmaxWithLoss(
    std::int64_t in_features, std::int64_t n_classes, const std::vector<std::int64_t>& cutoffs,
    const AdaptiveLogSoftmaxWithLossOptions& options)
    : head(in_features, cutoffs.empty() ? 1 : cutoffs[0] + std::ssize(cutoffs),
           {.bias = options.head_bias}),
      in_features_(in_features),
      cutoffs_(checked(cutoffs, n_classes)) {
  for (std::size_t i = 0; i + 1 < cutoffs_.size(); ++i) {
    const auto hidden = static_cast<std::int64_t>(
        std::floor(static_cast<double>(in_features) /
                   std::pow(options.div_value, static_cast<double>(i + 1))));
    FERRITE_CHECK(hidden > 0, ValueError, kLayer,
                  "in_features {} / div_value {}^{} leaves no feature for cluster {}", in_features,
                  options.div_value, i + 1, i);
    tail.push_back(Sequential(Linear(in_features, hidden, {.bias = false}),
                              Linear(hidden, cutoffs_[i + 1] - cutoffs_[i], {.bias = false})));
  }
  register_module("head", head);
  register_module("tail", tail);
}

Tensor AdaptiveLogSoftmaxWithLoss::cluster(std::size_t i, const Tensor& input) {
  return log_softmax(tail[i](input), 1);
}

ASMoutput AdaptiveLogSoftmaxWithLoss::forward(const Tensor& input, const Tensor& target) {
  FERRITE_CHECK(input.defined() && target.defined(), ValueError, kLayer,
                "the input or the target is undefined");
  const bool batched = target.dim() == 1;
  FERRITE_CHECK(target.dim() <= 1 && input.dim() == target.dim() + 1 &&
                    input.size(-1) == in_features_ && (!batched || input.size(0) == target.size(0)),
                ShapeError, kLayer, "expected [N, {0}] and [N], or [{0}] and [], got {1} and {2}",
                in_features_, input.shape(), target.shape());
  FERRITE_CHECK(target.dtype() == kInt64, DTypeError, kLayer, "expected an int64 target, got {}",
                target.dtype());
  const Tensor x = batched ? input : input.unsqueeze(0);
  const Tensor classes = batched ? target : target.unsqueeze(0);
  const Tensor outside = classes[(classes < 0) | (classes >= cutoffs_.back())];
  FERRITE_CHECK(outside.numel() == 0, IndexError, kLayer,
                "target: expected classes of 0 to {}, got {}", cutoffs_.back() - 1,
                outside[0].item<std::int64_t>());
  const Tensor of_head = log_softmax(head(x), 1);
  Tensor place = clamp_max(classes, cutoffs_[0] - 1);
  Tensor output = zeros({x.size(0)}, {.dtype = of_head.dtype(), .device = x.device()});
  for (std::size_t i = 0; i + 1 < cutoffs_.size(); ++i) {
    const Tensor rows =
        nonzero((classes >= cutoffs_[i]) & (classes < cutoffs_[i + 1])).reshape({-1});
    if (rows.numel() == 0) continue;
    const Tensor within = index_select(classes, 0, rows) - cutoffs_[i];
    const Tensor logs = cluster(i, index_select(x, 0, rows));
    output = index_copy(output, 0, rows, gather(logs, 1, within.unsqueeze(1)).squeeze(1));
    place = index_fill(place, 0, rows, cutoffs_[0] + static_cast<std::int64_t>(i));
  }
  output = output + gather(of_head, 1, place.unsqueeze(1)).squeeze(1);
  const Tensor loss = -mean(output);
  return {batched ? output : output.squeeze(0), loss};
}

Tensor AdaptiveLogSoftmaxWithLoss::log_prob(const Tensor& input) {
  const Tensor of_head = log_softmax(head(input), 1);
  std::vector<Tensor> parts{of_head.slice(1, 0, cutoffs_[0])};
  for (std::size_t i = 0; i + 1 < cutoffs_.size(); ++i) {
    const std::int64_t column = cutoffs_[0] + static_cast<std::int64_t>(i);
    parts.push_back(cluster(i, input) + of_head.slice(1, column, column + 1));
  }
  return cat(parts, 1);
}

Tensor AdaptiveLogSoftmaxWithLoss::predict(const Tensor& input) {
  return argmax(log_prob(input), 1);
}

}  // namespace ferrite::nn
