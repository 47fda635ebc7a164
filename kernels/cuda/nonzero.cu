// The coordinates of elements that are not 0. Each block counts those in its tile, a scan adds up
// the counts, and each block writes its coordinates after those of earlier blocks.
#include <limits>

#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/divisor.cuh"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/reduce.h"
#include "ferrite/kernels/cuda/rolled.cuh"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/index.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kNonzeroThreads = 256;
constexpr int kNonzeroItems = 16;  // elements of a thread
constexpr int kNonzeroTile = kNonzeroThreads * kNonzeroItems;

/// A view's elements in row-major order.
struct RowMajor {
  int ndim;
  bool contiguous;
  std::int64_t sizes[kMaxDims], strides[kMaxDims];
  WideDivisor divisors[kMaxDims];

  explicit RowMajor(const View& v) : ndim(v.ndim), contiguous(v.is_contiguous()) {
    for (int d = 0; d < ndim; ++d) {
      sizes[d] = v.sizes[d];
      strides[d] = v.strides[d];
      divisors[d] = WideDivisor(static_cast<std::uint64_t>(v.sizes[d]));
    }
  }
  /// Calls f(dimension, coordinate), innermost first.
  template <class F>
  __device__ __forceinline__ void for_each_coordinate(std::int64_t element, const F& f) const {
    FERRITE_ROLLED
    for (int d = ndim - 1; d >= 0; --d) {
      const auto quotient =
          static_cast<std::int64_t>(divisors[d].quotient(static_cast<std::uint64_t>(element)));
      f(d, element - quotient * sizes[d]);
      element = quotient;
    }
  }
  __device__ __forceinline__ std::int64_t offset(std::int64_t element) const {
    if (contiguous) return element;
    std::int64_t at = 0;
    for_each_coordinate(element, [&](int d, std::int64_t i) { at += i * strides[d]; });
    return at;
  }
};

/// Elements are read as words of their size; an element is 0 if no bit of `mask` is set.
template <class Word>
struct Search {
  const Word* x;
  RowMajor order;
  std::int64_t numel;
  Word mask;

  __device__ __forceinline__ bool found(std::int64_t element) const {
    return element < numel && (x[order.offset(element)] & mask) != 0;
  }
};

template <class Word>
__global__ void __launch_bounds__(kNonzeroThreads)
    count_tiles(Search<Word> s, std::int64_t* counts) {
  const std::int64_t first = std::int64_t{blockIdx.x} * kNonzeroTile + threadIdx.x;
  int count = 0;
#pragma unroll 4
  for (int i = 0; i < kNonzeroTile; i += kNonzeroThreads) count += s.found(first + i);
  count = block_reduce<kNonzeroThreads>(count, 0, Add());
  if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

/// Replaces each count by the sum of all earlier counts; one block.
__global__ void __launch_bounds__(kNonzeroThreads)
    add_up(std::int64_t* counts, std::int64_t tiles) {
  std::int64_t carry = 0;
  for (std::int64_t first = 0; first < tiles; first += kNonzeroThreads) {
    const std::int64_t i = first + threadIdx.x;
    std::int64_t total;
    const std::int64_t before =
        block_scan<kNonzeroThreads>(i < tiles ? counts[i] : 0, std::int64_t{0}, Add(), total);
    if (i < tiles) counts[i] = carry + before;
    carry += total;
  }
}

template <class Word>
__global__ void __launch_bounds__(kNonzeroThreads)
    write_places(Search<Word> s, const std::int64_t* before, std::int64_t* out) {
  // Each thread has consecutive elements, so that one scan gives all destinations.
  const std::int64_t first = std::int64_t{blockIdx.x} * kNonzeroTile + threadIdx.x * kNonzeroItems;
  unsigned found = 0;
#pragma unroll 4
  for (int i = 0; i < kNonzeroItems; ++i) found |= static_cast<unsigned>(s.found(first + i)) << i;
  int total;
  const int rank = block_scan<kNonzeroThreads>(__popc(found), 0, Add(), total);
  std::int64_t* to = out + (before[blockIdx.x] + rank) * s.order.ndim;
  for (; found != 0; found &= found - 1, to += s.order.ndim)
    s.order.for_each_coordinate(first + __ffs(static_cast<int>(found)) - 1,
                                [&](int d, std::int64_t i) { to[d] = i; });
}

template <class Word>
void run(const Stream& stream, const View& out, const View& x) {
  constexpr auto kAll = std::numeric_limits<Word>::max();
  // -0 is 0.
  const Word mask = is_floating(x.dtype) ? static_cast<Word>(kAll >> 1) : kAll;
  const Search<Word> search{x.as<const Word>(), RowMajor(x), x.numel, mask};
  const unsigned tiles = blocks_for(x.numel, kNonzeroTile);
  const Workspace counts(stream, tiles * sizeof(std::int64_t));
  auto* const first = counts.as<std::int64_t>();
  launch({"nonzero count", stream, tiles, kNonzeroThreads}, count_tiles<Word>, search, first);
  launch({"nonzero offsets", stream, 1, kNonzeroThreads}, add_up, first, std::int64_t{tiles});
  launch({"nonzero", stream, tiles, kNonzeroThreads}, write_places<Word>, search, first,
         out.as<std::int64_t>());
}

}  // namespace

void count_nonzero(const Stream& stream, const View& out, const View& x) {
  View one = out;
  one.ndim = x.ndim;
  for (int d = 0; d < x.ndim; ++d) one.sizes[d] = 1, one.strides[d] = 0;
  reduce_count(stream, ReduceOp::count_nonzero, one, x);
}

void nonzero(const Stream& stream, const View& out, const View& x) {
  if (x.numel == 0 || x.ndim == 0) return;
  switch (itemsize(x.dtype)) {
    case 1:
      return run<std::uint8_t>(stream, out, x);
    case 2:
      return run<std::uint16_t>(stream, out, x);
    case 4:
      return run<std::uint32_t>(stream, out, x);
    default:
      return run<std::uint64_t>(stream, out, x);
  }
}

}  // namespace ferrite::kernels::cuda
