// A permutation is the order of random keys, which the host sorts the same way.
#include "core/generator.h"
#include "kernels/cuda/copy.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/random.h"
#include "kernels/cuda/sort_pairs.h"
#include "kernels/cuda/workspace.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kThreads = 256;

/// Two keys from every Philox block, and the elements' numbers.
__global__ void __launch_bounds__(kThreads)
    draw_keys(KeyValues pairs, std::int64_t n, PhiloxState state) {
  const std::int64_t number = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t at = 2 * number;
  if (at >= n) return;
  const PhiloxBlock block = philox(state.seed, state.offset + static_cast<std::uint64_t>(number));
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (at + i >= n) break;
    pairs.keys[at + i] = static_cast<std::uint64_t>(block.v[2 * i]) << 32 | block.v[2 * i + 1];
    pairs.values[at + i] = at + i;
  }
}

}  // namespace

void permutation(const Stream& stream, const View& out, PhiloxState state) {
  const std::int64_t n = out.numel;
  if (n == 0) return;
  const Workspace workspace(stream, static_cast<std::size_t>(n) * 4 * sizeof(std::uint64_t));
  auto* const keys = workspace.as<std::uint64_t>();
  auto* const values = reinterpret_cast<std::int64_t*>(keys + 2 * n);
  const KeyValues pairs{keys, values}, scratch{keys + n, values + n};
  launch({"draw_keys", stream, blocks_for((n + 1) / 2, kThreads), kThreads}, draw_keys, pairs, n,
         state);
  View sorted = out;
  sorted.data = sort_pairs(stream, pairs, scratch, n, 64).values;
  copy(stream, out, sorted);
}

}  // namespace ferrite::kernels::cuda
