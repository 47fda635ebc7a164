#include "ferrite/parallel/comm/nccl/agree_on_communicator.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/error.h"

namespace ferrite::parallel::nccl {

namespace {

constexpr const char* kOp = "init_process_group";
constexpr std::string_view kOk = "ok:", kRefused = "no:";

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

/// The identity by which NCCL distinguishes hosts.
std::string host_id() {
  if (std::string id = environment("NCCL_HOSTID"); !id.empty()) return id;
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return fmt::format("{} {}", name.data(), boot);
}

/// A GPU's identity for NCCL: the same text for the same GPU.
std::string gpu_id(const Device& device) {
  std::array<char, 32> bus{};
  FERRITE_CUDA_CHECK(
      cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device.index()));
  return fmt::format("GPU {} of host {}", bus.data(), host_id());
}

std::string device_key(int rank) { return fmt::format("nccl/device/{}", rank); }
constexpr const char* kIdKey = "nccl/id";

std::chrono::milliseconds until(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

/// On rank 0: waits for all ranks to report their GPU.
void check_devices(const GroupContext& context, const std::string& own, Deadline deadline) {
  std::map<std::string, int> rank_of{{own, 0}};
  for (int rank = 1; rank < context.size; ++rank) {
    std::string gpu;
    try {
      gpu = context.store->get(device_key(rank), until(deadline));
    } catch (const DistributedError& error) {
      fail<DistributedError>(kOp, "rank {} has not arrived in group {}: {}", context.job_rank(rank),
                             context.name, error.what());
    }
    const auto [first, is_new] = rank_of.emplace(gpu, rank);
    FERRITE_CHECK(is_new, DistributedError, kOp,
                  "ranks {} and {} both have {}, which NCCL refuses: give each rank a GPU of its "
                  "own (LOCAL_RANK, CUDA_VISIBLE_DEVICES or InitOptions::device). To try several "
                  "ranks on one GPU, start each with another NCCL_HOSTID, and with "
                  "NCCL_NET=Socket",
                  context.job_rank(first->second), context.job_rank(rank), gpu);
  }
}

ncclUniqueId new_id(const Library& library) {
  ncclUniqueId id;
  const ncclResult_t result = library.get_unique_id(&id);
  if (result == ncclSuccess) return id;
  const char* const last = library.last_error(nullptr);
  fail<DistributedError>(kOp,
                         "NCCL cannot begin: {}: {}; NCCL_DEBUG=INFO has it say more, and "
                         "NCCL_SOCKET_IFNAME tells it which network to use",
                         library.error_string(result), last ? last : "");
}

std::string bytes_of(const ncclUniqueId& id) { return {id.internal, sizeof id.internal}; }

}  // namespace

Device choose_device(const GroupContext& context) {
  const int count = cuda::device_count();
  FERRITE_CHECK(count > 0, DeviceError, kOp,
                "nccl needs CUDA devices, and there are none: {}; use the backend \"gloo\"",
                cuda::why_unavailable());
  if (context.device) {
    FERRITE_CHECK(context.device->is_cuda() && context.device->index() < count, DeviceError, kOp,
                  "nccl was told to use {}; expected one of cuda:0 to cuda:{}", *context.device,
                  count - 1);
    return *context.device;
  }
  // A launcher that shows each rank a single device has already chosen.
  const int index = count == 1 ? 0 : get_local_rank();
  const std::string visible = environment("CUDA_VISIBLE_DEVICES");
  FERRITE_CHECK(index < count, DeviceError, kOp,
                "this is local rank {}, but there are {} CUDA devices{}; start fewer processes on "
                "this host, or say which device in InitOptions::device",
                index, count,
                visible.empty() ? "" : fmt::format(" (CUDA_VISIBLE_DEVICES={})", visible));
  return Device(DeviceType::cuda, index);
}

ncclUniqueId agree_on_communicator(const GroupContext& context, const Library& library,
                                   const Device& device, Deadline deadline) {
  if (context.size == 1) return new_id(library);
  const std::string own = gpu_id(device);
  if (context.rank == 0) {
    // Keeps some time to notify the others.
    const Deadline early = deadline - context.timeout / 10;
    try {
      check_devices(context, own, early);
      const ncclUniqueId id = new_id(library);
      context.store->set(kIdKey, std::string(kOk) + bytes_of(id));
      return id;
    } catch (const DistributedError& error) {
      context.store->set(kIdKey, std::string(kRefused) + error.what());
      throw;
    }
  }
  context.store->set(device_key(context.rank), own);
  const std::string answer = context.store->get(kIdKey, until(deadline));
  if (answer.starts_with(kRefused)) throw DistributedError(answer.substr(kRefused.size()));
  ncclUniqueId id;
  FERRITE_CHECK(answer.starts_with(kOk) && answer.size() == kOk.size() + sizeof id.internal,
                DistributedError, kOp, "the store has {} bytes for NCCL's id, which are none",
                answer.size());
  std::memcpy(id.internal, answer.data() + kOk.size(), sizeof id.internal);
  return id;
}

}  // namespace ferrite::parallel::nccl
