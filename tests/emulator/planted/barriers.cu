// Threads of a block: barriers that are missing, divergent, or not reached by all.
#include "ferrite/tests/emulator/planted/planted.h"

using namespace planted;

namespace {

enum class Bug { none, first_barrier, loop_barrier, last_barrier };

/// Sums 256 numbers in a tree.
template <Bug bug>
__global__ void tree_sum(const float* x, float* sum) {
  EMULATOR_SHARED(part, float[256]);
  const unsigned t = threadIdx.x;
  part[t] = x[t];
  if (bug != Bug::first_barrier) __syncthreads();
  for (unsigned half = 128; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    if (bug != Bug::loop_barrier) __syncthreads();
  }
  if (t == 0) *sum = part[0];
}

/// Each thread reads its neighbour's value: in ascending order the result happens to be right.
template <Bug bug>
__global__ void take_from_left(const float* x, float* y) {
  EMULATOR_SHARED(tile, float[256]);
  const unsigned t = threadIdx.x;
  tile[t] = x[t];
  if (bug != Bug::first_barrier) __syncthreads();
  y[t] = t ? tile[t - 1] : 0.0f;
}

/// Matrix product of 32x32, in tiles of 16x16; the last barrier keeps a tile until all threads have
/// used it.
template <Bug bug>
__global__ void multiply(const float* a, const float* b, float* c) {
  constexpr int kTile = 16, kSize = 32;
  EMULATOR_SHARED(as, float[kTile][kTile]);
  EMULATOR_SHARED(bs, float[kTile][kTile]);
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int row = static_cast<int>(blockIdx.y) * kTile + ty;
  const int column = static_cast<int>(blockIdx.x) * kTile + tx;
  float sum = 0;
  for (int k = 0; k < kSize; k += kTile) {
    as[ty][tx] = a[row * kSize + k + tx];
    bs[ty][tx] = b[(k + ty) * kSize + column];
    if (bug != Bug::first_barrier) __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += as[ty][i] * bs[i][tx];
    if (bug != Bug::last_barrier) __syncthreads();
  }
  c[row * kSize + column] = sum;
}

__global__ void two_barriers(float* x) {
  if (threadIdx.x < 16) {
    __syncthreads();
    x[0] = 1;
  } else {
    __syncthreads();
  }
}
__global__ void barrier_of_some(float* x) {
  if (threadIdx.x < 16) __syncthreads();
  x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
}
/// Threads that have returned are not waited for, as on a GPU.
__global__ void barrier_after_return(float* x) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  x[threadIdx.x] = 1;
}
__global__ void votes(int* x) {
  const int t = static_cast<int>(threadIdx.x);
  const int count = __syncthreads_count(t % 3 == 0);
  const int any = __syncthreads_or(t == 50), all = __syncthreads_and(t < 64);
  x[t] = count * 100 + any * 10 + all;
}
__global__ void poll(volatile int* flag) {
  while (*flag == 0) __nanosleep(100);
}
__global__ void call_runtime(float* x) {
  static_cast<void>(cudaDeviceSynchronize());
  x[0] = 1;
}
__global__ void much_shared_memory(float* x) {
  EMULATOR_SHARED(tile, float[13'000]);
  x[0] = tile[0] = 1;
}
__global__ void static_beside_dynamic(float* x) {
  EMULATOR_SHARED(tile, float[256]);
  x[0] = tile[0] = 1;
}

template <Bug bug>
bool run_tree() {
  const Array<float> x(counting(256)), sum(1);
  launch({1, 256}, "tree_sum", tree_sum<bug>, x.get(), sum.get());
  return sum.value() == 255 * 128;
}
template <Bug bug>
bool run_left() {
  const Array<float> x(counting(256, 1)), y(256);
  launch({1, 256}, "take_from_left", take_from_left<bug>, x.get(), y.get());
  return y.values() == counting(256);
}
template <Bug bug>
bool run_multiply() {
  constexpr std::size_t kSize = 32;
  std::vector<float> a(kSize * kSize), expected(kSize * kSize);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 11);
  for (std::size_t i = 0; i < kSize; ++i)
    for (std::size_t j = 0; j < kSize; ++j)
      for (std::size_t k = 0; k < kSize; ++k)
        expected[i * kSize + j] += a[i * kSize + k] * a[k * kSize + j];
  const Array<float> x(a), y(kSize * kSize);
  launch({dim3(2, 2), dim3(16, 16)}, "multiply", multiply<bug>, x.get(), x.get(), y.get());
  return y.values() == expected;
}

}  // namespace

PLANTED(tree) { return run_tree<Bug::none>(); }
PLANTED(tree_without_first_barrier) { return run_tree<Bug::first_barrier>(); }
PLANTED(tree_without_barrier_in_loop) { return run_tree<Bug::loop_barrier>(); }
PLANTED(left) { return run_left<Bug::none>(); }
PLANTED(left_without_barrier) { return run_left<Bug::first_barrier>(); }
PLANTED(product) { return run_multiply<Bug::none>(); }
PLANTED(product_without_first_barrier) { return run_multiply<Bug::first_barrier>(); }
PLANTED(product_without_last_barrier) { return run_multiply<Bug::last_barrier>(); }

PLANTED(divergent_barrier) {
  const Array<float> x(64);
  launch({1, 64}, "two_barriers", two_barriers, x.get());
  return true;
}
PLANTED(barrier_that_not_all_reach) {
  const Array<float> x(32);
  launch({1, 32}, "barrier_of_some", barrier_of_some, x.get());
  return true;
}
PLANTED(barrier_without_returned_threads) {
  const Array<float> x(64);
  launch({1, 64}, "barrier_after_return", barrier_after_return, x.get());
  const auto values = x.values();
  return values[0] == 1 && values[39] == 1 && values[40] != values[40];
}
PLANTED(barriers_that_vote) {
  const Array<int> x(70);
  launch({1, 70}, "votes", votes, x.get());
  for (const int value : x.values())
    if (value != 24 * 100 + 10) return false;
  return true;
}
PLANTED(polls_for_ever) {
  const Array<int> flag(std::vector<int>{0});
  launch({1, 32}, "poll", poll, flag.get());
  return true;
}
PLANTED(runtime_call_in_kernel) {
  const Array<float> x(1);
  launch({1, 1}, "call_runtime", call_runtime, x.get());
  return true;
}
PLANTED(too_much_static_shared_memory) {
  const Array<float> x(1);
  launch({1, 1}, "much_shared_memory", much_shared_memory, x.get());
  return true;
}
PLANTED(static_beside_too_much_dynamic_shared_memory) {
  const Array<float> x(1);
  launch({1, 1, 48 << 10}, "static_beside_dynamic", static_beside_dynamic, x.get());
  return true;
}
PLANTED(static_beside_much_dynamic_shared_memory) {  // correct
  const Array<float> x(1);
  check(cudaFuncSetAttribute(static_beside_dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             48 << 10));
  launch({1, 1, 48 << 10}, "static_beside_dynamic", static_beside_dynamic, x.get());
  return x.value() == 1;
}
