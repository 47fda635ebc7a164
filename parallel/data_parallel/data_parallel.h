// DataParallel: data parallelism over several devices in one process (torch.nn.DataParallel), with
// a parameter server on the first device. Every forward() splits the batch, sends the parameters to
// the other devices, runs all replicas in parallel and gathers the outputs; backward sums the
// gradients on the first device, where the optimizer runs.
//
//   Net net;
//   net.to("cuda:0");
//   parallel::DataParallel dp(net, {"cuda:0", "cuda:1"});
//   optim::SGD sgd(dp.parameters(), {.lr = 0.1});
//   ...
//   cross_entropy(dp(images), labels).backward();
//   sgd.step();
//
// It is a module with the parameters, buffers, modules and names of the one it wraps, which must
// outlive it. Use it like torch's class of that name:
// - with several devices the module must derive from nn::Cloneable, and take and return values of
//   nested.h: tensors, also in lists, maps and structs;
// - only the buffers (running statistics) of the first replica are kept. Changes that forward()
//   makes in the others, including unregistered members, are lost with them;
// - hooks of the wrapper see the whole batch. Those of the modules below, which the replicas share,
//   see parts of it, in one thread per replica;
// - batches smaller than the number of devices run on fewer. With one device the module itself
// runs;
// - only one call at a time. docs/data_parallel.md describes the cost of a step.
// See data_parallel_criterion.h for losses that are computed by the replicas.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/nn/module.h"
#include "ferrite/parallel/data_parallel/data_parallel_timing.h"
#include "ferrite/parallel/data_parallel/device_comm.h"
#include "ferrite/parallel/data_parallel/gather.h"
#include "ferrite/parallel/data_parallel/parallel_apply.h"
#include "ferrite/parallel/data_parallel/replicate.h"
#include "ferrite/parallel/data_parallel/scatter.h"
#include "ferrite/parallel/data_parallel/value_sizes.h"
#include "ferrite/parallel/reports/reports.h"

namespace ferrite::parallel {

struct DataParallelOptions {
  /// Where outputs are gathered; default: the first device.
  std::optional<Device> output_device = {};
  int dim = 0;  ///< dimension of inputs and outputs that is split
  /// Gradients are summed and sent to the first device in buckets of this many megabytes (2^20
  /// bytes), while backward continues.
  double bucket_cap_mb = 25;
  std::string backend = {};  ///< of make_device_comm
};

/// The part that does not depend on the model's type.
class DataParallelBase : public nn::Module {
 public:
  DataParallelBase(const DataParallelBase&) = delete;

  const std::vector<Device>& devices() const { return devices_; }
  /// Where outputs are gathered.
  const Device& output_device() const { return output_; }
  const DataParallelOptions& options() const { return options_; }
  /// The communicator of the first `devices` devices, two or more.
  dp::DeviceComm& comm(std::size_t devices) const;

  /// Bytes moved and time spent since the start or the last reset_report().
  DataParallelReport report() const;
  void reset_report() { times_->reset(); }

  std::string name() const override { return "DataParallel"; }

 protected:
  DataParallelBase(nn::Module& module, std::vector<Device> devices,
                   const DataParallelOptions& options);

  /// A call; reports its phases, in their order, for timing.
  class Call {
   public:
    explicit Call(DataParallelBase& dp);
    /// Notes for the report that the inputs have been sent.
    void scattered(std::int64_t bytes) {
      if (timed_) timed_->scattered(bytes);
    }
    /// The replicas for this many chunks, two or more.
    Replicas replicate(std::size_t chunks);
    /// There is only one chunk, which goes to the module itself.
    void not_replicated();
    /// Notes for the report that the replicas have run.
    void applied() {
      if (timed_) timed_->applied();
    }
    /// Notes for the report that the outputs have been joined.
    void gathered(std::int64_t bytes) {
      if (timed_) timed_->gathered(bytes);
    }
    /// The call is over.
    void end() {
      if (timed_) dp_.times_->end(std::move(*timed_));
    }

   private:
    DataParallelBase& dp_;
    std::optional<dp::DataParallelTimes::Step> timed_;  // none if it is not timed
  };

 private:
  nn::Module& wrapped_;
  const std::vector<Device> devices_;
  const Device output_;
  const DataParallelOptions options_;
  const std::shared_ptr<dp::DataParallelTimes> times_;
  /// Groups of the first two devices, the first three, ...; created on first use.
  mutable std::vector<std::shared_ptr<dp::DeviceComm>> comms_;
};

/// A network that runs on several devices of this process: each call splits its inputs, runs copies
/// of the module, and joins their outputs. `M` is the model's type; calls have its arguments and
/// results. A plain nn::Module takes and returns a tensor.
///
///   parallel::DataParallel dp(model, {"cuda:0", "cuda:1"});
///   cross_entropy(dp(images), labels).backward();
template <class M = nn::Module>
class DataParallel final : public DataParallelBase {
 public:
  /// By default on all CUDA devices. The module must be on the first device when it is called
  /// (DeviceError); with one device it is moved there now. ValueError if there is no CUDA device,
  /// one is named twice, or an option is out of range; DeviceError for one that does not exist.
  explicit DataParallel(M& module, std::vector<Device> devices = {},
                        const DataParallelOptions& options = {})
      : DataParallelBase(module, std::move(devices), options), module_(module) {}

