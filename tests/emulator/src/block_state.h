// The running block: which of its threads are ready, waiting, or have returned.
#pragma once

#include <bit>
#include <cstdint>

#include "ferrite/emulator/block.h"
#include "ferrite/emulator/warp.h"

namespace emulator {

struct Fiber;

struct BlockThread {
  Fiber* fiber;  // null until the thread starts
  uint3 index;
  int rank;
  const char* file;  // source location of the wait
  int line;
  WarpRequest* request;  // the warp-wide operation it waits in, if any

  int warp() const { return rank >> 5; }
  int lane() const { return rank & 31; }
};

struct BlockState {
  static constexpr int kMaxThreads = 1024;

  BlockThread threads[kMaxThreads];
  BlockThread* current;  // the one that runs
  // One bit for each lane of each warp; ready_warps has one bit for each warp with a ready lane.
  std::uint32_t exists[32], ready[32], at_barrier[32], waiting[32], returned[32];
  std::uint32_t ready_warps;
  int size, warps;
  int live;     // threads that have not returned
  int arrived;  // at the barrier
  const char* barrier_file;
  int barrier_line;
  int count;        // number of true predicates at the barrier
  int phase;        // barriers passed
  int votes[2][4];  // results by the phase's parity: some threads read them a phase late
  std::uint64_t idle_yields;
  cudaError_t error;
  void (*run)(const void* self);
  const void* self;

  void configure(dim3 shape, void (*run_thread)(const void*), const void* closure);
  void start();

  void set_ready(BlockThread& t) {
    ready[t.warp()] |= 1u << t.lane();
    ready_warps |= 1u << t.warp();
  }
  void set_ready(int warp, std::uint32_t lanes) {
    if (!lanes) return;
    ready[warp] |= lanes;
    ready_warps |= 1u << warp;
  }
  void set_running(BlockThread& t) {
    if (!(ready[t.warp()] &= ~(1u << t.lane()))) ready_warps &= ~(1u << t.warp());
  }
  void set_returned(BlockThread& t) {
    returned[t.warp()] |= 1u << t.lane();
    --live;
    idle_yields = 0;
  }
  bool is_live(const BlockThread& t) const { return !(returned[t.warp()] >> t.lane() & 1); }
};

extern BlockState block;

/// Runs others until the current thread is ready again.
void block_here();

void release_barrier();

/// Reports an error if a thread waits for `thread`, which has returned, in a warp-wide operation.
void check_waiting_for(const BlockThread& thread);

[[noreturn]] void report_deadlock();

}  // namespace emulator
