// Matrices of any strides as operands of tiled products on tensor cores.
#pragma once

#include "ferrite/kernels/cuda/tile_mma.cuh"

namespace ferrite::kernels::cuda {

/// The chunks of a slice that a thread copies: the same chunk of every kLineJump-th line.
template <int Rows, int Depth, int Threads, bool AlongDepth>
struct ChunkShare {
  using Layout = SliceLayout<Rows, Depth, AlongDepth>;
  static constexpr int kTotal = Layout::kLines * Layout::kChunks;
  static constexpr int kEach = (kTotal + Threads - 1) / Threads;
  static constexpr int kLineJump = Threads / Layout::kChunks;
  static_assert(kTotal % Threads == 0 || kTotal < Threads);

  // Chunks of those lines are permuted alike, so that a thread's chunks lie in equal steps.
  static constexpr int kStep = kLineJump * Layout::kChunks * kChunk;
  static_assert(kLineJump % Layout::kPeriod == 0);

  static __device__ bool any() { return kTotal >= Threads || threadIdx.x < kTotal; }
  /// The position of the thread's first chunk, in elements.
  static __device__ int at() {
    return Layout::at(static_cast<int>(line()), static_cast<int>(chunk()));
  }
  static __device__ std::uint32_t line() { return threadIdx.x / Layout::kChunks; }
  static __device__ std::uint32_t chunk() { return threadIdx.x % Layout::kChunks; }
};

/// to[0..kChunk) = element(i) for i < count, then 0.
template <class S, class Element>
__device__ __forceinline__ void store_chunk(S* to, int count, const Element& element) {
  Pack<S, kChunk> values;
#pragma unroll
  for (int i = 0; i < kChunk; ++i) values.v[i].bits = i < count ? element(i).bits : 0;
  store_shared_pack<kChunk>(to, values);
}

/// Whether the chunks of all lines of a batch of matrices are contiguous and aligned. Elements of a
/// line are `step` apart.
template <class S>
bool has_whole_chunks(const S* data, std::int64_t batch_step, std::int64_t step,
                      std::int64_t line_step) {
  return is_aligned(data, kChunk) && batch_step % kChunk == 0 && step == 1 &&
         line_step % kChunk == 0;
}

/// A batch of matrices. Chunks that are contiguous and aligned are copied in one access; others are
/// gathered. `Whole`: all are so, and no code is there for others.
template <class S, int Rows, int Depth, int Threads, bool AlongDepth, bool Whole>
struct MatrixChunks {
  static constexpr bool kAlongDepth = AlongDepth;
  using Share = ChunkShare<Rows, Depth, Threads, AlongDepth>;

  const S* data;
  std::uint32_t rows, depth_count;
  std::int64_t batch_step, row_step, depth_step;
  bool whole_chunks;

  MatrixChunks(const S* data, std::int64_t rows, std::int64_t depth, std::int64_t batch_step,
               std::int64_t row_step, std::int64_t depth_step)
      : data(data),
        rows(static_cast<std::uint32_t>(rows)),
        depth_count(static_cast<std::uint32_t>(depth)),
        batch_step(batch_step),
        row_step(row_step),
        depth_step(depth_step),
        whole_chunks(has_whole_chunks(data, batch_step, AlongDepth ? depth_step : row_step,
                                      AlongDepth ? row_step : depth_step)) {}

  __device__ std::uint32_t depth(std::uint32_t) const { return depth_count; }

  class Loader {
   public:
    static constexpr bool kPlans = false;
    __device__ Loader(const MatrixChunks& m, std::uint32_t batch, std::uint32_t first_row,
                      std::uint32_t begin, std::uint32_t end)
        : m_(m),
          row_(first_row + (AlongDepth ? Share::line() : Share::chunk() * kChunk)),
          k_(begin + (AlongDepth ? Share::chunk() * kChunk : Share::line())),
          end_(end),
          from_(m.data + batch * m.batch_step + row_ * m.row_step + k_ * m.depth_step) {}

    /// Copies the next slice.
    __device__ __forceinline__ void fetch(S* slice) {
      // How many elements of the chunk, and how many lines, lie inside the matrix.
      const auto in_chunk = static_cast<int>(AlongDepth ? end_ - k_ : m_.rows - row_);
      const auto lines = static_cast<int>(AlongDepth ? m_.rows - row_ : end_ - k_);
      S* const to = slice + Share::at();
      if (Share::any()) {
        if (Whole || m_.whole_chunks)
          copy(to, in_chunk < kChunk ? std::max(in_chunk, 0) : kChunk, lines);
        else
          gather(to, in_chunk, lines);
      }
      from_ += Depth * m_.depth_step;
      k_ += Depth;
    }

   private:
    __device__ __forceinline__ void copy(S* to, int in_chunk, int lines) const {
      const std::int64_t jump = Share::kLineJump * (AlongDepth ? m_.row_step : m_.depth_step);
      const S* from = from_;
#pragma unroll
      for (int i = 0; i < Share::kEach; ++i, from += jump)
        async_copy_part<kChunk>(to + i * Share::kStep, from,
                                i * Share::kLineJump < lines ? in_chunk : 0);
    }
    __device__ void gather(S* to, int in_chunk, int lines) const {
      const std::int64_t jump = Share::kLineJump * (AlongDepth ? m_.row_step : m_.depth_step);
      const std::int64_t step = AlongDepth ? m_.depth_step : m_.row_step;
#pragma unroll 1
      for (int i = 0; i < Share::kEach; ++i)
        store_chunk(to + i * Share::kStep, i * Share::kLineJump < lines ? in_chunk : 0,
                    [&](int j) { return from_[i * jump + j * step]; });
    }

    const MatrixChunks& m_;
    std::uint32_t row_, k_, end_;
    const S* from_;
  };

  template <int, int, int>
  __device__ Loader loader(std::uint32_t batch, std::uint32_t first_row, std::uint32_t begin,
                           std::uint32_t end) const {
    return {*this, batch, first_row, begin, end};
  }
};

}  // namespace ferrite::kernels::cuda
