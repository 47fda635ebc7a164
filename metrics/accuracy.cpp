#include "ferrite/metrics/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/error.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"

namespace ferrite::metrics {

namespace {

std::int64_t largest_k(std::span<const std::int64_t> topk) {
  FERRITE_CHECK(!topk.empty() && std::ranges::min(topk) > 0, ValueError, "accuracy",
                "expected top-k of one k or more, each above 0, got {}", fmt::join(topk, ", "));
  return std::ranges::max(topk);
}

/// The class indices given by `target`, [N, ...].
Tensor classes_of(const Tensor& output, const Tensor& target) {
  FERRITE_CHECK(output.defined() && output.dim() >= 2, ShapeError, "accuracy",
                "expected scores [N, C] or [N, C, ...], got {}", output.describe());
  FERRITE_CHECK(target.defined(), ValueError, "accuracy", "the target is undefined");
  if (is_floating(target.dtype())) {
    FERRITE_CHECK(target.shape() == output.shape(), ShapeError, "accuracy",
                  "expected a floating target of the shape of the scores, {}, got {}",
                  output.shape(), target.shape());
    return target.argmax(1);
  }
  Shape expected = output.shape();
  expected.erase(1);
  FERRITE_CHECK(target.shape() == expected, ShapeError, "accuracy",
                "expected classes {} for scores {}, got {}", expected, output.shape(),
                target.shape());
  FERRITE_CHECK(target.dtype() != kBool, DTypeError, "accuracy",
                "expected classes as integers, got {}", target.dtype());
  return target;
}

/// int64 [min(k, C)]: how often the sample's class is ranked first, second...
Tensor places(const Tensor& output, const Tensor& classes, const Tensor& valid, std::int64_t k) {
  const std::int64_t shown = std::min(k, output.size(1));
  const Tensor order = shown == 1 ? output.argmax(1, true) : topk(output, shown, 1).indices;
  Tensor hits = order.eq(classes.unsqueeze(1));
  if (valid.defined()) hits = logical_and(hits, valid.unsqueeze(1));
  Dims rest = {0};
  for (int d = 2; d < output.dim(); ++d) rest.push_back(d);
  return hits.sum(rest);
}

}  // namespace

std::vector<Tensor> accuracy(const Tensor& output, const Tensor& target,
                             std::span<const std::int64_t> topk) {
  NoGradGuard guard;
  const std::int64_t k = largest_k(topk);
  const Tensor classes = classes_of(output, target);
  const Tensor first = cumsum(places(output, classes, {}, k), 0).to(kFloat32);
  const double percent = 100.0 / static_cast<double>(std::max<std::int64_t>(classes.numel(), 1));
  std::vector<Tensor> result;
  for (const std::int64_t at : topk)
    result.push_back(first[std::min(at, first.size(0)) - 1] * percent);
  return result;
}

std::vector<Tensor> accuracy(const Tensor& output, const Tensor& target,
                             std::initializer_list<std::int64_t> topk) {
  return accuracy(output, target, std::span(topk.begin(), topk.size()));
}

Accuracy::Accuracy(const Device& device, std::vector<std::int64_t> topk, std::int64_t ignore_index)
    : topk_(std::move(topk)),
      ignore_index_(ignore_index),
      counts_(zeros({largest_k(topk_) + 1}, {.dtype = kInt64, .device = device})),
      places_(counts_.slice(0, 0, -1)),
      total_(counts_[counts_.size(0) - 1]) {}

void Accuracy::update(const Tensor& output, const Tensor& target) {
  NoGradGuard guard;
  const Tensor classes = classes_of(output, target);
  FERRITE_CHECK(output.device() == counts_.device(), DeviceError, "Accuracy",
                "expected scores on {}, got {}", counts_.device(), output.describe());
  if (classes.numel() == 0) return;
  const Tensor valid = ne(classes, ignore_index_);
  total_.add_(valid.sum());
  // A negative or too large index matches no class.
  const bool may_hit = ignore_index_ >= 0 && ignore_index_ < output.size(1);
  const Tensor hits = places(output, classes, may_hit ? valid : Tensor(), places_.size(0));
  places_.slice(0, 0, hits.size(0)).add_(hits);
}

void Accuracy::reset() { counts_.zero_(); }

std::vector<double> Accuracy::values() const {
  std::vector<std::int64_t> counts = counts_.to_vector<std::int64_t>();
  const auto total = static_cast<double>(std::max<std::int64_t>(counts.back(), 1));
  counts.pop_back();
  std::partial_sum(counts.begin(), counts.end(), counts.begin());
  std::vector<double> result;
  for (const std::int64_t k : topk_)
    result.push_back(static_cast<double>(counts[static_cast<std::size_t>(k - 1)]) / total);
  return result;
}

double Accuracy::value(std::int64_t k) const {
  const auto found = std::ranges::find(topk_, k);
  FERRITE_CHECK(found != topk_.end(), ValueError, "Accuracy", "top-{} is not counted, only {}", k,
                fmt::join(topk_, ", "));
  return values()[static_cast<std::size_t>(found - topk_.begin())];
}

std::int64_t Accuracy::total() const { return total_.item<std::int64_t>(); }

StateDict Accuracy::state_dict() const { return {{"counts", counts_.clone()}}; }

void Accuracy::load_state_dict(const StateDict& dict) {
  const Tensor& counts = dict.at("counts");
  FERRITE_CHECK(counts.shape() == counts_.shape() && counts.dtype() == kInt64, ShapeError,
                "Accuracy", "expected counts {}, got {}", counts_.describe(), counts.describe());
  counts_.copy_(counts);
}

}  // namespace ferrite::metrics
