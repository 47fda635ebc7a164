// Convolutions of 16-bit types on tensor cores.
#pragma once

#include "ferrite/kernels/cuda/conv_tile_launch.cuh"
#include "ferrite/kernels/cuda/mma_matrix.cuh"

namespace ferrite::kernels::cuda {

/// Fills slices with the elements at row(r) + depth(k) of `Points`, or with 0 outside of the image.
/// `whole_chunks`: chunks of channels are contiguous and aligned; otherwise elements are gathered.
/// `Whole`: they are, and no code is there for others.
template <class S, class Points, bool AlongDepth, bool Whole, int Rows, int Depth, int Threads>
class ChunkLoader {
  using Share = ChunkShare<Rows, Depth, Threads, AlongDepth>;

 public:
  static constexpr bool kPlans = false;
  __device__ ChunkLoader(const S* data, const Points& points, bool whole_chunks,
                         std::uint32_t first_row, std::uint32_t rows, std::uint32_t begin,
                         std::uint32_t end)
      : data_(data),
        points_(points),
        whole_chunks_(whole_chunks),
        row_(first_row + (AlongDepth ? Share::line() : Share::chunk() * kChunk)),
        rows_(rows),
        k_(begin + (AlongDepth ? Share::chunk() * kChunk : Share::line())),
        end_(end) {
    // The results of rows past the last one are not stored, so any (whole chunk) may be read.
    const std::uint32_t last = AlongDepth ? rows - 1 : (rows - 1) / kChunk * kChunk;
#pragma unroll
    for (int i = 0; i < kPoints; ++i)
      at_[i] = points.row(std::min(row_ + i * Share::kLineJump, last));
  }

  /// Copies the next slice.
  __device__ __forceinline__ void fetch(S* slice) {
    if (Whole || whole_chunks_)
      copy_chunks(slice);
    else
      gather(slice);
    k_ += Depth;
  }

 private:
  static constexpr int kPoints = AlongDepth ? Share::kEach : 1;

  static __device__ S* chunk_of(S* slice, int i) { return slice + Share::at() + i * Share::kStep; }

  __device__ __forceinline__ void copy_chunks(S* slice) const {
    auto depth = points_.depth(k_);
#pragma unroll
    for (int i = 0; i < Share::kEach; ++i) {
      if (!Share::any()) break;
      std::uint32_t k = k_;
      if (!AlongDepth && i > 0) depth = points_.depth(k += i * Share::kLineJump);
      const auto& row = at_[AlongDepth ? i : 0];
      async_copy<kChunk>(chunk_of(slice, i), data_ + Points::offset(row, depth),
                         k < end_ && points_.inside(row, depth));
    }
  }

  __device__ __forceinline__ void gather(S* slice) const {
    if (!Share::any()) return;
    typename Points::Point lines[Share::kEach];
#pragma unroll
    for (int i = 0; i < Share::kEach; ++i)
      lines[i] = AlongDepth ? at_[AlongDepth ? i : 0] : points_.depth(k_ + i * Share::kLineJump);
#pragma unroll 2
    for (int j = 0; j < kChunk; ++j) {
      const auto column =
          AlongDepth ? points_.depth(k_ + j) : points_.row(std::min(row_ + j, rows_ - 1));
      std::uint16_t bits[Share::kEach];
#pragma unroll
      for (int i = 0; i < Share::kEach; ++i) {
        const auto &row = AlongDepth ? lines[i] : column, &depth = AlongDepth ? column : lines[i];
        const bool any = k_ + (AlongDepth ? j : i * Share::kLineJump) < end_;
        bits[i] = any && points_.inside(row, depth) ? data_[Points::offset(row, depth)].bits : 0;
      }
#pragma unroll
      for (int i = 0; i < Share::kEach; ++i) chunk_of(slice, i)[j].bits = bits[i];
    }
  }

