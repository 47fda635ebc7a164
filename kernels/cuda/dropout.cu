#include <algorithm>
#include <cmath>

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/dropout.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kDropoutThreads = 256;

/// Elements per thread: 16 bytes, or the elements of one Philox block.
template <class T>
inline constexpr int kElements = std::max(4, kPackBytes / static_cast<int>(sizeof(T)));

template <class T>
__global__ void __launch_bounds__(kDropoutThreads)
    dropout_kernel(T* out, const T* in, std::int64_t n, bool aligned, PhiloxState state,
                   std::uint32_t threshold, Compute<T> scale) {
  using C = Compute<T>;
  constexpr int kCount = kElements<T>, kBlocks = kCount / 4;
  const std::int64_t thread = thread_in_grid<kDropoutThreads>();
  const std::int64_t at = thread * kCount;
  if (at >= n) return;
  const PhiloxState from = state.resolved();
  Pack<T, kCount> pack{};
  if (aligned && at + kCount <= n) {
    pack = load_pack<kCount>(in + at);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (at + i < n) pack.v[i] = in[at + i];
  }
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const PhiloxBlock block =
        philox(from.seed, from.offset + static_cast<std::uint64_t>(thread * kBlocks + b));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      T& x = pack.v[4 * b + i];
      x = static_cast<T>(block.v[i] >= threshold ? static_cast<C>(x) * scale : C(0));
    }
  }
  store_run(out, at, n, pack, aligned);
}

}  // namespace

void dropout(const Stream& stream, const View& out, const View& in, PhiloxState state, double p) {
  dispatch_floating(out.dtype, "dropout", [&]<class T>() {
    const auto threshold = static_cast<std::uint32_t>(std::min(std::ldexp(p, 32), 4294967295.0));
    T* const to = out.as<T>();
    const T* const from = in.as<T>();
    const bool aligned = is_aligned(to, kElements<T>) && is_aligned(from, kElements<T>);
    launch({"dropout", stream, blocks_for(out.numel, std::int64_t{kDropoutThreads} * kElements<T>),
            kDropoutThreads},
           dropout_kernel<T>, to, from, out.numel, aligned, state, threshold,
           static_cast<Compute<T>>(1 / (1 - p)));
  });
}

}  // namespace ferrite::kernels::cuda
