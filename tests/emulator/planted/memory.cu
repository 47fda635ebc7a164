// Accesses to memory that is out of bounds, freed, misaligned, uninitialized, or of another device.
#include "ferrite/tests/emulator/planted/planted.h"

using namespace planted;

namespace {

__global__ void write_ones(float* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] = 1.0f;
}

__global__ void copy_one(const float* from, float* to, int i) { *to = from[i]; }

__global__ void copy_wide(const float* from, float* to) {
  reinterpret_cast<float4*>(to + 1)[threadIdx.x] =
      reinterpret_cast<const float4*>(from)[threadIdx.x];
}

template <class Tile>
__device__ void shift(Tile& tile, float* x, int by) {
  tile[threadIdx.x + static_cast<unsigned>(by)] = 1.0f;
  __syncthreads();
  x[threadIdx.x] = tile[threadIdx.x];
}
__global__ void write_shared(float* x, int by) {
  EMULATOR_SHARED(tile, float[64]);
  float* const start = tile;
  shift(start, x, by);
}
__global__ void write_dynamic_shared(float* x, int by) {
  EMULATOR_DYNAMIC_SHARED(tile, float);
  shift(tile, x, by);
}
__global__ void read_shared(float* x, int at) {
  EMULATOR_SHARED(tile, float[64]);
  tile[threadIdx.x] = 1.0f;
  __syncthreads();
  const float* const start = tile;
  x[threadIdx.x] = start[at];
}
__global__ void sum_shared(float* x) {
  EMULATOR_SHARED(tile, float[64]);
  if (threadIdx.x < 63) tile[threadIdx.x] = 1.0f;  // one too few
  __syncthreads();
  float sum = 0;
  for (float v : tile) sum += v;
  if (threadIdx.x == 0) *x = sum;
}
__global__ void store_shared_as_global(float* x) {
  EMULATOR_SHARED(tile, float[64]);
  __stwb(&tile[threadIdx.x], x[threadIdx.x]);
  __syncthreads();
  x[threadIdx.x] = tile[63 - threadIdx.x];
}
__global__ void add_to(float* x) { x[threadIdx.x] += 1.0f; }

}  // namespace

PLANTED(writes_behind_the_end) {
  const Array<float> x(100);
  launch({1, 128}, "write_ones", write_ones, x.get(), 101);
  return x.value() == 1.0f;
}
PLANTED(reads_behind_the_end) {
  const Array<float> x(counting(100)), y(1);
  launch({1, 1}, "copy_one", copy_one, x.get(), y.get(), 100);
  return y.value() >= 0;
}
PLANTED(reads_far_behind_the_end) {
  const Array<float> x(counting(100)), y(1);
  launch({1, 1}, "copy_one", copy_one, x.get(), y.get(), 100'000);
  return y.value() >= 0;
}
PLANTED(reads_what_was_freed) {
  const Array<float> y(1);
  const float* gone;
  {
    const Array<float> x(counting(100));
    gone = x.get();
  }
  launch({1, 1}, "copy_one", copy_one, gone, y.get(), 5);
  return y.value() == 5;
}
PLANTED(writes_what_was_freed) {
  float* gone;
  {
    const Array<float> x(counting(100));
    gone = x.get();
  }
  launch({1, 32}, "write_ones", write_ones, gone, 32);
  check(cudaDeviceSynchronize());
  return true;
}
PLANTED(writes_misaligned_vector) {
  const Array<float> x(counting(16)), y(20);
  launch({1, 4}, "copy_wide", copy_wide, x.get(), y.get());
  return y.values()[1] == 0;
}
PLANTED(writes_behind_shared_array) {
  const Array<float> x(64);
  launch({1, 64}, "write_shared", write_shared, x.get(), 1);
  return true;
}
PLANTED(writes_behind_dynamic_shared) {
  const Array<float> x(64);
  launch({1, 64, 64 * sizeof(float)}, "write_dynamic_shared", write_dynamic_shared, x.get(), 1);
  return true;
}
PLANTED(reads_behind_shared_array) {
  const Array<float> x(64);
  launch({1, 64}, "read_shared", read_shared, x.get(), 64);
  return x.value() >= 0;
}
PLANTED(reads_unset_shared_memory) {
  const Array<float> x(1);
  launch({1, 64}, "sum_shared", sum_shared, x.get());
  return x.value() == 64;
}
PLANTED(stores_to_shared_as_to_global_memory) {
  const Array<float> x(counting(64));
  launch({1, 64}, "store_shared_as_global", store_shared_as_global, x.get());
  return x.value() == 63;
}
PLANTED(reads_unset_device_memory) {
  const Array<float> x(32);
  launch({1, 32}, "add_to", add_to, x.get());
  return x.value() == 1;
}
PLANTED(writes_through_null) {
  launch({1, 32}, "write_ones", write_ones, static_cast<float*>(nullptr), 32);
  return true;
}
PLANTED(kernel_gets_host_memory) {
  std::vector<float> host(32);
  launch({1, 32}, "write_ones", write_ones, host.data(), 32);
  return true;
}
PLANTED(kernel_gets_memory_of_another_device) {
  const Array<float> x(32);
  check(cudaSetDevice(1));
  launch({1, 32}, "write_ones", write_ones, x.get(), 32);
  return true;
}
PLANTED(host_touches_device_memory) {
  const Array<float> x(32);
  x.get()[3] = 1;
  return true;
}