  M& module() const { return module_; }

  /// The module's results for all parts, gathered on the output device: tensors are joined along
  /// `dim`; 0-dimensional ones become a vector with one element per replica (not with a single
  /// device). An exception of a replica is rethrown with its device in the text.
  template <class... Inputs>
  requires std::invocable<M&, Inputs...>
  auto operator()(Inputs&&... inputs) {
    return hooked([&](auto&&... x) { return run(std::forward<decltype(x)>(x)...); },
                  std::forward<Inputs>(inputs)...);
  }
  /// The module's result for each part, on the part's device; as many as scatter() makes parts.
  template <class... Inputs>
  requires std::invocable<M&, Inputs...>
  auto parallel_forward(Inputs&&... inputs) {
    return hooked(
        [&](auto&&... x) {
          Call call(*this);
          if constexpr (std::is_void_v<Result<Inputs...>>) {
            apply(call, x...);
            call.end();
          } else {
            auto results = apply(call, x...);
            call.end();
            return results;
          }
        },
        std::forward<Inputs>(inputs)...);
  }
  Tensor forward(const Tensor& input) override {
    if constexpr (std::is_invocable_r_v<Tensor, M&, const Tensor&>)
      return run(input);
    else
      return nn::Module::forward(input);
  }

 private:
  template <class... Inputs>
  using Result = std::remove_cvref_t<std::invoke_result_t<M&, Inputs...>>;

  template <class F, class... Inputs>
  auto hooked(F&& f, Inputs&&... inputs) {
    if (has_hooks()) [[unlikely]] {
      if constexpr (sizeof...(Inputs) == 0)  // hooks do not see arguments that are not tensors
        return nn::detail::call_hooked(
            hooks(), *this, [&](int) { return f(); }, 0);
      else
        return nn::detail::call_hooked(hooks(), *this, std::forward<F>(f),
                                       std::forward<Inputs>(inputs)...);
    }
    return f(std::forward<Inputs>(inputs)...);
  }

  template <class... Inputs>
  auto run(const Inputs&... inputs) {
    Call call(*this);
    if constexpr (std::is_void_v<Result<const Inputs&...>>) {
      apply(call, inputs...);
      call.end();
    } else {
      using R = Result<const Inputs&...>;
      std::vector<R> results = apply(call, inputs...);
      R result = joined(results);
      call.gathered(dp::moved_bytes(results, output_device()));
      call.end();
      return result;
    }
  }

  /// The result of a single device is moved unchanged, while gather() makes vectors of numbers.
  template <class R>
  R joined(const std::vector<R>& results) const {
    if (devices().size() > 1) return gather(results, output_device(), options().dim);
    if (output_device() == devices()[0]) return results[0];
    return std::move(scatter(results[0], std::span(&output_device(), 1))[0]);
  }

  template <class... Inputs>
  auto apply(Call& call, const Inputs&... inputs) {
    using Arguments = std::tuple<std::decay_t<const Inputs&>...>;
    const Arguments whole(inputs...);
    std::vector<Arguments> parts(1);
    if constexpr (sizeof...(Inputs) > 0) parts = scatter(whole, devices(), options().dim);
    call.scattered(dp::moved_bytes(whole, parts));
    const auto used = std::span(devices()).first(parts.size());
    if (parts.size() > 1) {
      const Replicas replicas = call.replicate(parts.size());
      return applied(call, [&] { return parallel_apply<M>(replicas, parts, used); });
    }
    call.not_replicated();
    return applied(call, [&] {
      const auto alone = [&](const auto&... x) { return module_(x...); };
      if constexpr (std::is_void_v<Result<const Inputs&...>>) {
        std::apply(alone, parts[0]);
      } else {
        std::vector<Result<const Inputs&...>> results;
        results.push_back(std::apply(alone, parts[0]));
        return results;
      }
    });
  }

  /// Notes for the report that the replicas have run.
  template <class F>
  auto applied(Call& call, const F& f) {
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      f();
      call.applied();
    } else {
      auto results = f();
      call.applied();
      return results;
    }
  }

  M& module_;
};

}  // namespace ferrite::parallel

namespace ferrite::nn {
using ferrite::parallel::DataParallel;
}  // namespace ferrite::nn
