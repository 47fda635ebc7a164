// Running replicas at the same time (torch.nn.parallel.parallel_apply).
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/device.h"
#include "parallel/data_parallel/replicate.h"

namespace ferrite::parallel {

/// Calls f(i) for every devices[i], each in a thread of its own that stays for later calls (the
/// first in the caller), and waits for all. Threads have the caller's grad mode, autocast, default
/// streams of the devices, deterministic mode and default process group. Inside a checkpointed
/// function, or with one device, they run one after another in the caller, whose saved tensors they
/// share. What a call throws is thrown again when all have ended, that of the lowest number, with
/// the device in its text and of the same type: "[parallel_apply] replica 1 on cuda:1: ...".
void parallel_for_devices(std::span<const Device> devices,
                          const std::function<void(std::size_t)>& f);

/// replicas[i](inputs[i]...) for every input, at the same time. `inputs` are tuples of arguments,
/// at most as many as there are replicas (ValueError).
template <class M = nn::Module, class... Inputs>
auto parallel_apply(const Replicas& replicas, const std::vector<std::tuple<Inputs...>>& inputs,
                    std::span<const Device> devices);

}  // namespace ferrite::parallel
