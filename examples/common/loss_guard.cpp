#include "ferrite/examples/common/loss_guard.h"

#include <limits>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/error.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"

namespace examples {

using namespace ferrite;

namespace {

constexpr double kLearnFrom = 10, kSpan = 50;
constexpr double kMost = std::numeric_limits<double>::max();

}  // namespace

LossGuard::LossGuard(const nn::Module& model, const Device& device, double factor)
    : factor_(factor),
      state_(zeros({5}, {.dtype = kFloat64, .device = device})),
      good_(state_[0]),
      mean_(state_[1]),
      skipped_(state_[2]),
      in_a_row_(state_[3]),
      last_(state_[4]),
      buffers_(model.buffers()) {
  for (const Tensor& buffer : buffers_) before_.push_back(buffer.clone());
}

void LossGuard::begin() {
  const NoGradGuard guard;
  for (std::size_t i = 0; i < buffers_.size(); ++i) before_[i].copy_(buffers_[i]);
}

Tensor LossGuard::check(const Tensor& loss) {
  const NoGradGuard guard;
  const Tensor value = loss.detach().to(kFloat64);
  // The comparison is false for NaN.
  Tensor ok = le(value, kMost);
  if (factor_ > 0)
    ok = logical_and(ok, logical_or(le(value, mean_ * factor_), lt(good_, kLearnFrom)));
  const Tensor one = ok.to(kFloat64), bad = 1 - one;
  good_ += one;
  const Tensor share = clamp_min(1 / clamp_min(good_, 1), 1 / kSpan);
  mean_.copy_(where(ok, mean_ + share * (value - mean_), mean_));
  skipped_ += bad;
  in_a_row_.copy_((in_a_row_ + 1) * bad);
  last_.copy_(where(ok, last_, value));
  return bad.to(kFloat32);
}

void LossGuard::end(const Tensor& bad) {
  const NoGradGuard guard;
  const Tensor is_bad = gt(bad, 0);
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    buffers_[i].copy_(where(is_bad, before_[i], buffers_[i]));
}

LossGuard::Skipped LossGuard::skipped() const {
  const auto v = state_.to_vector<double>();
  return {.steps = static_cast<std::int64_t>(v[2]),
          .in_a_row = static_cast<std::int64_t>(v[3]),
          .loss = v[4],
          .mean = v[1]};
}

void LossGuard::load_state_dict(const StateDict& dict) {
  const NoGradGuard guard;
  const Tensor& state = dict.at("state");
  FERRITE_CHECK(state.shape() == state_.shape(), ShapeError, "loss_guard", "expected {}, got {}",
                state_.describe(), state.describe());
  state_.copy_(state);
}

}  // namespace examples
