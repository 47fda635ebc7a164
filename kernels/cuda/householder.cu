// Products of Householder reflectors: columns of the result do not depend on each other. A warp has
// one, in registers, and applies the reflectors to it from the last to the first. Those after the
// column's own leave it alone.
#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/householder.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kHouseholderThreads = 128;
constexpr int kHouseholderItems = static_cast<int>(kHouseholderRows) / kWarp;

template <class T>
struct Reflectors {
  T* q;
  const T* a;
  const T* tau;
  std::int64_t count;  // of columns of all matrices
  int columns, rows, of_a, of_tau;
};

template <class T>
__global__ void __launch_bounds__(kHouseholderThreads) apply_reflectors(Reflectors<T> r) {
  const std::int64_t at = thread_in_grid<kHouseholderThreads>() / kWarp;
  if (at >= r.count) return;
  const std::int64_t matrix = at / r.columns;
  const int column = static_cast<int>(at - matrix * r.columns);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  T x[kHouseholderItems];
#pragma unroll
  for (int i = 0; i < kHouseholderItems; ++i) x[i] = lane + i * kWarp == column ? T(1) : T(0);
  for (int j = column < r.of_tau ? column : r.of_tau - 1; j >= 0; --j) {
    const T* const reflector = r.a + (matrix * r.of_a + j) * r.rows;
    T v[kHouseholderItems], dot = 0;
#pragma unroll
    for (int i = 0; i < kHouseholderItems; ++i) {
      const int row = lane + i * kWarp;
      v[i] = row == j ? T(1) : row > j && row < r.rows ? reflector[row] : T(0);
      dot += v[i] * x[i];
    }
    dot = r.tau[matrix * r.of_tau + j] * warp_reduce(dot, Add{});
#pragma unroll
    for (int i = 0; i < kHouseholderItems; ++i) x[i] -= dot * v[i];
  }
#pragma unroll
  for (int i = 0; i < kHouseholderItems; ++i) {
    const int row = lane + i * kWarp;
    if (row < r.rows) r.q[at * r.rows + row] = x[i];
  }
}

}  // namespace

void householder_product(const Stream& stream, const View& q, const View& a, const View& tau) {
  dispatch_types<float, double>(q.dtype, "householder_product", [&]<class T>() {
    const std::int64_t columns = q.sizes[0] * q.sizes[1];
    launch({"householder_product", stream, blocks_for(columns, kHouseholderThreads / kWarp),
            kHouseholderThreads},
           apply_reflectors<T>,
           Reflectors<T>{q.as<T>(), a.as<const T>(), tau.as<const T>(), columns,
                         static_cast<int>(q.sizes[1]), static_cast<int>(q.sizes[2]),
                         static_cast<int>(a.sizes[1]), static_cast<int>(tau.sizes[1])});
  });
}

}  // namespace ferrite::kernels::cuda
