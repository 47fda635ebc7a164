// The threads of a block run on one stack, one after another, until one of them has to wait: only
// then do the others get stacks of their own. A kernel without barriers is a plain loop.
#include "ferrite/tests/emulator/src/scheduler.h"

#include <time.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "ferrite/tests/emulator/src/async_copy.h"
#include "ferrite/tests/emulator/src/block_state.h"
#include "ferrite/tests/emulator/src/fiber.h"
#include "ferrite/tests/emulator/src/ledger.h"
#include "ferrite/tests/emulator/src/race.h"
#include "ferrite/tests/emulator/src/report.h"
#include "ferrite/tests/emulator/src/settings.h"
#include "ferrite/tests/emulator/src/shared_memory.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulator {

Counters counts;
BlockState block;
constinit thread_local bool inside_kernel = false;

namespace {

const Launch* launch_running = nullptr;
int device_running = 0;

Fiber* fiber_now = nullptr;
Fiber* fiber_of_launch = nullptr;  // the operating system thread's own stack
// Never destroyed: leak checkers search the stacks at exit.
std::vector<Fiber*>& idle_fibers = *new std::vector<Fiber*>;

std::uint64_t random_state = 1;

void fiber_main();

Fiber* take_fiber() {
  if (idle_fibers.empty()) return new_fiber(fiber_main);
  Fiber* const fiber = idle_fibers.back();
  idle_fibers.pop_back();
  return fiber;
}

void go_to(Fiber* fiber) {
  Fiber* const from = fiber_now;
  ++counts.switches;
  fiber_now = fiber;
  switch_fiber(*from, *fiber);
}

/// The first set bit at or above `start`, else the lowest.
int next_bit(std::uint32_t bits, int start) {
  return (std::countr_zero(std::rotr(bits, start)) + start) & 31;
}

/// A thread that can run, or null. Orders other than shuffled stay with the warp.
BlockThread* choose(int warp) {
  const std::uint32_t warps = block.ready_warps;
  if (!warps) return nullptr;
  int lane;
  switch (current_settings.order) {
    case Order::ascending:
      warp = next_bit(warps, warp);
      lane = std::countr_zero(block.ready[warp]);
      break;
    case Order::descending:
      // The first at or below, cyclically: rotate it to the top.
      warp = (warp - std::countl_zero(std::rotl(warps, 31 - warp))) & 31;
      lane = 31 - std::countl_zero(block.ready[warp]);
      break;
    default: {
      const std::uint32_t random = random_bits();
      warp = next_bit(warps, static_cast<int>(random & 31));
      lane = next_bit(block.ready[warp], static_cast<int>(random >> 5 & 31));
    }
  }
  return &block.threads[warp * 32 + lane];
}

/// Makes `thread` the running one.
void become(BlockThread* thread) {
  block.current = thread;
  threadIdx = thread->index;
  block.set_running(*thread);
}

void run_next(BlockThread* thread) {
  if (!thread->fiber) thread->fiber = take_fiber();
  become(thread);
  if (thread->fiber != fiber_now) go_to(thread->fiber);
}

/// The running thread has ended: threads that waited for it continue, or an error is reported.
void thread_returned(BlockThread& thread) {
  block.set_returned(thread);
  ++counts.threads;
  if (block.waiting[thread.warp()]) check_waiting_for(thread);
  if (block.live && block.arrived == block.live) release_barrier();
}

/// The main function of a fiber: runs one thread of the block after another.
void fiber_main() {
  fiber_started();
  for (;;) {
    BlockThread* const thread = block.current;
    block.run(block.self);
    thread_returned(*thread);
    BlockThread* const next = block.live ? choose(thread->warp()) : nullptr;
    if (next && !next->fiber) {  // the next thread starts on this same stack
      next->fiber = fiber_now;
      become(next);
      continue;
    }
    if (!next && block.live) report_deadlock();
    idle_fibers.push_back(fiber_now);
    if (next) {
      become(next);
      go_to(next->fiber);
    } else {
      block.current = nullptr;
      go_to(fiber_of_launch);
    }
  }
}

/// Order of blocks: i -> (a i + b) mod n, with a coprime to n if shuffled.
struct BlockOrder {
  __extension__ using Wide = unsigned __int128;
  std::uint64_t count, step = 1, start = 0;

