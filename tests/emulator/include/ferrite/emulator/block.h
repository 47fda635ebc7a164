// A thread's view of its block: built-in variables, barriers, shared memory, fences, clocks.
#pragma once

#include <driver_types.h>
#include <vector_types.h>

#include <cstddef>
#include <type_traits>

/// Parameters that capture the caller's source location, for reports.
#define EMULATOR_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// Only one kernel runs at a time in the whole process, and the scheduler updates these variables
// whenever it switches between threads of the kernel.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace emulator {

enum class Vote { none, count, all, any };

/// __syncthreads and its variants; returns the result of the vote.
int block_barrier(Vote vote, bool predicate, const char* file, int line);

/// Makes this thread's writes visible to other blocks, for the race detector.
void thread_fence();

/// Lets other threads of the block run.
void yield_thread();

/// Ends the kernel; calls on the device then return `error` until it is reset.
[[noreturn]] void trap(cudaError_t error, const char* file, int line);

long long clock_now();
unsigned global_timer_low();

/// Rank of the running thread in its block.
unsigned thread_rank();
/// Lanes of the running thread's warp that have not returned.
unsigned live_lanes();

/// The dynamic shared memory of the block, aligned to 128 bytes.
void* dynamic_shared();
std::size_t dynamic_shared_bytes();

/// Allocates one array in the block's shared memory, with exactly the requested alignment, followed
/// by a red zone, and filled with NaN bits at the start of every block.
void* static_shared(std::size_t bytes, std::size_t alignment);

/// Counts launches; the allocation of a SharedSlot belongs to one of them.
extern unsigned long long launch_serial;

/// A static shared array: one slot, itself static, per declaration and template instance.
class SharedSlot {
 public:
  template <class T>
  __attribute__((no_sanitize("thread"))) T& get(std::size_t alignment = alignof(T)) {
    static_assert(std::is_trivially_destructible_v<std::remove_all_extents_t<T>>,
                  "shared memory runs no constructors or destructors");
    if (serial_ != launch_serial) {
      address_ = static_shared(sizeof(T), alignment);
      serial_ = launch_serial;
    }
    return *static_cast<T*>(address_);
  }

 private:
  unsigned long long serial_ = 0;
  void* address_ = nullptr;
};

// cp.async: the copy is complete only when its group is waited for; until then the target holds NaN
// bits.
void async_copy(void* shared, const void* global, std::size_t bytes, std::size_t source_bytes);
void async_commit();
void async_wait(int groups_in_flight);

}  // namespace emulator

inline void __syncthreads(EMULATOR_SITE) {
  emulator::block_barrier(emulator::Vote::none, false, file, line);
}
inline int __syncthreads_count(int predicate, EMULATOR_SITE) {
  return emulator::block_barrier(emulator::Vote::count, predicate != 0, file, line);
}
inline int __syncthreads_and(int predicate, EMULATOR_SITE) {
  return emulator::block_barrier(emulator::Vote::all, predicate != 0, file, line);
}
inline int __syncthreads_or(int predicate, EMULATOR_SITE) {
  return emulator::block_barrier(emulator::Vote::any, predicate != 0, file, line);
}
inline void __threadfence() { emulator::thread_fence(); }
inline void __threadfence_block() { emulator::thread_fence(); }
inline void __threadfence_system() { emulator::thread_fence(); }
inline void __nanosleep(unsigned) { emulator::yield_thread(); }
inline unsigned __activemask() { return emulator::live_lanes(); }
inline long long clock64() { return emulator::clock_now(); }
inline unsigned __clock_low() { return static_cast<unsigned>(emulator::clock_now()); }
[[noreturn]] inline void __trap(EMULATOR_SITE) {
  emulator::trap(cudaErrorLaunchFailure, file, line);
}
