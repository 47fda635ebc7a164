#include "ferrite/kernels/concat.h"
#include "ferrite/kernels/cuda/divisor.cuh"
#include "ferrite/kernels/cuda/multi_tensor.cuh"
#include "ferrite/kernels/cuda/pack.cuh"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kConcatThreads = 256;
constexpr int kConcatUnroll = 4;
constexpr std::int64_t kConcatChunk = 4096;  // words per block

/// In words.
struct Part {
  const void* data;
  std::int64_t numel;  ///< of all rows
  std::int64_t width;  ///< of a row
  std::int64_t start;  ///< in a row of the result
  Divisor by_width;    ///< where the width is at most kMostDivided
};
using Parts = ArrayListFor<Part>;
constexpr std::int64_t kMostDivided = std::int64_t{1} << 30;

template <class Word>
__global__ void __launch_bounds__(kConcatThreads)
    concat_rows(Parts list, Word* out, std::int64_t step) {
  const Part& part = list.entries[list.array_of(blockIdx.x)];
  const std::int64_t begin =
      (blockIdx.x - list.first_block[list.array_of(blockIdx.x)]) * kConcatChunk;
  const std::int64_t row = begin / part.width, column = begin - row * part.width;
  const Word* const from = static_cast<const Word*>(part.data) + begin;
  Word* const to = out + row * step + part.start;
  const int count =
      static_cast<int>(part.numel - begin < kConcatChunk ? part.numel - begin : kConcatChunk);
  for (int first = static_cast<int>(threadIdx.x); first < count;
       first += kConcatThreads * kConcatUnroll) {
    Word words[kConcatUnroll];
#pragma unroll
    for (int u = 0; u < kConcatUnroll; ++u)
      if (first + u * kConcatThreads < count) words[u] = from[first + u * kConcatThreads];
#pragma unroll
    for (int u = 0; u < kConcatUnroll; ++u) {
      if (first + u * kConcatThreads >= count) break;
      // The number of rows further on, and the position within that row. A chunk contains the end
      // of at most one row that is wider than the chunk.
      const std::int64_t at = column + first + u * kConcatThreads;
      std::int64_t rows = at >= part.width;
      if (part.width <= kMostDivided) rows = part.by_width.quotient(static_cast<std::uint32_t>(at));
      to[at + rows * (step - part.width)] = words[u];
    }
  }
}

template <class Word>
void concat_as(const Stream& stream, void* out, std::int64_t rows,
               const std::vector<ConcatPart>& parts) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Word));
  std::int64_t step = 0, start = 0;
  for (const ConcatPart& part : parts) step += part.bytes / kBytes;
  for_each_list<Part>(
      parts.size(), kConcatChunk,
      [&](std::size_t i) {
        const std::int64_t width = parts[i].bytes / kBytes;
        const Part part{
            parts[i].data, rows * width, width, start,
            Divisor(static_cast<std::uint32_t>(width > 0 && width <= kMostDivided ? width : 1))};
        start += width;
        return part;
      },
      [&](const Parts& list, std::size_t) {
        launch({"concat", stream, list.blocks, kConcatThreads}, concat_rows<Word>, list,
               static_cast<Word*>(out), step);
      });
}

/// Whether all addresses and sizes are multiples of `bytes`.
bool fits(const void* out, const std::vector<ConcatPart>& parts, std::int64_t bytes) {
  const auto aligned = [bytes](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) % static_cast<std::uintptr_t>(bytes) == 0;
  };
  bool fits = aligned(out);
  for (const ConcatPart& part : parts)
    fits = fits && part.bytes % bytes == 0 && (part.bytes == 0 || aligned(part.data));
  return fits;
}

}  // namespace

void concat(const Stream& stream, void* out, std::int64_t rows,
            const std::vector<ConcatPart>& parts) {
  if (fits(out, parts, 16)) return concat_as<uint4>(stream, out, rows, parts);
  if (fits(out, parts, 4)) return concat_as<std::uint32_t>(stream, out, rows, parts);
  if (fits(out, parts, 2)) return concat_as<std::uint16_t>(stream, out, rows, parts);
  concat_as<std::uint8_t>(stream, out, rows, parts);
}

}  // namespace ferrite::kernels::cuda
