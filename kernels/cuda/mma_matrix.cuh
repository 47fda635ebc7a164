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

  static __device__ bool any() { return kTotal >= Threads || threadIdx.x < kTotal; }
  static __device__ std::uint32_t line() { return threadIdx.x / Layout::kChunks; }
  static __device__ std::uint32_t chunk() { return threadIdx.x % Layout::kChunks; }
};

/// to[0..kChunk) = element(i) for i < count, then 0.
template <class S, class Element>
__device__ __forceinline__ void store_chunk(S* to, int count, const Element& element) {
  Pack<S, kChunk> values;
#pragma unroll
  for (int i = 0; i < kChunk; ++i) values.v[i].bits = i < count ? element(i).bits : 0;
  store_pack<kChunk>(to, values);
}

/// A batch of matrices. Chunks that are whole, contiguous and aligned are copied in one access;
/// others are gathered.
template <class S, int Rows, int Depth, int Threads, bool AlongDepth>
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
        whole_chunks(is_aligned(data, kChunk) && batch_step % kChunk == 0 &&
                     (AlongDepth ? depth_step : row_step) == 1 &&
                     (AlongDepth ? row_step : depth_step) % kChunk == 0) {}

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
      const std::int64_t line_step = AlongDepth ? m_.row_step : m_.depth_step;
      const std::int64_t step = AlongDepth ? m_.depth_step : m_.row_step;
      // How many elements of the chunk, and how many lines, lie inside the matrix.
      const auto in_chunk = static_cast<int>(AlongDepth ? end_ - k_ : m_.rows - row_);
      const auto lines = static_cast<int>(AlongDepth ? m_.rows - row_ : end_ - k_);
#pragma unroll
      for (int i = 0; i < Share::kEach; ++i) {
        if (!Share::any()) break;
        const int line = i * Share::kLineJump;
        S* const to = slice + Share::Layout::at(static_cast<int>(Share::line()) + line,
                                                static_cast<int>(Share::chunk()));
        const S* const from = from_ + line * line_step;
        const int count = line < lines ? in_chunk : 0;
        if (m_.whole_chunks && (count <= 0 || count >= kChunk))
          async_copy<kChunk>(to, from, count > 0);
        else
          store_chunk(to, count, [&](int j) { return from[j * step]; });
      }
      from_ += Depth * m_.depth_step;
      k_ += Depth;
    }

   private:
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
