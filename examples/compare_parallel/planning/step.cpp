#include "ferrite/examples/compare_parallel/planning/step.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/planning/op_name.h"
#include "ferrite/examples/compare_parallel/planning/step_parts.h"

namespace ferrite::planning {

namespace {

constexpr std::array<std::string_view, 3> kStrategies{"dp", "dp-balanced", "ddp"};
constexpr double kMegabyte = 1 << 20;

void check(const StepOptions& options) {
  for (const double mb : {options.bucket_cap_mb, options.first_bucket_mb})
    FERRITE_CHECK(mb > 0 && std::isfinite(mb), ValueError, kOp,
                  "expected buckets of more than 0 MB, got {}", mb);
  FERRITE_CHECK(options.steps > 0, ValueError, kOp, "expected 1 step or more, got {}",
                options.steps);
  FERRITE_CHECK(options.contention >= 1 && std::isfinite(options.contention), ValueError, kOp,
                "expected a contention of 1 or more, got {}", options.contention);
  options.stragglers.check();
  if (options.measured_broadcast) options.measured_broadcast->check();
  if (options.measured_reduce_add) options.measured_reduce_add->check();
}

/// Devices of DataParallel, the first aside.
struct Peers {
  int near, far;

  Peers(int devices, const Cluster& cluster)
      : near(std::min(devices, cluster.devices_per_node) - 1), far(devices - 1 - near) {}
};

double bytes_busiest(Strategy strategy, const ModelProfile& profile, int devices,
                     const StepOptions& options, const Cluster& cluster,
                     const std::vector<BucketSpan>& buckets) {
  if (devices == 1) return 0;
  double sum = 0;
  if (strategy == Strategy::ddp) {
    for (const auto& bucket : buckets)
      sum += all_reduce_cost(bucket.bytes, devices, cluster, options.all_reduce).bytes_sent;
    return sum;
  }
  // The first device sends parameters and inputs, and receives gradients and outputs.
  const auto gradients = static_cast<double>(profile.parameter_bytes());
  const double outputs =
      strategy == Strategy::dp ? static_cast<double>(profile.output_bytes) : sizeof(float);
  return (devices - 1) *
         std::max(
             gradients + static_cast<double>(profile.buffer_bytes + profile.input_bytes) + outputs,
             gradients + outputs);
}

}  // namespace

std::string_view to_string(Strategy strategy) {
  return kStrategies[static_cast<std::size_t>(strategy)];
}

Strategy strategy(std::string_view name) {
  const auto found = std::ranges::find(kStrategies, name);
  FERRITE_CHECK(found != kStrategies.end(), ValueError, kOp,
                "expected dp, dp-balanced or ddp, got '{}'", name);
  return static_cast<Strategy>(found - kStrategies.begin());
}

std::vector<BucketSpan> plan_buckets(const ModelProfile& profile, double cap_mb, double first_mb) {
  std::vector<BucketSpan> buckets;
  const auto bytes = [&](std::size_t i) {
    return static_cast<double>(profile.parameters[i].bytes);
  };
  double limit = first_mb * kMegabyte;
  for (std::size_t i = 0; i < profile.parameters.size(); ++i) {
    if (buckets.empty() || buckets.back().bytes >= limit) {
      if (!buckets.empty()) limit = cap_mb * kMegabyte;
      buckets.push_back({i, i, 0});
    }
    buckets.back().end = i + 1;
    buckets.back().bytes += bytes(i);
  }
  if (buckets.empty()) return buckets;
  BucketSpan& last = buckets.back();
  std::size_t cut = last.end;
  double tail = 0;
  while (cut > last.begin && tail + bytes(cut - 1) <= first_mb * kMegabyte) tail += bytes(--cut);
  if (cut > last.begin && cut < last.end) {
    const BucketSpan end{cut, last.end, tail};
    last.end = cut;
    last.bytes -= tail;
    buckets.push_back(end);
  }
  return buckets;
}

std::vector<BucketSpan> plan_buckets(Strategy strategy, const ModelProfile& profile,
                                     const StepOptions& options) {
  const double cap = options.bucket_cap_mb, first = options.first_bucket_mb;
  return plan_buckets(profile, cap, strategy == Strategy::ddp ? first : std::min(first, cap));
}

StepTimes simulate_step(Strategy strategy, const ModelProfile& profile, int devices,
                        const Cluster& cluster, const StepOptions& options) {
  profile.check();
  cluster.check();
  check(options);
  FERRITE_CHECK(devices > 0, ValueError, kOp, "expected 1 device or more, got {}", devices);
  const double contention = devices > 1 ? options.contention : 1;
  const Stragglers& stragglers = options.stragglers;
  StepTimes times;
  times.compute_s = profile.step_s() * contention;
  const auto buckets = plan_buckets(strategy, profile, options);
  times.bytes_busiest = bytes_busiest(strategy, profile, devices, options, cluster, buckets);
  if (devices > 1 && strategy == Strategy::ddp)
    times.algorithm = all_reduce_cost(std::ranges::max(buckets, {}, &BucketSpan::bytes).bytes,
                                      devices, cluster, options.all_reduce)
                          .algorithm;

  std::mt19937_64 generator(options.seed);
  const int steps = stragglers.kind == Stragglers::Kind::none ? 1 : options.steps;
  const Peers peers(devices, cluster);
  for (int step = 0; step < steps; ++step) {
    detail::OneStep one;
    double slowest = 1;
    if (strategy == Strategy::ddp) {
      slowest = stragglers.draw_max(generator, devices);
      one = detail::ddp_step(profile, buckets, devices, cluster, options, contention * slowest);
    } else {
      detail::Slowdowns slow{stragglers.draw(generator), 0, 0};
      if (peers.near > 0) slow.near = stragglers.draw_max(generator, peers.near);
      if (peers.far > 0) slow.far = stragglers.draw_max(generator, peers.far);
      slowest = std::max({slow.root, slow.near, slow.far});
      one = detail::dp_step(
          profile, buckets, devices, cluster, options, strategy == Strategy::dp_balanced,
          {contention * slow.root, contention * slow.near, contention * slow.far});
    }
    times.step_s += one.step_s / steps;
    times.communication_s += one.communication_s / steps;
    times.straggler_s += times.compute_s * (slowest - 1) / steps;
    times.events += one.events;
  }
  times.exposed_s = std::max(0.0, times.step_s - times.compute_s - times.straggler_s);
  return times;
}

namespace detail {

void Device::backward(const std::vector<BucketSpan>& buckets, const std::function<void(int)>& ready,
                      EventQueue::Action done) {
  for (std::size_t k = 0; k < buckets.size(); ++k) {
    double seconds = 0;
    for (std::size_t i = buckets[k].begin; i < buckets[k].end; ++i)
      seconds += profile_.parameters[i].backward.median;
    compute(seconds, [ready, k] { ready(static_cast<int>(k)); });
  }
  compute(profile_.backward_tail.median, std::move(done));
}

void BucketQueue::ready(int bucket) {
  ready_ = bucket + 1;
  if (overlap_) launch();
}

void BucketQueue::backward_ended() {
  backward_ended_ = true;
  launch();
  end_if_complete();
}

void BucketQueue::launch() {
  if (!send_) next_ = ready_;
  if (under_way_ || next_ >= ready_) return;
  under_way_ = true;
  send_(buckets_[next_].bytes, [this] {
    under_way_ = false;
    ++next_;
    launch();
    end_if_complete();
  });
}

void BucketQueue::end_if_complete() {
  if (ended_ || !backward_ended_ || next_ < static_cast<int>(buckets_.size())) return;
  ended_ = true;
  complete_();
}

void Traffic::begin(double compute_share) {
  if (under_way_++ > 0) return;
  since_ = queue_.now();
  for (ComputeStream* stream : streams_) stream->set_rate(1 - compute_share);
}

void Traffic::end() {
  if (--under_way_ > 0) return;
  busy_ += queue_.now() - since_;
  for (ComputeStream* stream : streams_) stream->set_rate(1);
}

}  // namespace detail

}  // namespace ferrite::planning