  explicit BlockOrder(std::uint64_t n) : count(n) {
    if (current_settings.order == Order::descending) {
      step = n - 1;
      start = n - 1;
    } else if (current_settings.order == Order::shuffled && n > 1) {
      start = random_bits() % n;
      do {
        step = random_bits() % n;
      } while (std::gcd(step, n) != 1);
    }
  }
  std::uint64_t operator()(std::uint64_t i) const {
    return static_cast<std::uint64_t>((static_cast<Wide>(i) * step + start) % count);
  }
};

void run_block(std::uint64_t rank) {
  const dim3& grid = launch_running->grid;
  blockIdx = {static_cast<unsigned>(rank % grid.x), static_cast<unsigned>(rank / grid.x % grid.y),
              static_cast<unsigned>(rank / grid.x / grid.y)};
  begin_shared_block();
  block.start();
  race_block_started(rank);
  const bool down = current_settings.order == Order::descending;
  run_next(choose(down ? block.warps - 1 : 0));
  // Returns here when the last thread has returned, or one has trapped.
  end_shared_block();
  drop_async_copies();
  ++counts.blocks;
}

/// After a trap: waiting threads are abandoned, and their stacks reclaimed.
void abandon_threads() {
  for (int i = 0; i < block.size; ++i) {
    Fiber* const fiber = block.threads[i].fiber;
    if (block.is_live(block.threads[i]) && fiber) {
      restart_fiber(*fiber, fiber_main);
      idle_fibers.push_back(fiber);
    }
  }
  block.current = nullptr;
}

}  // namespace

cudaError_t run_grid(const Launch& launch, int device, void (*run)(const void*), const void* self) {
  static thread_local Fiber os_thread;
  fiber_of_launch = fiber_now = &os_thread;
  launch_running = &launch;
  device_running = device;
  inside_kernel = true;
  ++counts.launches;
  gridDim = launch.grid;
  blockDim = launch.block;
  begin_shared_launch(launch.shared_bytes, shared_limit(launch.function));
  block.configure(launch.block, run, self);
  const std::uint64_t blocks =
      static_cast<std::uint64_t>(launch.grid.x) * launch.grid.y * launch.grid.z;
  race_launch_started();
  ledger_launch(launch);
  const BlockOrder order(blocks);
  for (std::uint64_t i = 0; i < blocks && block.error == cudaSuccess; ++i) run_block(order(i));
  if (block.error != cudaSuccess) abandon_threads();
  inside_kernel = false;
  launch_running = nullptr;
  return block.error;
}

void trap(cudaError_t error, const char* file, int line) {
  if (!inside_kernel) fatal(file, line, "__trap outside of a kernel");
  std::fprintf(stderr, "emulator: %s:%d: the kernel trapped\n", file, line);
  print_kernel_place(stderr);
  block.error = error;
  go_to(fiber_of_launch);
  std::abort();  // unreachable: the fiber is restarted
}

void block_here() {
  BlockThread* const next = choose(block.current->warp());
  if (!next) report_deadlock();
  run_next(next);
}

void yield_thread() {
  BlockThread* const self = block.current;
  if (!self) fatal("?", 0, "__nanosleep outside of a kernel");
  // If all threads only poll, they poll for another block or for the host.
  constexpr std::uint64_t kPatience = std::uint64_t{1} << 24;
  if (++block.idle_yields > kPatience)
    fatal(launch_running->file, launch_running->line,
          "the threads of a block poll for what never comes: blocks run one after another here");
  BlockThread* const next = choose((self->warp() + 1) % block.warps);
  if (!next) return;
  block.set_ready(*self);
  run_next(next);
}

const Launch* running_launch() { return launch_running; }
int running_device() { return device_running; }
Counters counters() { return counts; }

std::uint32_t random_bits() {  // xorshift64*, Vigna 2016
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return static_cast<std::uint32_t>(random_state * 0x2545f4914f6cdd1dull >> 32);
}
void reseed() {
  random_state = (current_settings.seed + 1) * 0x9e3779b97f4a7c15ull;
  for (int i = 0; i < 4; ++i) random_bits();
}

long long clock_now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}
unsigned global_timer_low() { return static_cast<unsigned>(clock_now()); }

}  // namespace emulator
