// A radix sort that starts at the lowest digit, each pass stable (Satish, Harris and Garland,
// "Designing Efficient Sorting Algorithms for Manycore GPUs", IPDPS 2009): every block counts the
// digits of its tile, a scan adds up the counts, and every block moves its pairs to the resulting
// positions.
#include <utility>

#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/sort_pairs.h"
#include "ferrite/kernels/cuda/workspace.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kPairsThreads = 256;
constexpr int kWarps = kPairsThreads / kWarp;
constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
static_assert(kDigits == kPairsThreads);  // one thread per digit
constexpr int kRounds = 8;                // elements per thread
constexpr std::int64_t kTile = kPairsThreads * kRounds;
constexpr std::int64_t kFew =
    1024;  // up to this many pairs are sorted by comparing each with all others

/// Each pair goes after all pairs with smaller keys, and after those with equal keys that precede
/// it.
__global__ void __launch_bounds__(kPairsThreads) sort_few(KeyValues from, KeyValues to, int count) {
  FERRITE_SHARED(tile, std::uint64_t[kPairsThreads]);
  const int i = static_cast<int>(blockIdx.x * kPairsThreads + threadIdx.x);
  const std::uint64_t key = i < count ? from.keys[i] : 0;
  int place = 0;
  for (int first = 0; first < count; first += kPairsThreads) {
    const int j = first + static_cast<int>(threadIdx.x);
    __syncthreads();
    if (j < count) tile[threadIdx.x] = from.keys[j];
    __syncthreads();
    const int n = count - first < kPairsThreads ? count - first : kPairsThreads;
    for (int k = 0; k < n; ++k) {
      place += tile[k] < key;
      place += tile[k] == key && first + k < i;
    }
  }
  if (i < count) {
    to.keys[place] = key;
    to.values[place] = from.values[i];
  }
}

__device__ __forceinline__ int digit_of(std::uint64_t key, int shift) {
  return static_cast<int>(key >> shift) & (kDigits - 1);
}

/// The sum of the values of the threads before this one.
__device__ __forceinline__ std::int64_t sum_before(std::int64_t value) {
  FERRITE_SHARED(warp_sums, std::int64_t[kWarps]);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  std::int64_t sum = value;
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    const std::int64_t other = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();  // an earlier call's reads
  if (lane == kWarp - 1) warp_sums[threadIdx.x / kWarp] = sum;
  __syncthreads();
  sum -= value;
  for (int w = 0; w < static_cast<int>(threadIdx.x) / kWarp; ++w) sum += warp_sums[w];
  return sum;
}

/// Computes counts[digit][block] for the block's tile.
__global__ void __launch_bounds__(kPairsThreads)
    count_digits(const std::uint64_t* keys, std::int64_t count, int shift, std::int64_t* counts) {
  FERRITE_SHARED(found, int[kDigits]);
  found[threadIdx.x] = 0;
  __syncthreads();
  for (int r = 0; r < kRounds; ++r) {
    const std::int64_t i = blockIdx.x * kTile + r * kPairsThreads + threadIdx.x;
    if (i < count) atomicAdd(&found[digit_of(keys[i], shift)], 1);
  }
  __syncthreads();
  counts[static_cast<std::int64_t>(threadIdx.x) * gridDim.x + blockIdx.x] = found[threadIdx.x];
}

/// One block per digit: replaces its counts by the sums over earlier tiles, and writes
/// totals[digit].
__global__ void __launch_bounds__(kPairsThreads)
    add_up_counts(std::int64_t* counts, std::int64_t tiles, std::int64_t* totals) {
  std::int64_t* row = counts + blockIdx.x * tiles;
  FERRITE_SHARED(carried, std::int64_t);
  std::int64_t carry = 0;
  for (std::int64_t first = 0; first < tiles; first += kPairsThreads) {
    const std::int64_t i = first + threadIdx.x;
    const std::int64_t value = i < tiles ? row[i] : 0;
    const std::int64_t before = carry + sum_before(value);
    if (i < tiles) row[i] = before;
    if (threadIdx.x == kPairsThreads - 1) carried = before + value;
    __syncthreads();
    carry = carried;
    __syncthreads();
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = carry;
}

/// The lanes of `active` that have the same digit as the calling lane.
__device__ __forceinline__ unsigned same_digit(int digit, unsigned active) {
  unsigned same = active;
#pragma unroll
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const unsigned set = __ballot_sync(kAllLanes, digit >> bit & 1);
    same &= digit >> bit & 1 ? set : ~set;
  }
  return same;
}

