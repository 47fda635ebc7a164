// Reducer: DistributedDataParallel's handling of gradients. It counts them as backward produces
// them, and launches each bucket as soon as it is full and the buckets before it are launched, so
// that all ranks communicate in the same order.
//
// A backward pass is "armed", so that its gradients are communicated, by hooks on the result of
// forward(), or on what grad() made of it. At its end (autograd::queue_callback) it waits for
// communication.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/nn/module.h"
#include "ferrite/parallel/ddp/bucket.h"
#include "ferrite/parallel/ddp/coalesced.h"
#include "ferrite/parallel/ddp/comm_hooks.h"
#include "ferrite/parallel/ddp/distributed_data_parallel.h"
#include "ferrite/parallel/ddp/timing.h"

namespace ferrite::parallel::ddp {

class Reducer : public std::enable_shared_from_this<Reducer> {
 public:
  /// Checks that ranks agree, and broadcasts rank 0's model.
  Reducer(nn::Module& module, const DDPOptions& options);
  ~Reducer();
  /// Registers its hooks, and removes them.
  void start();
  void stop();

  ProcessGroup& group() const { return *group_; }
  const DDPOptions& options() const { return options_; }
  void register_comm_hook(CommHook hook, std::string name);

  void before_forward();
  void after_forward(std::span<const Tensor> outputs, bool are_all);
  void enter_no_sync();
  void leave_no_sync();

  // ---- Join (reducer_join.cpp)
  void begin_join(const JoinOptions& options);
  void finish_join();
  /// Called when an exception ended it.
  void leave_join();

  DDPReport report();
  void reset_report();

 private:
  class PassEnd;
  /// The state of a running backward pass.
  struct PassState {
    bool open = false, armed = false, timed = false;
    bool derived = false;              // it came through what grad() made of a result of forward()
    std::vector<char> arrived;         // per parameter: whether the gradient has arrived
    std::vector<char> absent;          // or will not come
    std::vector<std::size_t> pending;  // per bucket: number of parameters that are neither
    std::vector<Stream> streams;       // per bucket: the streams of its gradients
    std::size_t launched = 0;          // buckets
    std::vector<CommWork> works;
    std::vector<std::size_t>
        missing_at_launch;           // parameters whose gradient was not there when launched
    std::vector<std::size_t> order;  // in which gradients came
  };
  struct Place {
    std::size_t bucket, slot;
  };
  /// Flags that ranks exchange before forward() while they are in a join.
  struct JoinFlags {
    std::vector<char> active, sync, buffers;
  };

  /// How sums become averages.
  struct Averaging {
    ReduceOp op;
    double before, after;  // factors applied to the gradients
  };

  // ---- During backward
  void on_gradient(std::size_t parameter);
  void take(std::size_t parameter);
  void release_parameters();
  void check_in_time(std::size_t parameter, bool again);
  void on_output_gradient();
  void on_derived_gradient();
  void follow_graph();
  void watch(std::span<const Tensor> tensors, void (Reducer::*f)());
  void open_pass();
  void arm();
  void count(std::size_t parameter);
  void bucket_ready(std::size_t bucket);
  void launch_ready();
  void launch(std::size_t bucket);
  CommWork communicate(std::size_t bucket);
  Averaging averaging() const;
  void finish_pass();
  void pass_failed();
  void abort_pass(std::string_view why);
  void close_pass();
  void complete();
  void check_all_came();
  /// Whether an earlier pass left a gradient that has not been communicated.
  bool has_local_gradient(std::size_t parameter) const {
    return dirty_[parameter] && parameters_[parameter].grad().defined();
  }
  void begin_used();
  std::vector<std::int32_t> read_used();
  void learn_static(const std::vector<std::int32_t>& used);
  void wait_for_buckets();
  void fill_missing_gradients(const std::vector<std::int32_t>& used);

  // ---- Between steps
  void plan(std::span<const std::size_t> order);
  void rebuild(int root);
  void check_frozen();
  /// Whether ranks exchange which parameters they used.
  bool exchanges_used() const;
  /// Whether the tape is searched for the parameters it leads to.
  bool asks_tape() const;
  /// A stream of the buckets' devices that is being captured into a graph.
  std::optional<Stream> captured_stream() const;
  bool is_capturing() const { return captured_stream().has_value(); }
  /// In a capture: makes each replay count as a step here, which the host sees nothing of
  /// otherwise.
  void note_replays();
  /// Whether a forward begins with a broadcast. Once a step is in a graph, which begins with one,
  /// each step does: other ranks may replay it while this one computes its own.
  bool sends_buffers(bool sync) const {
    return options_.broadcast_buffers && (buffers_due_ || (sync && captured_));
  }
  std::vector<Tensor> all_tensors() const;  // parameters and buffers
  void broadcast_buffers(int root);
  bool is_parameter(const Tensor& t) const;
  [[noreturn]] void fail_all(const std::string& text);
  std::string names(std::span<const std::size_t> parameters) const;

  // ---- Join
  JoinFlags exchange(bool active, bool sync, bool buffers);
  void join_forward(bool sync);
  void shadow(const JoinFlags& flags);
  void shadow_backward();

  const DDPOptions options_;
  const std::shared_ptr<ProcessGroup> group_;
  nn::Module& module_;
  std::vector<Tensor> parameters_;  // parameters that require a gradient
  std::vector<std::string> names_;
  std::vector<nn::NamedTensor> frozen_;
  CoalescedTensors buffers_;
  BucketLimits limits_;

  std::mutex mutex_;
  std::vector<TensorHook> hooks_;
  std::vector<Bucket> buckets_;
  std::vector<std::optional<Place>> places_;  // per parameter
  CommHook hook_;
  std::string hook_name_;
  PassState pass_;
  std::vector<char> dirty_;  // per parameter: whether a gradient came that is not communicated yet
  int no_sync_ = 0;
  bool arm_next_ = false;    // the result of forward() had no tensor for a hook, or a parameter
  bool buffers_due_ = true;  // a broadcast is due
  bool captured_ = false;    // a synchronized step is part of a graph
  bool started_ = false;     // the first pass is over
  bool rebuild_due_ = false, rebuilt_ = false;
  std::vector<std::size_t> arrival_order_;  // the order for rebuilding buckets
  // With static_graph, after the first pass: which parameters no rank uses; after this rank's first
  // pass: which it does not use.
  bool static_known_ = false;
  std::vector<char> unused_anywhere_, unused_here_;
  Work used_work_;
  Tensor used_;
  StepTimes times_;

  std::optional<JoinOptions> join_;
  int active_ranks_;          // in a join
  std::vector<char> active_;  // which ranks were active, last time any was
};

}  // namespace ferrite::parallel::ddp
