// DistributedDataParallel: one process a device, each with the whole model and a part of the batch;
// gradients are averaged across the ranks while backward still runs (Li et al., "PyTorch
// Distributed: Experiences on Accelerating Data Parallel Training", 2020).
//
//   parallel::init_process_group();
//   Net net;
//   parallel::DistributedDataParallel ddp(net);
//   optim::SGD sgd(ddp.parameters(), {.lr = 0.1});
//   ...
//   cross_entropy(ddp(images), labels).backward();  // gradients are those of all ranks
//   sgd.step();
//
// It is a module with the parameters, buffers, modules and names of the one it wraps, which must
// outlive it. Use it as torch's class of that name:
// - models must agree on all ranks: that is checked, and rank 0's values are taken;
// - wrap a model when it is where it stays (device, dtype, frozen parts);
// - every backward pass through what `ddp(...)` returned, outside no_sync(), adds across ranks, and
//   all ranks must run it. Passes that do not come from there (`net(...)`) are this rank's alone;
// - gradients are views of the buckets that are all-reduced. zero_grad() keeps them; where they
//   were dropped or replaced they cost a copy.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/nn/module.h"
#include "ferrite/parallel/comm/process_group.h"
#include "ferrite/parallel/ddp/comm_hooks.h"
#include "ferrite/parallel/reports/reports.h"

namespace ferrite::parallel {

struct DDPOptions {
  /// The default group where there is none here.
  std::shared_ptr<ProcessGroup> process_group = {};
  /// Buckets are closed once they hold that many megabytes (2^20 bytes); those that are ready
  /// first and last may be smaller, for communication to begin early and to end soon after
  /// backward. At least one parameter a bucket.
  double bucket_cap_mb = 25, first_bucket_mb = 1;
  /// Whether all ranks get rank 0's buffers (running statistics) before the first forward() that
  /// follows a pass whose gradients were averaged, evaluation included: all ranks must call it.
  bool broadcast_buffers = true;
  /// Whether parameters may get no gradient in a pass, other ones on each rank. They count as zero
  /// where another rank has a gradient, and what no rank used keeps the gradient it has. Costs a
  /// small all-reduce a pass, and a wait for it where a gradient is not there at all (set_to_none).
  /// Without it they are a DistributedError on all ranks, naming the rank and the parameters.
  bool find_unused_parameters = false;
  /// Whether every pass uses the same parameters: those that the first does not use are left alone
  /// from then on, at no cost.
  bool static_graph = false;
  /// Whether buckets are made anew after the first pass, in the order in which its gradients came.
  /// Where values lie decides how sums of three and more ranks are rounded: without it the first
  /// step of a run that is resumed is as exact as all others.
  bool rebuild_buckets = true;
  /// Apex's: whether communication begins only when backward has ended.
  bool delay_allreduce = false;
  /// Whether gradients are averaged, and not added. Sums take one averaged pass a step, the others
  /// in no_sync(): what is in a gradient from an earlier one is added again.
  bool gradient_average = true;
  /// Apex's: gradients are divided by it before they are added, and by the rest of the number of
  /// ranks afterwards, which keeps sums of 16 bits in range.
  double gradient_predivide_factor = 1;
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::automatic;
};

struct JoinOptions {
  /// Whether gradients are divided by the number of all ranks, or of those that still have inputs.
  bool divide_by_initial_world_size = true;
  /// Whether all ranks get a DistributedError, naming the first that has no more inputs.
  bool throw_on_early_termination = false;
};

namespace ddp {
class Reducer;
}

/// Backward passes of what is computed while it lives stay on this rank, and so do those that run
/// meanwhile. The next other pass averages what has been added up.
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(std::shared_ptr<ddp::Reducer> reducer);
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  const std::shared_ptr<ddp::Reducer> reducer_;
};

/// For ranks with different numbers of batches (PyTorch's Join). When it ends, this rank takes part
/// in the communication of the others until they have ended theirs too, and then all get the
/// parameters and buffers of one that came last. One forward and one backward a step; the state of
/// optimizers, and what modules communicate on their own (SyncBatchNorm), is not looked after.
class [[nodiscard]] Join {
 public:
  explicit Join(std::shared_ptr<ddp::Reducer> reducer, const JoinOptions& options);
  /// finish(), unless an exception is under way; errors leave the group aborted.
  ~Join();
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;
  /// What the destructor does, with errors thrown.
  void finish();

 private:
  std::shared_ptr<ddp::Reducer> reducer_;
  const int exceptions_;
};

/// What does not depend on the model's type.
class DistributedDataParallelBase : public nn::Module {
 public:
  ~DistributedDataParallelBase() override;

  ProcessGroup& process_group() const;
  const DDPOptions& options() const;
  NoSync no_sync();
  Join join(const JoinOptions& options = {});
  /// Has `hook` communicate buckets, in place of an all-reduce (parallel/ddp/comm_hooks.h); options
  /// of averaging are then the hook's business. All ranks must register the same, before the first
  /// backward. ValueError where there is one already.
  void register_comm_hook(CommHook hook, std::string name = "hook");

  /// Buckets, and what communication took since the start or the last reset_report().
  DDPReport report() const;
  void reset_report();

  std::string name() const override { return "DistributedDataParallel"; }

 protected:
  DistributedDataParallelBase(nn::Module& module, const DDPOptions& options);

  void before_forward();
  void after_forward(std::span<const Tensor> outputs);

 private:
  std::shared_ptr<ddp::Reducer> reducer_;
};

/// `M` is the model's type; called with whatever that takes, it returns what that returns. Of a
/// plain nn::Module it takes and returns a tensor.
template <class M = nn::Module>
class DistributedDataParallel final : public DistributedDataParallelBase {
 public:
  /// Waits for all ranks of the group. DistributedError, on all of them, where models or options do
  /// not agree: it names the ranks and what each has. ValueError where no parameter requires a
  /// gradient or an option is out of range.
  explicit DistributedDataParallel(M& module, const DDPOptions& options = {})
      : DistributedDataParallelBase(module, options), module_(module) {}

  M& module() const { return module_; }

  template <class... Inputs>
  requires std::invocable<M&, Inputs...>
  auto operator()(Inputs&&... inputs) {
    if (has_hooks()) [[unlikely]]
      return nn::detail::call_hooked(
          hooks(), *this, [&](auto&&... x) { return run(std::forward<decltype(x)>(x)...); },
          std::forward<Inputs>(inputs)...);
    return run(std::forward<Inputs>(inputs)...);
  }
  Tensor forward(const Tensor& input) override {
    if constexpr (std::is_invocable_r_v<Tensor, M&, const Tensor&>)
      return run(input);
    else
      return nn::Module::forward(input);
  }

 private:
  template <class... Inputs>
  auto run(Inputs&&... inputs) {
    if (autograd::is_recomputing()) return module_(std::forward<Inputs>(inputs)...);
    before_forward();
    if constexpr (std::is_void_v<std::invoke_result_t<M&, Inputs...>>) {
      module_(std::forward<Inputs>(inputs)...);
      after_forward({});
    } else {
      auto result = module_(std::forward<Inputs>(inputs)...);
      std::vector<Tensor> outputs;
      const auto collect = [&](const Tensor& t) { outputs.push_back(t); };
      nn::detail::for_each_tensor(result, collect);
      after_forward(outputs);
      return result;
    }
  }

  M& module_;
};

}  // namespace ferrite::parallel