  const S* data_;
  Points points_;
  bool whole_chunks_;
  std::uint32_t row_, rows_, k_, end_;
  typename Points::Point at_[kPoints];
};

template <bool Whole>
struct ChunkLoaders {
  template <class S, class Points, bool AlongDepth, int Rows, int Depth, int Threads>
  using Loader = ChunkLoader<S, Points, AlongDepth, Whole, Rows, Depth, Threads>;
};

namespace native {

/// `Whole`: all chunks of both operands are contiguous and aligned.
template <class Tile, bool Whole = false, class S>
void run_mma_correlation(const Stream& stream, const char* name, const ConvWork<S, float>& work) {
  using Filter = ConvOperand<S, ConvSide::filter, true, ChunkLoaders<Whole>>;
  using Images = ConvOperand<S, ConvSide::positions, true, ChunkLoaders<Whole>>;
  using Out = TileOutput<S, float, PositionMap>;
  const TileSizes sizes = work.sizes();
  launch_tiles<Tile>(
      stream, name, tile_mma<Tile, Filter, Images, Out>,
      Filter{work.kernel, work.launch.g, work.launch.kernel_chunks},
      Images{static_cast<const S*>(work.launch.from), work.launch.g, work.launch.from_chunks},
      work.output(Tile::kRun), sizes, plan_parts<Tile>(sizes));
}

/// to = from * kernel + bias.
template <class S>
void mma_correlation(const Stream& stream, const ConvLaunch& launch, const View& kernel,
                     const View& bias) {
  using Many = MmaTile<S, 128, 128, 64, 64, 2>;
  using Some = MmaTile<S, 64, 128, 64, 32, 3>;
  using Few = MmaTile<S, 16, 128, 16, 32, 4>;
  const ConvWork<S, float> work{launch, kernel.as<S>(), bias.as<S>(), bias.strides[0]};
  const TileSizes sizes = work.sizes();
  if (sizes.rows <= Few::kRows)
    run_mma_correlation<Few>(stream, "half_correlation_few", work);
  else if (sizes.rows > Some::kRows && tiles_of<Many>(sizes) * sizes.batches >= kEnoughBlocks / 2 &&
           launch.kernel_chunks && launch.from_chunks)
    run_mma_correlation<Many, true>(stream, "half_correlation", work);
  else
    run_mma_correlation<Some>(stream, "half_correlation_some", work);
}

template <class Tile, bool Whole = false, class S>
void run_mma_weight_gradient(const Stream& stream, const char* name, const ConvLaunch& launch,
                             S* grad_kernel, bool accumulate) {
  using Channels = ConvOperand<S, ConvSide::channels, false, ChunkLoaders<Whole>>;
  using Images = ConvOperand<S, ConvSide::taps, false, ChunkLoaders<Whole>>;
  using Out = TileOutput<S, float, TapMap>;
  const TileSizes sizes{launch.g.outs, launch.taps, launch.positions, launch.batches};
  Out out{grad_kernel, {launch.g}, {}};
  out.epilogue.beta = accumulate ? 1 : 0;
  launch_tiles<Tile>(stream, name, tile_mma<Tile, Channels, Images, Out>,
                     Channels{static_cast<const S*>(launch.to), launch.g, launch.to_chunks},
                     Images{static_cast<const S*>(launch.from), launch.g, launch.from_chunks}, out,
                     sizes, plan_parts<Tile>(sizes));
}

/// The gradient with respect to the kernel.
template <class S>
void mma_weight_gradient(const Stream& stream, const ConvLaunch& launch, const View& grad_kernel,
                         bool accumulate) {
  using Many = MmaTile<S, 128, 128, 64, 64, 2>;
  using Some = MmaTile<S, 64, 64, 32, 32, 4>;
  if (launch.g.outs > Some::kRows && launch.taps > Some::kColumns && launch.to_chunks &&
      launch.from_chunks)
    run_mma_weight_gradient<Many, true>(stream, "half_weight_gradient", launch, grad_kernel.as<S>(),
                                        accumulate);
  else
    run_mma_weight_gradient<Some>(stream, "half_weight_gradient_some", launch, grad_kernel.as<S>(),
                                  accumulate);
}

}  // namespace native

}  // namespace ferrite::kernels::cuda
