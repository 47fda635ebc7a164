// Tiled convolutions: operands, loaded element by element, and the places of results.
#pragma once

#include "ferrite/kernels/cuda/async_copy.cuh"
#include "ferrite/kernels/cuda/conv_correlation.cuh"
#include "ferrite/kernels/cuda/tile_product.cuh"

namespace ferrite::kernels::cuda {

/// Fills slices with the elements at row(r) + depth(k) of `Points`, or with 0 outside of the image.
/// With `AlongDepth` a thread copies along the depth and computes one depth() per slice. Otherwise
/// it copies along the rows and computes one row() in all; a few threads then compute the depths
/// for the whole block.
template <class T, class Points, bool AlongDepth, int Rows, int Depth, int Threads>
class PointLoader {
  static_assert(Rows * Depth % Threads == 0 && Threads % (AlongDepth ? Depth : Rows) == 0);
  static constexpr int kEach = Rows * Depth / Threads;
  static constexpr int kJump = Threads / (AlongDepth ? Depth : Rows);
  using Point = typename Points::Point;
  using Plans = Point[kTileStages][Depth];

 public:
  static constexpr bool kPlans = !AlongDepth;

  __device__ PointLoader(const T* data, const Points& points, bool, std::uint32_t first_row,
                         std::uint32_t rows, std::uint32_t begin, std::uint32_t end)
      : data_(data), points_(points), k_(begin + in_slice()), end_(end) {
    const std::uint32_t row = AlongDepth ? threadIdx.x / Depth : threadIdx.x % Rows;
    to_ = in_slice() * tile_pitch<T>(Rows) + row;
    // The results of rows past the last one are not stored, so any may be read.
#pragma unroll
    for (int i = 0; i < (AlongDepth ? kEach : 1); ++i)
      rows_[i] = points.row(std::min(first_row + row + i * kJump, rows - 1));
  }

  __device__ __forceinline__ void plan(int ahead) {
    const std::uint32_t thread = threadIdx.x, first = k_ - in_slice() + ahead * Depth;
    if (thread < Depth) plans()[stage(first)][thread] = points_.depth(first + thread);
  }

  __device__ __forceinline__ void fetch(T* slice) {
    T* const to = slice + to_;
    if constexpr (AlongDepth) {
      const Point depth = points_.depth(k_);
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        async_copy<1>(to + i * kJump, data_ + Points::offset(rows_[i], depth),
                      k_ < end_ && points_.inside(rows_[i], depth));
    } else {
      const Point* const depths = plans()[stage(k_)] + in_slice();
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const Point depth = depths[i * kJump];
        async_copy<1>(to + i * kJump * tile_pitch<T>(Rows), data_ + Points::offset(rows_[0], depth),
                      k_ + i * kJump < end_ && points_.inside(rows_[0], depth));
      }
    }
    k_ += Depth;
  }

 private:
  /// The thread's first depth in a slice.
  static __device__ std::uint32_t in_slice() {
    return AlongDepth ? threadIdx.x % Depth : threadIdx.x / Rows;
  }
  /// The depths of all slices in shared memory.
  static __device__ Plans& plans() {
    FERRITE_SHARED_ALIGNED(16, plans, Plans);
    return plans;
  }
  /// The stage that holds the slice of depth k. Ranges of the depth begin at multiples of all
  /// stages.
  static __device__ std::uint32_t stage(std::uint32_t k) { return k / Depth % kTileStages; }

  const T* data_;
  Points points_;
  std::uint32_t k_, end_, to_;
  Point rows_[AlongDepth ? kEach : 1];
};

/// Points of images, for results at positions: rows are positions, the depth is taps.
struct PositionPoints {
  using Point = ImagePoint;
  Correlation c;

  __device__ ImagePoint row(std::uint32_t r) const { return c.from_position(r); }
  __device__ ImagePoint depth(std::uint32_t k) const { return c.from_tap(k); }
  __device__ bool inside(const ImagePoint& r, const ImagePoint& k) const { return c.inside(r, k); }
  static __device__ std::int64_t offset(const ImagePoint& r, const ImagePoint& k) {
    return r.offset + k.offset;
  }
};
/// Points of images, for the gradient with respect to the filter: rows are taps, the depth is
/// positions.
struct TapPoints {
  using Point = ImagePoint;
  Correlation c;

  __device__ ImagePoint row(std::uint32_t r) const { return c.from_tap(r); }
  __device__ ImagePoint depth(std::uint32_t k) const { return c.from_position(k); }
  __device__ bool inside(const ImagePoint& r, const ImagePoint& k) const { return c.inside(k, r); }
  static __device__ std::int64_t offset(const ImagePoint& r, const ImagePoint& k) {
    return r.offset + k.offset;
  }
};
/// Points of the filter: rows are output channels, the depth taps.
struct FilterPoints {
  using Point = std::int64_t;
  Correlation c;

