#include "ferrite/tests/emulator/src/block_state.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ferrite/tests/emulator/src/report.h"
#include "ferrite/tests/emulator/src/scheduler.h"

namespace emulator {

void BlockState::configure(dim3 shape, void (*run_thread)(const void*), const void* closure) {
  const int threads_before = size;
  static dim3 shape_before(0, 0, 0);
  size = static_cast<int>(shape.x * shape.y * shape.z);
  warps = (size + 31) / 32;
  run = run_thread;
  self = closure;
  error = cudaSuccess;
  if (threads_before == size && shape_before.x == shape.x && shape_before.y == shape.y) return;
  shape_before = shape;
  for (int i = 0; i < size; ++i) {
    const auto rank = static_cast<unsigned>(i);
    threads[i].rank = i;
    threads[i].index = {rank % shape.x, rank / shape.x % shape.y, rank / (shape.x * shape.y)};
  }
  for (int w = 0; w < warps; ++w) exists[w] = 32 * (w + 1) <= size ? ~0u : (1u << (size & 31)) - 1;
}

void BlockState::start() {
  live = size;
  arrived = count = phase = 0;
  idle_yields = 0;
  for (int w = 0; w < warps; ++w) {
    ready[w] = exists[w];
    at_barrier[w] = waiting[w] = returned[w] = 0;
  }
  ready_warps = warps == 32 ? ~0u : (1u << warps) - 1;
  for (int i = 0; i < size; ++i) threads[i].fiber = nullptr;
}

void check_waiting_for(const BlockThread& thread) {
  const int w = thread.warp();
  for_each_lane(block.waiting[w], [&](int lane) {
    const WarpRequest& r = *block.threads[w * 32 + lane].request;
    if (r.mask >> thread.lane() & 1)
      fatal(r.file, r.line, "%s: lane %d waits for lane %d of mask %08x, which has returned",
            r.name, lane, thread.lane(), r.mask);
  });
}

namespace {

/// "__syncthreads at a.cu:12", for threads that wait.
std::string waits_in(const BlockThread& t) {
  std::string text;
  if (block.at_barrier[t.warp()] >> t.lane() & 1) {
    text = "__syncthreads";
  } else if (block.waiting[t.warp()] >> t.lane() & 1) {
    char mask[32];
    std::snprintf(mask, sizeof mask, " (mask %08x)", t.request->mask);
    text = std::string(t.request->name) + mask;
  } else {
    return "";
  }
  return text + " at " + t.file + ":" + std::to_string(t.line);
}

}  // namespace

void report_deadlock() {
  std::fflush(stdout);
  const Launch& launch = *running_launch();
  std::fprintf(stderr,
               "emulator: %s:%d: kernel %s never ends: block (%u,%u,%u) has %d threads, of which "
               "%d have returned and the others wait for each other:\n",
               launch.file, launch.line, launch.name, blockIdx.x, blockIdx.y, blockIdx.z,
               block.size, block.size - block.live);
  int shown = 0;
  for (int i = 0; i < block.size && shown < 16;) {
    const std::string place = waits_in(block.threads[i]);
    int end = i + 1;
    while (end < block.size && waits_in(block.threads[end]) == place) ++end;
    if (!place.empty()) {
      std::fprintf(stderr, "  threads %d to %d wait in %s\n", i, end - 1, place.c_str());
      ++shown;
    }
    i = end;
  }
  std::fflush(stderr);
  std::abort();
}

}  // namespace emulator
