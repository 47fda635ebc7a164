#include "ferrite/examples/compare_parallel/planning/profile.h"

#include <cmath>
#include <numeric>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/planning/op_name.h"

namespace ferrite::planning {

namespace {

void check_time(const Duration& time, const std::string& what) {
  FERRITE_CHECK(std::isfinite(time.median) && time.median >= 0 && std::isfinite(time.spread) &&
                    time.spread >= 0,
                ValueError, kOp, "expected seconds of 0 or more for {}, got {} +- {}", what,
                time.median, time.spread);
}

void check_bytes(std::int64_t bytes, const std::string& what) {
  FERRITE_CHECK(bytes >= 0, ValueError, kOp, "expected 0 bytes or more for {}, got {}", what,
                bytes);
}

Duration scaled(const Duration& time, double factor) {
  return {time.median * factor, time.spread * factor};
}

std::int64_t scaled(std::int64_t bytes, double factor) {
  return std::llround(static_cast<double>(bytes) * factor);
}

/// Calls f with what of a step depends on the batch.
template <class F>
void for_each_batch_time(ModelProfile& profile, F f) {
  f(profile.forward);
  for (auto& parameter : profile.parameters) f(parameter.backward);
  f(profile.backward_tail);
}

std::vector<Duration> batch_times(ModelProfile profile) {
  std::vector<Duration> times;
  for_each_batch_time(profile, [&](Duration& time) { times.push_back(time); });
  return times;
}

}  // namespace

std::int64_t ModelProfile::parameter_bytes() const {
  return std::accumulate(parameters.begin(), parameters.end(), std::int64_t{0},
                         [](std::int64_t sum, const Parameter& p) { return sum + p.bytes; });
}

double ModelProfile::backward_s() const {
  return std::accumulate(parameters.begin(), parameters.end(), backward_tail.median,
                         [](double sum, const Parameter& p) { return sum + p.backward.median; });
}

double ModelProfile::step_s() const {
  return other.median + forward.median + backward_s() + optimizer.median;
}

void ModelProfile::check() const {
  FERRITE_CHECK(batch > 0, ValueError, kOp, "expected a batch of 1 or more, got {}", batch);
  FERRITE_CHECK(!parameters.empty(), ValueError, kOp, "expected a model with parameters, got none");
  check_bytes(input_bytes, "input_bytes");
  check_bytes(output_bytes, "output_bytes");
  check_bytes(buffer_bytes, "buffer_bytes");
  check_time(forward, "forward");
  check_time(backward_tail, "backward_tail");
  check_time(optimizer, "optimizer");
  check_time(other, "other");
  check_time(step, "step");
  std::int64_t all = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    check_bytes(parameters[i].bytes, fmt::format("parameter {} ({})", i, parameters[i].name));
    FERRITE_CHECK(!__builtin_add_overflow(all, parameters[i].bytes, &all), ValueError, kOp,
                  "expected parameters of less than 2^63 bytes together");
    check_time(parameters[i].backward, fmt::format("parameter {} ({})", i, parameters[i].name));
  }
  FERRITE_CHECK(step_s() > 0, ValueError, kOp, "expected a step that takes time, got 0 seconds");
}

ModelProfile with_batch(const ModelProfile& profile, std::int64_t batch) {
  profile.check();
  FERRITE_CHECK(batch > 0, ValueError, kOp, "expected a batch of 1 or more, got {}", batch);
  const double factor = static_cast<double>(batch) / static_cast<double>(profile.batch);
  ModelProfile result = profile;
  result.batch = batch;
  result.input_bytes = scaled(profile.input_bytes, factor);
  result.output_bytes = scaled(profile.output_bytes, factor);
  for_each_batch_time(result, [&](Duration& time) { time = scaled(time, factor); });
  result.step = {result.step_s(), profile.step.spread * factor};
  return result;
}

ModelProfile with_batch(const ModelProfile& a, const ModelProfile& b, std::int64_t batch) {
  a.check();
  b.check();
  FERRITE_CHECK(batch > 0, ValueError, kOp, "expected a batch of 1 or more, got {}", batch);
  FERRITE_CHECK(a.batch != b.batch, ValueError, kOp,
                "expected measurements with two batches, got {} twice", a.batch);
  FERRITE_CHECK(
      a.model == b.model && a.dtype == b.dtype && a.parameters.size() == b.parameters.size(),
      ValueError, kOp, "expected two measurements of one model, got {} ({}) and {} ({})", a.model,
      a.dtype, b.model, b.dtype);
  const double share =
      static_cast<double>(batch - a.batch) / static_cast<double>(b.batch - a.batch);
  const auto at = [&](double from, double to) { return std::max(0.0, from + share * (to - from)); };
  ModelProfile result = with_batch(a, batch);
  const auto from = batch_times(a), to = batch_times(b);
  std::size_t i = 0;
  for_each_batch_time(result, [&](Duration& time) {
    time = {at(from[i].median, to[i].median), std::max(from[i].spread, to[i].spread)};
    ++i;
  });
  result.step = {result.step_s(), std::max(a.step.spread, b.step.spread)};
  return result;
}

ModelProfile faster(const ModelProfile& profile, double factor) {
  profile.check();
  FERRITE_CHECK(factor > 0 && std::isfinite(factor), ValueError, kOp,
                "expected a factor above 0, got {}", factor);
  ModelProfile result = profile;
  for_each_batch_time(result, [&](Duration& time) { time = scaled(time, 1 / factor); });
  for (Duration* time : {&result.optimizer, &result.other, &result.step})
    *time = scaled(*time, 1 / factor);
  return result;
}

}  // namespace ferrite::planning