  __device__ std::int64_t row(std::uint32_t r) const { return r * c.g.kernel_out_step; }
  __device__ std::int64_t depth(std::uint32_t k) const { return c.kernel_tap(k); }
  __device__ bool inside(std::int64_t, std::int64_t) const { return true; }
  static __device__ std::int64_t offset(std::int64_t r, std::int64_t k) { return r + k; }
};
/// Points of `to` images: rows are channels, the depth positions.
struct ChannelPoints {
  using Point = std::int64_t;
  Correlation c;

  __device__ std::int64_t row(std::uint32_t r) const { return r * c.g.to_channel_step; }
  __device__ std::int64_t depth(std::uint32_t k) const { return c.to_position(k); }
  __device__ bool inside(std::int64_t, std::int64_t) const { return true; }
  static __device__ std::int64_t offset(std::int64_t r, std::int64_t k) { return r + k; }
};

/// The kind of an operand: the memory that it reads, and the meaning of its rows and its depth.
enum class ConvSide : std::uint8_t { positions, taps, filter, channels };

/// Chooses the loaders that fill slices.
struct PointLoaders {
  template <class T, class Points, bool AlongDepth, int Rows, int Depth, int Threads>
  using Loader = PointLoader<T, Points, AlongDepth, Rows, Depth, Threads>;
};

template <class T, ConvSide Side, bool AlongDepth, class Loaders = PointLoaders>
struct ConvOperand {
  static constexpr bool kAlongDepth = AlongDepth;
  const T* data;
  ConvGeometry g;
  bool whole_chunks = false;  // for loaders of chunks

  static constexpr bool kDepthIsTaps = Side == ConvSide::positions || Side == ConvSide::filter;
  __device__ std::uint32_t depth(std::uint32_t batch) const {
    const Correlation c(g, batch);
    return kDepthIsTaps ? c.taps() : c.positions();
  }

  template <int Rows, int Depth, int Threads>
  __device__ auto loader(std::uint32_t batch, std::uint32_t first_row, std::uint32_t begin,
                         std::uint32_t end) const {
    const Correlation c(g, batch);
    if constexpr (Side == ConvSide::positions)
      return make<PositionPoints, Rows, Depth, Threads>(c, g.from_group_step, c.positions(),
                                                        first_row, begin, end);
    else if constexpr (Side == ConvSide::taps)
      return make<TapPoints, Rows, Depth, Threads>(c, g.from_group_step, c.taps(), first_row, begin,
                                                   end);
    else if constexpr (Side == ConvSide::filter)
      return make<FilterPoints, Rows, Depth, Threads>(c, g.kernel_group_step, g.outs, first_row,
                                                      begin, end);
    else
      return make<ChannelPoints, Rows, Depth, Threads>(c, g.to_group_step, g.outs, first_row, begin,
                                                       end);
  }

 private:
  template <class Points, int Rows, int Depth, int Threads>
  __device__ typename Loaders::template Loader<T, Points, AlongDepth, Rows, Depth, Threads> make(
      const Correlation& c, std::int64_t group_step, std::uint32_t rows, std::uint32_t first_row,
      std::uint32_t begin, std::uint32_t end) const {
    return {data + c.group * group_step, Points{c}, whole_chunks, first_row, rows, begin, end};
  }
};

/// The places of a correlation's results: rows are channels of `to`, columns positions.
struct PositionMap {
  ConvGeometry g;

  __device__ std::uint32_t rows(std::uint32_t) const { return g.outs; }
  __device__ std::uint32_t columns(std::uint32_t batch) const {
    return Correlation(g, batch).positions();
  }
  __device__ std::uint32_t group(std::uint32_t batch) const { return Correlation(g, batch).group; }
  __device__ std::int64_t offset(std::uint32_t batch, std::uint32_t row,
                                 std::uint32_t column) const {
    const Correlation c(g, batch);
    return c.group * g.to_group_step + row * g.to_channel_step + c.to_position(column);
  }
};

/// The places of the filter's gradient: rows are channels of `to`, columns taps.
struct TapMap {
  ConvGeometry g;

  __device__ std::uint32_t rows(std::uint32_t) const { return g.outs; }
  __device__ std::uint32_t columns(std::uint32_t batch) const {
    return Correlation(g, batch).taps();
  }
  __device__ std::uint32_t group(std::uint32_t batch) const { return batch; }
  __device__ std::int64_t offset(std::uint32_t batch, std::uint32_t row,
                                 std::uint32_t column) const {
    return batch * g.kernel_group_step + row * g.kernel_out_step +
           Correlation(g, batch).kernel_tap(column);
  }
};

}  // namespace ferrite::kernels::cuda
