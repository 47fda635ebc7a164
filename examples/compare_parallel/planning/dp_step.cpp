#include <algorithm>
#include <memory>
#include <optional>

#include "ferrite/examples/compare_parallel/planning/step_parts.h"

namespace ferrite::planning::detail {

namespace {

/// Peers of the first device that are linked to it in the same way, of which the slowest counts.
struct Peers {
  Peers(EventQueue& queue, const ModelProfile& profile, int count, double slowest,
        const LinkSpeed& out, const LinkSpeed& in)
      : count(count),
        device(queue, profile, slowest),
        to(queue, out.bandwidth, out.latency_s),
        from(queue, in.bandwidth, in.latency_s),
        to_share(out.compute_share),
        from_share(in.compute_share) {}

  int count;
  Device device;
  Link to, from;
  double to_share, from_share;
};

class DpStep {
 public:
  DpStep(const ModelProfile& profile, const std::vector<BucketSpan>& buckets, int devices,
         const Cluster& cluster, const StepOptions& options, bool balanced, const Slowdowns& slow)
      : profile_(profile),
        buckets_(buckets),
        devices_(devices),
        cluster_(cluster),
        options_(options),
        output_bytes_(balanced ? sizeof(float) : profile.output_bytes),
        root_(queue_, profile, slow.root),
        server_(queue_),
        traffic_(queue_),
        reductions_(buckets, options.overlap, devices > 1 ? sums() : nullptr,
                    [this] { root_.compute(profile_.optimizer.median); }),
        waiting_(buckets.size()) {
    traffic_.slows(root_.stream());
    const int near = std::min(devices, cluster.devices_per_node) - 1, far = devices - 1 - near;
    const auto& out = options.measured_broadcast;
    const auto& in = options.measured_reduce_add;
    if (near > 0)
      peers_.emplace_back(queue_, profile, near, slow.near, out.value_or(cluster.inside),
                          in.value_or(cluster.inside));
    // One device sends through one adapter, however many its node has.
    if (far > 0)
      peers_.emplace_back(queue_, profile, far, slow.far, cluster.between, cluster.between);
    for (Peers& peers : peers_) traffic_.slows(peers.device.stream());
  }

  OneStep run() {
    const double host = devices_ > 1 ? cluster_.host_s * devices_ : 0;
    root_.compute(profile_.other.median, [this, host] {
      queue_.after(host, [this] {
        const bool at_once = !options_.fetch_by_layer || peers_.empty();
        const std::int64_t parameters = at_once ? profile_.parameter_bytes() : 0;
        const auto bytes =
            static_cast<double>(profile_.input_bytes + parameters + profile_.buffer_bytes);
        to_all(bytes, [this, at_once] { at_once ? forward() : forward_by_layer(); });
      });
    });
    queue_.run();
    return {queue_.now(), traffic_.busy_s(), queue_.processed()};
  }

 private:
  /// So many bytes for each peer; `done` when all have them.
  void to_all(double bytes, const EventQueue::Action& done) { exchange(true, bytes, done); }
  void from_all(double bytes, const EventQueue::Action& done) { exchange(false, bytes, done); }
  void exchange(bool to, double bytes, const EventQueue::Action& done) {
    if (peers_.empty()) return done();
    const auto pending = std::make_shared<std::size_t>(peers_.size());
    queue_.after(cluster_.launch_s, [this, to, bytes, done, pending] {
      for (Peers& peers : peers_) {
        traffic_.begin(to ? peers.to_share : peers.from_share);
        (to ? peers.to : peers.from).transfer(bytes * peers.count, [this, done, pending] {
          traffic_.end();
          if (--*pending == 0) done();
        });
      }
    });
  }

  /// `f` on the first device and on one of each kind of peers; `done` when all have called back.
  template <class F>
  void on_all(F f, const EventQueue::Action& done) {
    const auto pending = std::make_shared<std::size_t>(1 + peers_.size());
    const EventQueue::Action ended = [done, pending] {
      if (--*pending == 0) done();
    };
    f(root_, ended);
    for (Peers& peers : peers_) f(peers.device, ended);
  }

  void forward() {
    on_all(
        [this](Device& device, const auto& done) { device.compute(profile_.forward.median, done); },
        [this] { loss(); });
  }

  /// Layers as gradients tell them apart, the first of which comes last.
  void forward_by_layer() {
    layers_left_ = profile_.parameters.size();
    forward_left_ = 1 + peers_.size();
    root_.compute(profile_.forward.median, [this] { forward_ended(); });
    fetch_layer();
  }

  void fetch_layer() {
    const auto& layer = profile_.parameters[--layers_left_];
    to_all(static_cast<double>(layer.bytes), [this, &layer] {
      const bool last = layers_left_ == 0;
      for (Peers& peers : peers_)
        peers.device.compute(forward_s(layer), [this, last] {
          if (last) forward_ended();
        });
      if (!last) fetch_layer();
    });
  }

  double forward_s(const ModelProfile::Parameter& layer) const {
    double all = 0;
    for (const auto& parameter : profile_.parameters) all += parameter.backward.median;
    const double share =
        all > 0 ? layer.backward.median / all : 1 / static_cast<double>(profile_.parameters.size());
    return profile_.forward.median * share;
  }

  void forward_ended() {
    if (--forward_left_ == 0) loss();
  }

  void loss() {
    from_all(output_bytes_, [this] { to_all(output_bytes_, [this] { backward(); }); });
  }

  void backward() {
    std::ranges::fill(waiting_, 1 + peers_.size());
    on_all(
        [this](Device& device, const auto& done) {
          device.backward(
              buckets_,
              [this](int bucket) {
                if (--waiting_[bucket] == 0) reductions_.ready(bucket);
              },
              done);
        },
        [this] { reductions_.backward_ended(); });
  }

  /// To the first device, which adds.
  BucketQueue::Send sums() {
    return [this](double bytes, EventQueue::Action done) {
      from_all(bytes, [this, bytes, done = std::move(done)] {
        const double added = options_.measured_reduce_add ? 0 : bytes * (devices_ - 1);
        server_.submit(added / cluster_.add_bandwidth, done);
      });
    };
  }

  const ModelProfile& profile_;
  const std::vector<BucketSpan>& buckets_;
  const int devices_;
  const Cluster& cluster_;
  const StepOptions& options_;
  const double output_bytes_;
  EventQueue queue_;
  Device root_;
  ComputeStream server_;  // of the first device, where sums are made
  Traffic traffic_;
  BucketQueue reductions_;
  std::list<Peers> peers_;
  std::size_t layers_left_ = 0, forward_left_ = 0;
  std::vector<std::size_t> waiting_;  // of buckets: kinds of devices that do not have it
};

}  // namespace

OneStep dp_step(const ModelProfile& profile, const std::vector<BucketSpan>& buckets, int devices,
                const Cluster& cluster, const StepOptions& options, bool balanced,
                const Slowdowns& slow) {
  return DpStep(profile, buckets, devices, cluster, options, balanced, slow).run();
}

}  // namespace ferrite::planning::detail
