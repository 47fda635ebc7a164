#include "ferrite/core/cuda/report.cuh"
#include "ferrite/kernels/check_range.h"
#include "ferrite/kernels/cuda/elementwise.cuh"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kRangeUnroll = 4;

/// The bounds, and how a value outside of them is reported.
struct Range {
  double low, high;
  const char* op;
  ferrite::cuda::DeviceReport* report;
};

template <int V, class T>
__global__ void __launch_bounds__(kMapThreads)
    check_kernel(const __grid_constant__ StridedLoop<1> loop, std::uint32_t tail, const T* in,
                 Range range) {
  using C = Compute<T>;
  const C lo = static_cast<C>(range.low), hi = static_cast<C>(range.high);
  const std::uint32_t first = blockIdx.x * (kMapThreads * kRangeUnroll) + threadIdx.x;
  Pack<T, V> packs[kRangeUnroll];
  int count[kRangeUnroll];
#pragma unroll
  for (int u = 0; u < kRangeUnroll; ++u) {
    const std::uint32_t i = first + u * kMapThreads;
    count[u] = i < loop.numel ? V : i == loop.numel ? static_cast<int>(tail) : 0;
    if (count[u] > 0) detail::load_operand<V>(packs[u], in, loop.offsets(i).at[0], true, count[u]);
  }
#pragma unroll
  for (int u = 0; u < kRangeUnroll; ++u) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const C x = i < count[u] ? static_cast<C>(packs[u].v[i]) : lo;
      if (x < lo || x > hi)
        ferrite::cuda::report_value(range.report, range.op, range.low, range.high, x);
    }
  }
}

}  // namespace

void check_range(const Stream& stream, const char* op, const View& in, double low, double high) {
  dispatch_floating(in.dtype, op, [&]<class T>() {
    constexpr int kRangePack = pack_size<T>();
    const detail::MapPlan<1> plan({&in}, kRangePack);
    detail::for_each_piece(plan, [&](const StridedLoop<1>& loop, std::uint32_t tail) {
      launch({"check_range", stream,
              blocks_for(loop.numel + (tail > 0), kMapThreads * kRangeUnroll), kMapThreads},
             plan.packed ? check_kernel<kRangePack, T> : check_kernel<1, T>, loop, tail,
             static_cast<const T*>(in.as<T>()),
             Range{low, high, op, ferrite::cuda::report_slot(stream)});
    });
  });
}

}  // namespace ferrite::kernels::cuda
