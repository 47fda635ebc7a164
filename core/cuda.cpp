#include "ferrite/core/cuda.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "ferrite/core/allocator.h"
#include "ferrite/core/background_waits.h"
#include "ferrite/core/error.h"

namespace ferrite::cuda {

std::string describe() {
  const Versions v = versions();
  std::string text = fmt::format("CUDA runtime {}, driver {}, cuDNN {}, NCCL {}\n", v.runtime,
                                 v.driver, v.cudnn, v.nccl);
  const int count = device_count();
  if (count == 0) return text + fmt::format("no CUDA device: {}\n", why_unavailable());
  const auto bytes = [](std::size_t n) { return ferrite::detail::readable_bytes(n); };
  for (int i = 0; i < count; ++i) {
    const DeviceProperties& p = properties(i);
    text += fmt::format(
        "cuda:{}  {}, compute capability {}.{}\n"
        "  memory         {}, {} bit bus, L2 cache {}{}\n"
        "  multiprocessors {} of {} threads, {} registers, {} shared memory\n"
        "  a block        {} threads in warps of {}, {} shared memory ({} where asked for)\n",
        i, p.name, p.major, p.minor, bytes(p.total_memory), p.memory_bus_bits, bytes(p.l2_cache),
        p.integrated ? ", shared with the host" : "", p.multiprocessors,
        p.max_threads_per_multiprocessor, p.registers_per_multiprocessor,
        bytes(p.shared_memory_per_multiprocessor), p.max_threads_per_block, p.warp_size,
        bytes(p.shared_memory_per_block), bytes(p.max_shared_memory_per_block));
    std::string peers;
    for (int j = 0; j < count; ++j)
      if (j != i && can_access_peer(i, j)) peers += fmt::format(" cuda:{}", j);
    if (count > 1) text += fmt::format("  peer access   {}\n", peers.empty() ? " none" : peers);
  }
  return text;
}

// ---- Waiting

namespace {
std::atomic<SyncDebugMode> waiting{SyncDebugMode::off};
std::atomic<std::uint64_t> waits{0};
thread_local int in_background = 0;
}  // namespace

BackgroundWaits::BackgroundWaits() { ++in_background; }
BackgroundWaits::~BackgroundWaits() { --in_background; }

void set_sync_debug_mode(SyncDebugMode mode) { waiting.store(mode, std::memory_order_relaxed); }
SyncDebugMode sync_debug_mode() { return waiting.load(std::memory_order_relaxed); }
std::uint64_t synchronizations() { return waits.load(std::memory_order_relaxed); }

void detail::check_may_wait(std::string_view op) {
  FERRITE_CHECK(sync_debug_mode() != SyncDebugMode::error || in_background > 0, CudaError, op,
                "the host would wait for a CUDA device here, which set_sync_debug_mode forbids");
}

void detail::about_to_wait(std::string_view op) {
  if (in_background > 0) return;
  check_may_wait(op);
  waits.fetch_add(1, std::memory_order_relaxed);
  if (sync_debug_mode() == SyncDebugMode::warn)
    fmt::print(stderr, "[{}] the host waits for a CUDA device\n", op);
}

// ---- Profiling

std::atomic<bool> detail::profiling{[] {
  const char* value = std::getenv("FERRITE_NVTX");
  return value && std::string_view(value) != "" && std::string_view(value) != "0";
}()};

void set_profiling(bool on) { detail::profiling.store(on, std::memory_order_relaxed); }

}  // namespace ferrite::cuda
