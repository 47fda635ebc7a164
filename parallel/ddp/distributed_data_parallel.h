// DistributedDataParallel: one process per device, each with the whole model and a part of the
// batch; gradients are averaged across the ranks while backward still runs (Li et al., "PyTorch
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
// outlive it. Use it like torch's class of that name:
// - models must agree on all ranks: this is checked, and rank 0's values are used;
// - wrap a model in its final state (device, dtype, frozen parts);
// - every backward pass through the result of `ddp(...)`, outside no_sync(), communicates, and all
//   ranks must run it. Other passes (`net(...)`) stay local to the rank;
// - gradients are views of the buckets that are all-reduced. zero_grad(false) keeps them, and
// backward
//   adds to them; those that zero_grad() has dropped are copied there.
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
  /// Default: the default group.
  std::shared_ptr<ProcessGroup> process_group = {};
  /// Buckets are closed once they reach this many megabytes (2^20 bytes); the first and last ones
  /// to become ready may be smaller, so that communication begins early and ends soon after
  /// backward. At least one parameter per bucket.
  double bucket_cap_mb = 25, first_bucket_mb = 1;
  /// Whether all ranks get rank 0's buffers (running statistics) before the first forward() that
  /// follows a pass with averaged gradients, including evaluation: all ranks must call it.
  bool broadcast_buffers = true;
  /// Whether parameters may get no gradient in a pass, different ones on each rank. They count as
  /// zero if another rank has a gradient, and parameters that no rank used keep their gradient.
  /// Costs a small all-reduce per pass, and a wait for it if a gradient is undefined (set_to_none).
  /// Without this option they are a DistributedError on all ranks, naming the rank and the
  /// parameters.
  bool find_unused_parameters = false;
  /// Whether every pass uses the same parameters: those that the first does not use are ignored
  /// from then on, at no cost.
  bool static_graph = false;
  /// Whether buckets are rebuilt after the first pass, in the order in which its gradients became
  /// ready. Positions in a bucket decide how sums of three and more ranks are rounded: without
  /// rebuilding, the first step of a resumed run has the same bits as in an uninterrupted one.
  bool rebuild_buckets = true;
  /// Apex's: whether communication begins only when backward has ended.
  bool delay_allreduce = false;
  /// Whether gradients are averaged instead of summed. Sums require that only one pass per step is
  /// communicated, and the others run in no_sync(): values in a gradient from an earlier
  /// communicated pass would be added again.
  bool gradient_average = true;
  /// Apex's: gradients are divided by it before they are added, and by world size / it afterwards,
  /// which keeps 16-bit sums in range.
  double gradient_predivide_factor = 1;
  /// The algorithm of the sums.
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::automatic;
};

/// The options of join().
struct JoinOptions {
  /// Whether gradients are divided by the number of all ranks, or of those that still have inputs.
  bool divide_by_initial_world_size = true;
  /// Whether all ranks get a DistributedError, naming the first that has no more inputs.
  bool throw_on_early_termination = false;
};

namespace ddp {
class Reducer;
}

/// While it lives, backward passes of newly computed results, and backward passes that run, stay on
/// this rank. The next other pass averages the accumulated gradients.
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
/// in the communication of the others until they have ended theirs too; then all get the parameters
/// and buffers of a rank that ended last. One forward and one backward per step. Optimizer state,
/// and communication of modules themselves (SyncBatchNorm), are not handled.
class [[nodiscard]] Join {
 public:
  explicit Join(std::shared_ptr<ddp::Reducer> reducer, const JoinOptions& options);
  /// finish(), unless an exception is being handled; errors leave the group aborted.
  ~Join();
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;
  /// The same as the destructor, with errors thrown.
  void finish();

 private:
  std::shared_ptr<ddp::Reducer> reducer_;
  const int exceptions_;
};

/// The part that does not depend on the model's type.
class DistributedDataParallelBase : public nn::Module {
 public:
  ~DistributedDataParallelBase() override;

  /// The group that communicates.
  ProcessGroup& process_group() const;
  const DDPOptions& options() const;
  /// While the result lives, gradients are added up on each rank and not averaged.
  NoSync no_sync();
  /// While the result lives, ranks that have no more batches take part in the others' steps.
  Join join(const JoinOptions& options = {});
  /// Makes `hook` communicate buckets instead of an all-reduce (parallel/ddp/comm_hooks.h);
  /// averaging options are then up to the hook. All ranks must register the same one, before the
  /// first backward. ValueError if there is one already.
  void register_comm_hook(CommHook hook, std::string name = "hook");

  /// Buckets, and communication times since the start or the last reset_report().
  DDPReport report() const;
  void reset_report();

  std::string name() const override { return "DistributedDataParallel"; }

 protected:
  DistributedDataParallelBase(nn::Module& module, const DDPOptions& options);

  /// What a step does before the module's forward().
  void before_forward();
  /// What a step does after the module's forward().
  void after_forward(std::span<const Tensor> outputs, bool are_all);

 private:
  std::shared_ptr<ddp::Reducer> reducer_;
};

/// A network of which each rank has a copy; backward() averages the gradients of all ranks while it
/// runs. `M` is the model's type; calls have its arguments and results. A plain nn::Module takes
/// and returns a tensor.
///
///   parallel::init_process_group();
///   parallel::DistributedDataParallel ddp(model);
///   cross_entropy(ddp(images), labels).backward();
template <class M = nn::Module>
class DistributedDataParallel : public DistributedDataParallelBase {
 public:
  /// Waits for all ranks of the group. DistributedError, on all of them, if models or options do
  /// not agree: it names the ranks and their values. ValueError without a group (call
  /// init_process_group() first), if no parameter requires a gradient or an option is out of range.
  explicit DistributedDataParallel(M& module, const DDPOptions& options = {})
      : DistributedDataParallelBase(module, options), module_(module) {}

  M& module() const { return module_; }

  /// Calls the module; backward then averages gradients.
  template <class... Inputs>
  requires std::invocable<M&, Inputs...>
  auto operator()(Inputs&&... inputs) {
    if (has_hooks()) [[unlikely]]
      return in_call([&] {
        return nn::detail::call_hooked(
            hooks(), *this, [&](auto&&... x) { return run(std::forward<decltype(x)>(x)...); },
            std::forward<Inputs>(inputs)...);
      });
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
      after_forward({}, false);
    } else {
      auto result = module_(std::forward<Inputs>(inputs)...);
      std::vector<Tensor> outputs;
      const auto collect = [&](const Tensor& t) { outputs.push_back(t); };
      nn::detail::for_each_tensor(result, collect);
      after_forward(outputs, nn::detail::shows_all_tensors<decltype(result)>());
      return result;
    }
  }

  M& module_;
};

/// DistributedDataParallel under its short name. It is no alias: clang++ deduces no arguments of
/// one in `DDP ddp(net)`.
template <class M = nn::Module>
class DDP : public DistributedDataParallel<M> {
 public:
  using DistributedDataParallel<M>::DistributedDataParallel;
};
template <class M>
explicit DDP(M&, const DDPOptions& = {}) -> DDP<M>;

}  // namespace ferrite::parallel

namespace ferrite::nn {
namespace parallel = ferrite::parallel;  // nn::parallel::DistributedDataParallel
}  // namespace ferrite::nn
