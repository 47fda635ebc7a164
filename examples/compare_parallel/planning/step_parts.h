// What simulations of DataParallel and DistributedDataParallel share.
#pragma once

#include <functional>

#include "ferrite/examples/compare_parallel/planning/event_queue.h"
#include "ferrite/examples/compare_parallel/planning/step.h"

namespace ferrite::planning::detail {

/// One step with the slow-downs that were drawn.
struct OneStep {
  double step_s = 0, communication_s = 0;
  std::size_t events = 0;
};

/// How long each part of the profile takes on a device that is `factor` times slower.
class Device {
 public:
  Device(EventQueue& queue, const ModelProfile& profile, double factor)
      : profile_(profile), factor_(factor), stream_(queue) {}

  ComputeStream& stream() { return stream_; }
  void compute(double seconds, EventQueue::Action done = {}) {
    stream_.submit(seconds * factor_, std::move(done));
  }
  /// `ready(k)` when the gradients of bucket k are there; `done` at the end of backward.
  void backward(const std::vector<BucketSpan>& buckets, const std::function<void(int)>& ready,
                EventQueue::Action done);

 private:
  const ModelProfile& profile_;
  const double factor_;
  ComputeStream stream_;
};

/// Counts what is under way, and slows devices down meanwhile.
class Traffic {
 public:
  explicit Traffic(EventQueue& queue) : queue_(queue) {}
  void slows(ComputeStream& stream) { streams_.push_back(&stream); }
  void begin(double compute_share);
  void end();
  double busy_s() const { return busy_; }

 private:
  EventQueue& queue_;
  std::vector<ComputeStream*> streams_;
  int under_way_ = 0;
  double since_ = 0, busy_ = 0;
};

/// Communicates buckets, one at a time, in order, while backward makes them or after it.
class BucketQueue {
 public:
  /// `send(bytes, done)` communicates a bucket; without one they take no time. `complete` is called
  /// when backward has ended and all are communicated.
  using Send = std::function<void(double bytes, EventQueue::Action done)>;
  BucketQueue(const std::vector<BucketSpan>& buckets, bool overlap, Send send,
              EventQueue::Action complete)
      : buckets_(buckets),
        overlap_(overlap),
        send_(std::move(send)),
        complete_(std::move(complete)) {}

  /// The gradients of this bucket are there, after those of all before it.
  void ready(int bucket);
  void backward_ended();

 private:
  void launch();
  void end_if_complete();

  const std::vector<BucketSpan>& buckets_;
  const bool overlap_;
  const Send send_;
  const EventQueue::Action complete_;
  int ready_ = 0, next_ = 0;
  bool under_way_ = false, backward_ended_ = false, ended_ = false;
};

OneStep ddp_step(const ModelProfile& profile, const std::vector<BucketSpan>& buckets, int devices,
                 const Cluster& cluster, const StepOptions& options, double slowest);

/// Slow-downs of the first device, and of the slowest of the two kinds of peers.
struct Slowdowns {
  double root, near, far;
};
OneStep dp_step(const ModelProfile& profile, const std::vector<BucketSpan>& buckets, int devices,
                const Cluster& cluster, const StepOptions& options, bool balanced,
                const Slowdowns& slow);

}  // namespace ferrite::planning::detail