/// Each warp moves a run of kRounds * 32 pairs of the block's tile.
__global__ void __launch_bounds__(kPairsThreads)
    move_pairs(KeyValues from, KeyValues to, std::int64_t count, int shift,
               const std::int64_t* counts, const std::int64_t* totals) {
  FERRITE_SHARED(warp_counts, int[kWarps][kDigits]);
  FERRITE_SHARED(starts, std::int64_t[kDigits]);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int w = 0; w < kWarps; ++w) warp_counts[w][threadIdx.x] = 0;
  starts[threadIdx.x] = sum_before(totals[threadIdx.x]) +
                        counts[static_cast<std::int64_t>(threadIdx.x) * gridDim.x + blockIdx.x];
  __syncthreads();

  const std::int64_t first = blockIdx.x * kTile + warp * (kRounds * kWarp) + lane;
  std::uint64_t keys[kRounds];
  int ranks[kRounds];  // among equal digits of the warp
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const std::int64_t i = first + r * kWarp;
    keys[r] = i < count ? from.keys[i] : 0;
    const int digit = digit_of(keys[r], shift);
    const unsigned same = same_digit(digit, __ballot_sync(kAllLanes, i < count));
    int& before = warp_counts[warp][digit];
    const unsigned lower = same & ((1u << lane) - 1);
    ranks[r] = before + __popc(lower);
    __syncwarp();
    if (i < count && lower == 0) before += __popc(same);
    __syncwarp();
  }
  __syncthreads();
  int sum = 0;
  for (int w = 0; w < kWarps; ++w) {
    const int found = warp_counts[w][threadIdx.x];
    warp_counts[w][threadIdx.x] = sum;
    sum += found;
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRounds; ++r) {
    const std::int64_t i = first + r * kWarp;
    if (i >= count) break;
    const int digit = digit_of(keys[r], shift);
    const std::int64_t place = starts[digit] + warp_counts[warp][digit] + ranks[r];
    to.keys[place] = keys[r];
    to.values[place] = from.values[i];
  }
}

}  // namespace

KeyValues sort_pairs(const Stream& stream, const KeyValues& pairs, const KeyValues& scratch,
                     std::int64_t count, int bits) {
  if (count <= 1 || bits == 0) return pairs;
  if (count <= kFew) {
    launch({"sort_few", stream, blocks_for(count, kPairsThreads), kPairsThreads}, sort_few, pairs,
           scratch, static_cast<int>(count));
    return scratch;
  }
  const unsigned tiles = blocks_for(count, kTile);
  const Workspace space(stream, kDigits * (tiles + std::size_t{1}) * sizeof(std::int64_t));
  auto* const counts = space.as<std::int64_t>();
  std::int64_t* const totals = counts + std::int64_t{kDigits} * tiles;
  KeyValues from = pairs, to = scratch;
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    launch({"count_digits", stream, tiles, kPairsThreads}, count_digits,
           static_cast<const std::uint64_t*>(from.keys), count, shift, counts);
    launch({"add_up_counts", stream, kDigits, kPairsThreads}, add_up_counts, counts,
           std::int64_t{tiles}, totals);
    launch({"move_pairs", stream, tiles, kPairsThreads}, move_pairs, from, to, count, shift,
           static_cast<const std::int64_t*>(counts), static_cast<const std::int64_t*>(totals));
    std::swap(from, to);
  }
  return from;
}

}  // namespace ferrite::kernels::cuda
