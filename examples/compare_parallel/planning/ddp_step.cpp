#include <algorithm>

#include "ferrite/examples/compare_parallel/planning/step_parts.h"

namespace ferrite::planning::detail {

namespace {

class DdpStep {
 public:
  DdpStep(const ModelProfile& profile, const std::vector<BucketSpan>& buckets, int devices,
          const Cluster& cluster, const StepOptions& options, double slowest)
      : profile_(profile),
        buckets_(buckets),
        devices_(devices),
        cluster_(cluster),
        options_(options),
        device_(queue_, profile, slowest),
        traffic_(queue_),
        reductions_(buckets, options.overlap, all_reduces(),
                    [this] { device_.compute(profile_.optimizer.median); }) {
    traffic_.slows(device_.stream());
  }

  OneStep run() {
    device_.compute(profile_.other.median, [this] { before_forward(); });
    queue_.run();
    return {queue_.now(), traffic_.busy_s(), queue_.processed()};
  }

 private:
  /// Rank 0's buffers go to all: half of an all-reduce.
  void before_forward() {
    if (devices_ == 1 || !options_.broadcast_buffers || profile_.buffer_bytes == 0)
      return forward();
    auto cost = all_reduce_cost(static_cast<double>(profile_.buffer_bytes), devices_, cluster_,
                                options_.all_reduce);
    traffic_.begin(share(cost));
    queue_.after((cost.seconds + cluster_.launch_s) / 2, [this] {
      traffic_.end();
      forward();
    });
  }

  void forward() {
    device_.compute(profile_.forward.median, [this] {
      device_.backward(
          buckets_, [this](int bucket) { reductions_.ready(bucket); },
          [this] { reductions_.backward_ended(); });
    });
  }

  static double share(const AllReduceCost& cost) {
    return cost.seconds > 0 ? std::min(1.0, cost.compute_s / cost.seconds) : 0;
  }

  BucketQueue::Send all_reduces() {
    if (devices_ == 1) return {};
    return [this](double bytes, EventQueue::Action done) {
      const auto cost = all_reduce_cost(bytes, devices_, cluster_, options_.all_reduce);
      traffic_.begin(share(cost));
      queue_.after(cost.seconds, [this, done = std::move(done)] {
        traffic_.end();
        done();
      });
    };
  }

  const ModelProfile& profile_;
  const std::vector<BucketSpan>& buckets_;
  const int devices_;
  const Cluster& cluster_;
  const StepOptions& options_;
  EventQueue queue_;
  Device device_;  // the slowest, which all-reduces wait for
  Traffic traffic_;
  BucketQueue reductions_;
};

}  // namespace

OneStep ddp_step(const ModelProfile& profile, const std::vector<BucketSpan>& buckets, int devices,
                 const Cluster& cluster, const StepOptions& options, double slowest) {
  return DdpStep(profile, buckets, devices, cluster, options, slowest).run();
}

}  // namespace ferrite::planning::detail
