// Blocks of a grid, atomics and fences.
#include "ferrite/tests/emulator/planted/planted.h"

using namespace planted;

namespace {

__global__ void all_write(float* x) { x[0] = static_cast<float>(blockIdx.x); }

__global__ void count_without_atomics(int* x) { x[0] += 1; }
__global__ void count(int* x) { atomicAdd(x, 1); }
__global__ void read_while_counting(int* x, int* y) {
  atomicAdd(x, 1);
  if (threadIdx.x == 0) y[0] = x[0];
}

__global__ void histogram(const int* x, int* bins, int n) {
  EMULATOR_SHARED(mine, int[16]);
  if (threadIdx.x < 16) mine[threadIdx.x] = 0;
  __syncthreads();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) atomicAdd(&mine[x[i]], 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

/// The last block to finish adds the results of all.
template <bool bug>
__global__ void sum_in_last_block(const float* x, float* parts, unsigned* finished, float* sum) {
  EMULATOR_SHARED(part, float[64]);
  EMULATOR_SHARED(last, bool);
  const unsigned t = threadIdx.x;
  part[t] = x[blockIdx.x * 64 + t];
  __syncthreads();
  for (unsigned half = 32; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) {
    parts[blockIdx.x] = part[0];
    if (!bug) __threadfence();
    last = atomicAdd(finished, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && t == 0) {
    float total = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) total += parts[i];
    *sum = total;
  }
}

__global__ void bytes_side_by_side(unsigned char* x) {
  x[threadIdx.x] = static_cast<unsigned char>(threadIdx.x);
}

__global__ void every_atomic(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
  const int t = static_cast<int>(threadIdx.x);
  atomicAdd(&i[0], t);
  atomicMax(&i[1], t);
  atomicMin(&i[2], t);
  atomicSub(&i[3], 1);
  atomicOr(&u[0], 1u << t % 32);
  atomicXor(&u[1], 1u);
  atomicInc(&u[2], 9u);
  atomicDec(&u[3], 9u);
  atomicAdd(l, 1ull << 33);
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
  // A product by compare-and-swap, like additions of doubles on old chips.
  auto* const bits = l + 1;
  unsigned long long old = *static_cast<volatile unsigned long long*>(bits), seen;
  do {
    seen = old;
    old = atomicCAS(bits, seen, seen + 3);
  } while (old != seen);
}

template <bool bug>
bool run_last_block() {
  const Array<float> x(counting(64 * 8)), parts(8), sum(1);
  const Array<unsigned> finished(std::vector<unsigned>{0});
  launch({8, 64}, "sum_in_last_block", sum_in_last_block<bug>, x.get(), parts.get(), finished.get(),
         sum.get());
  return sum.value() == 511 * 256;
}
template <class Kernel>
bool run_count(const char* name, Kernel kernel, dim3 grid, dim3 block) {
  const Array<int> x(std::vector<int>{0});
  launch({grid, block}, name, kernel, x.get());
  return x.value() == static_cast<int>(grid.x * block.x);
}

}  // namespace

PLANTED(blocks_write_one_place) {
  const Array<float> x(1);
  launch({4, 1}, "all_write", all_write, x.get());
  return x.value() >= 0;
}
PLANTED(lost_update_of_threads) {
  return run_count("count_without_atomics", count_without_atomics, 1, 64);
}
PLANTED(lost_update_of_blocks) {
  return run_count("count_without_atomics", count_without_atomics, 8, 1);
}
PLANTED(counting_atomically) { return run_count("count", count, 8, 64); }
PLANTED(plain_read_of_atomic) {
  const Array<int> x(std::vector<int>{0}), y(1);
  launch({1, 64}, "read_while_counting", read_while_counting, x.get(), y.get());
  return x.value() == 64;
}
PLANTED(histograms) {
  std::vector<int> values(1000), expected(16);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int>(i * i % 16);
    ++expected[static_cast<std::size_t>(values[i])];
  }
  const Array<int> x(values), bins(std::vector<int>(16));
  launch({8, 128}, "histogram", histogram, x.get(), bins.get(), 1000);
  return bins.values() == expected;
}
PLANTED(last_block) { return run_last_block<false>(); }
PLANTED(last_block_without_fence) { return run_last_block<true>(); }
PLANTED(neighbouring_bytes) {
  const Array<unsigned char> x(100);
  launch({1, 100}, "bytes_side_by_side", bytes_side_by_side, x.get());
  return x.values()[99] == 99;
}
PLANTED(atomics) {
  const Array<int> i(std::vector<int>{0, -1, 1000, 0});
  const Array<unsigned> u(std::vector<unsigned>{0, 0, 0, 0});
  const Array<unsigned long long> l(std::vector<unsigned long long>{0, 0});
  const Array<float> f(std::vector<float>{0});
  const Array<double> d(std::vector<double>{0});
  launch({1, 64}, "every_atomic", every_atomic, i.get(), u.get(), l.get(), f.get(), d.get());
  return i.values() == std::vector<int>{2016, 63, 0, -64} &&
         u.values() == std::vector<unsigned>{~0u, 0, 4, 6} &&
         l.values() == std::vector<unsigned long long>{64ull << 33, 192} && f.value() == 32 &&
         d.value() == 16;
}
