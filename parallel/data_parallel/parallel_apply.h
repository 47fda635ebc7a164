// Runs replicas in parallel (torch.nn.parallel.parallel_apply).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/core/device.h"
#include "ferrite/core/error.h"
#include "ferrite/parallel/data_parallel/replicate.h"

namespace ferrite::parallel {

/// Calls f(i) for every devices[i], each in a thread that is kept for later calls (the first in the
/// caller), and waits for all. Thread-safe, also when called from within f.
///
/// The threads have the caller's grad mode, autocast (with an empty cache), current streams of
/// `devices` and default process group; Device("cuda") means each call's own device, if that is a
/// CUDA device. If the caller's default device is not the host, that of each call is its own
/// device. Random numbers come from the devices' generators as usual. Inside a checkpointed
/// function, or with one device, the calls run one after another in the caller, whose saved tensors
/// they share; the first exception then ends the sequence.
///
/// When all have ended, the exception of the call with the lowest number is rethrown with the same
/// type and with the device in its text: "[parallel_apply] replica 1 on cuda:1: ...". Standard
/// exceptions become Error, and others than std::exception are passed unchanged. Errors of queued
/// work and of kernels appear when their device is next waited for, as usual, or in the next call
/// here, before anything runs.
void parallel_for_devices(std::span<const Device> devices,
                          const std::function<void(std::size_t)>& f);

/// replicas[i](inputs[i]...) for every input, in parallel: a vector of the results, or nothing if
/// they are void. `inputs` are tuples of arguments, at most as many as replicas and devices
/// (ValueError).
template <class M = nn::Module, class... Inputs>
auto parallel_apply(const Replicas& replicas, const std::vector<std::tuple<Inputs...>>& inputs,
                    std::span<const Device> devices) {
  FERRITE_CHECK(inputs.size() <= replicas.size() && inputs.size() <= devices.size(), ValueError,
                "parallel_apply", "{} inputs for {} replicas on {} devices", inputs.size(),
                replicas.size(), devices.size());
  const auto call = [&](std::size_t i) -> decltype(auto) {
    const autograd::CheckpointOwner owner(replicas.owner());
    return std::apply(
        [&](const Inputs&... x) -> decltype(auto) { return replicas.get<M>(i)(x...); }, inputs[i]);
  };
  using Result = std::remove_cvref_t<std::invoke_result_t<decltype(call), std::size_t>>;
  if constexpr (std::is_void_v<Result>) {
    parallel_for_devices(devices.first(inputs.size()), call);
  } else {
    std::vector<std::optional<Result>> returned(inputs.size());
    parallel_for_devices(devices.first(inputs.size()),
                         [&](std::size_t i) { returned[i].emplace(call(i)); });
    std::vector<Result> results;
    results.reserve(returned.size());
    for (std::optional<Result>& result : returned) results.push_back(std::move(*result));
    return results;
  }
}

}  // namespace ferrite::parallel
