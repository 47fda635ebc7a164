// Copies that change the dtype. There is one kernel per dtype written, which reads every dtype.
#include "ferrite/kernels/cuda/convert.cuh"
#include "ferrite/kernels/cuda/copy.h"
#include "ferrite/kernels/cuda/elementwise.cuh"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kConvertPack = 4;  // elements: at most two 16-byte accesses
constexpr int kConvertUnroll = 4;

template <int V, class Out>
__global__ void __launch_bounds__(kMapThreads)
    convert_kernel(const __grid_constant__ StridedLoop<2> loop, std::uint32_t tail, bool moves,
                   Out* out, const void* in, DType in_dtype) {
  const std::uint32_t first = blockIdx.x * (kMapThreads * kConvertUnroll) + threadIdx.x;
  std::int64_t to[kConvertUnroll], from[kConvertUnroll];
  int count[kConvertUnroll];
#pragma unroll
  for (int u = 0; u < kConvertUnroll; ++u) {
    const std::uint32_t i = first + u * kMapThreads;
    count[u] = i < loop.numel ? V : i == loop.numel ? static_cast<int>(tail) : 0;
    const auto offsets = loop.offsets(count[u] > 0 ? i : 0);
    to[u] = offsets.at[0], from[u] = offsets.at[1];
  }
  Pack<Out, V> packs[kConvertUnroll]{};
  load_converted<V>(packs, in, in_dtype, from, moves, count);
#pragma unroll
  for (int u = 0; u < kConvertUnroll; ++u) detail::store_some<V>(out + to[u], packs[u], count[u]);
}

}  // namespace

void convert(const Stream& stream, const View& out, const View& in) {
  const detail::MapPlan<2> plan({&out, &in}, kConvertPack);
  dispatch_all(out.dtype, "copy", [&]<class Out>() {
    detail::for_each_piece(plan, [&](const StridedLoop<2>& loop, std::uint32_t tail) {
      const auto kernel = plan.packed ? convert_kernel<kConvertPack, Out> : convert_kernel<1, Out>;
      launch({"copy", stream, blocks_for(loop.numel + (tail > 0), kMapThreads * kConvertUnroll),
              kMapThreads},
             kernel, loop, tail, plan.moves != 0, out.as<Out>(), static_cast<const void*>(in.data),
             in.dtype);
    });
  });
}

}  // namespace ferrite::kernels::cuda
