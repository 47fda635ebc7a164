// The windows of pooling kernels, and their distribution over threads.
//
// The general kernels work on [batch, height, width, channels], with one thread per pack of
// channels; NCHW is treated as NHWC with one image per plane and one channel. There are special
// kernels for the two usual cases of stride 2 if rows are whole packs (HalvedPlanes), and for
// windows so large that a warp or a block shares each.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ferrite/core/error.h"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/divisor.cuh"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/pool.h"

namespace ferrite::kernels::cuda {

inline constexpr int kPoolThreads = 256;

/// PoolAxis on the device. All sizes and their sums are below 2^31.
struct Axis {
  std::int32_t input, output, kernel, stride, padding, dilation;
  bool adaptive;
  Divisor by_input, by_output, by_stride, by_dilation;

  explicit Axis(const PoolAxis& a)
      : input(static_cast<std::int32_t>(a.input)),
        output(static_cast<std::int32_t>(a.output)),
        kernel(static_cast<std::int32_t>(a.kernel)),
        // Irrelevant if there is one window, or one cell per window.
        stride(a.output > 1 ? static_cast<std::int32_t>(a.stride) : 1),
        padding(static_cast<std::int32_t>(a.padding)),
        dilation(a.kernel > 1 ? static_cast<std::int32_t>(a.dilation) : 1),
        adaptive(a.adaptive),
        by_input(static_cast<std::uint32_t>(a.input)),
        by_output(static_cast<std::uint32_t>(a.output)),
        by_stride(static_cast<std::uint32_t>(stride)),
        by_dilation(static_cast<std::uint32_t>(dilation)) {
    FERRITE_CHECK(a.input + a.output + 2 * a.padding <= INT32_MAX, ShapeError, "pool",
                  "expects planes of fewer than 2^31 rows and columns, padding included, got {}",
                  a.input);
  }

  __device__ PoolAxis::Window window(std::int32_t o) const {
    if (adaptive) {
      const std::int32_t first = scaled(o, input, by_output);
      return {first, 0, scaled_up(o + 1, input, by_output) - first};
    }
    const std::int32_t start = o * stride - padding;
    const std::int32_t skip = start < 0 ? up(-start) : 0;
    const std::int32_t first = start + skip * dilation;
    const std::int32_t inside = first < input ? up(input - first) : 0;
    return {first, skip, max(0, min(kernel - skip, inside))};
  }

  /// The windows [first, last] that may contain input cell i.
  struct Holders {
    std::int32_t first, last;
  };
  __device__ Holders holders(std::int32_t i) const {
    if (adaptive) return {scaled(i, output, by_input), scaled_up(i + 1, output, by_input) - 1};
    const std::int32_t end = i + padding, begin = end - (kernel - 1) * dilation;
    const auto div = [&](std::int32_t n) {
      return stride == 1
                 ? n
                 : static_cast<std::int32_t>(by_stride.quotient(static_cast<std::uint32_t>(n)));
    };
    return {begin <= 0 ? 0 : div(begin + stride - 1), min(div(end), output - 1)};
  }
  /// The position of input cell i in window o, one of holders(i); -1 if dilation skips it.
  __device__ std::int32_t place(std::int32_t i, std::int32_t o) const {
    if (adaptive) return i - scaled(o, input, by_output);
    const std::int32_t distance = i + padding - o * stride;
    if (dilation == 1) return distance;
    const auto place =
        static_cast<std::int32_t>(by_dilation.quotient(static_cast<std::uint32_t>(distance)));
    return place * dilation == distance ? place : -1;
  }

 private:
  /// floor(n * size / divisor) and ceil(n * size / divisor).
  __device__ static std::int32_t divided(std::int64_t n, const Divisor& divisor) {
    return static_cast<std::int32_t>(
        n <= INT32_MAX ? divisor.quotient(static_cast<std::uint32_t>(n)) : n / divisor.value());
  }
  __device__ static std::int32_t scaled(std::int32_t n, std::int32_t size, const Divisor& divisor) {
    return divided(static_cast<std::int64_t>(n) * size, divisor);
  }
  __device__ static std::int32_t scaled_up(std::int32_t n, std::int32_t size,
                                           const Divisor& divisor) {
    return divided(static_cast<std::int64_t>(n) * size + divisor.value() - 1, divisor);
  }
  __device__ std::int32_t up(std::int32_t n) const {
    return dilation == 1 ? n
                         : static_cast<std::int32_t>(
                               by_dilation.quotient(static_cast<std::uint32_t>(n + dilation - 1)));
  }
};

/// All images of a pooling, or as many as one launch handles.
struct Planes {
  Axis h, w;
  std::int64_t channels;
  Divisor packs;        // of channels
  std::int32_t places;  // in a row of the window

  /// `pack`: elements.
  Planes(const Pool2d& p, int pack)
      : h(p.h),
        w(p.w),
        channels(p.channels_last ? p.channels : 1),
        packs(static_cast<std::uint32_t>(channels / pack)),
        places(static_cast<std::int32_t>(p.w.widest())) {}

  /// A pack of one image's results or cells.
  struct At {
    std::int64_t image;
    std::int32_t row, column;
    std::int64_t channel;
  };
  template <int V>
  __device__ At output(std::uint32_t item) const {
    return split<V>(item, w.by_output, h.by_output);
  }
  template <int V>
  __device__ At cell(std::uint32_t item) const {
    return split<V>(item, w.by_input, h.by_input);
  }
  /// Offsets of elements.
  __device__ std::int64_t at_output(const At& a, std::int32_t row, std::int32_t column) const {
    return ((a.image * h.output + row) * w.output + column) * channels + a.channel;
  }
  __device__ std::int64_t at_cell(const At& a, std::int32_t row, std::int32_t column) const {
    return ((a.image * h.input + row) * w.input + column) * channels + a.channel;
  }

 private:
  template <int V>
  __device__ At split(std::uint32_t item, const Divisor& columns, const Divisor& rows) const {
    At a;
    a.channel = static_cast<std::int64_t>(packs.split(item)) * V;
    a.column = static_cast<std::int32_t>(columns.split(item));
    a.row = static_cast<std::int32_t>(rows.split(item));
    a.image = item;
    return a;
  }
};

inline std::int64_t images_of(const Pool2d& p) {
  return p.channels_last ? p.batch : p.batch * p.channels;
}

/// Calls f(first image, items) for groups of images of `items` items each, of fewer than 2^31
/// items.
template <class F>
void for_each_group(const Pool2d& p, std::int64_t items, F&& f) {
  if (items == 0) return;
  FERRITE_CHECK(items <= INT32_MAX, ShapeError, "pool",
                "expects images of fewer than 2^31 elements, got {}", items);
  const std::int64_t images = images_of(p), together = INT32_MAX / items;
  for (std::int64_t first = 0; first < images; first += together)
    f(first, static_cast<std::uint32_t>(std::min(together, images - first) * items));
}

inline std::int64_t outputs_of(const Pool2d& p) { return p.h.output * p.w.output; }
inline std::int64_t inputs_of(const Pool2d& p) { return p.h.input * p.w.input; }

/// The same with the element offsets of the first image: f(in results, in cells, items).
template <class F>
void for_each_image_group(const Pool2d& p, std::int64_t items, F&& f) {
  const std::int64_t channels = p.channels_last ? p.channels : 1;
  for_each_group(p, items, [&](std::int64_t first, std::uint32_t count) {
    f(first * outputs_of(p) * channels, first * inputs_of(p) * channels, count);
  });
}

/// The number of blocks for `items` threads.
inline unsigned pool_blocks(std::uint32_t items) { return blocks_for(items, kPoolThreads); }
__device__ __forceinline__ std::uint32_t pool_item() {
  return blockIdx.x * static_cast<unsigned>(kPoolThreads) + threadIdx.x;
}

// ---- NCHW, stride 2, 2 x 2 without padding or 3 x 3 with one: rows of packs, and windows known at
// compile time. A thread handles V adjacent results, or V input cells.

struct HalvedPlanes {
  std::int32_t height, width, out_height, out_width;
  Divisor groups, rows;  // threads along a row; rows
  bool packs;            // results can also be moved in packs

  /// `along`: the elements of a row, of which each thread handles V.
  HalvedPlanes(const Pool2d& p, std::int64_t along, std::int64_t down, int v, bool packs)
      : height(static_cast<std::int32_t>(p.h.input)),
        width(static_cast<std::int32_t>(p.w.input)),
        out_height(static_cast<std::int32_t>(p.h.output)),
        out_width(static_cast<std::int32_t>(p.w.output)),
        groups(static_cast<std::uint32_t>((along + v - 1) / v)),
        rows(static_cast<std::uint32_t>(down)),
        packs(packs) {}

  struct At {
    std::int64_t plane;
    std::int32_t row, column;
  };
  template <int V>
  __device__ At split(std::uint32_t item) const {
    At a;
    a.column = static_cast<std::int32_t>(groups.split(item)) * V;
    a.row = static_cast<std::int32_t>(rows.split(item));
    a.plane = item;
    return a;
  }

  /// Loads columns 2 * column - 1 (only for K == 3) to 2 * column + 2 V - 1 of an input row that
  /// begins at `from`; columns outside of it are `outside`.
  template <int K, int V, class S, class T>
  __device__ void load_row(S (&cells)[2 * V + 1], const T* from, std::int32_t column,
                           S outside) const {
    cells[0] = K == 3 && column > 0 ? static_cast<S>(from[2 * column - 1]) : outside;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int32_t begin = 2 * column + half * V;
      Pack<T, V> some;
      const bool inside = begin < width;
      if (inside) some = load_pack<V>(from + begin);
#pragma unroll
      for (int v = 0; v < V; ++v)
        cells[1 + half * V + v] = inside ? static_cast<S>(some.v[v]) : outside;
    }
  }
};

/// Whether `p` is such a pooling, with k x k windows.
inline bool is_halved(const Pool2d& p, int k) {
  const auto fits = [&](const PoolAxis& a) {
    return !a.adaptive && a.kernel == k && a.stride == 2 && a.padding == (k - 1) / 2 &&
           a.dilation == 1;
  };
  return !p.channels_last && fits(p.h) && fits(p.w);
}

// ---- Large windows: the cells are distributed cyclically over the threads of a warp or a block.

/// The number of threads that share a window: a warp from 64 cells on, a block from 4096 on. One
/// thread handles windows of several channels, or with much overlap, because the loads of adjacent
/// threads are then adjacent.
inline int threads_sharing(const Pool2d& p) {
  constexpr std::int64_t kWarpCells = 64, kBlockCells = 4096;
  const std::int64_t cells = p.h.widest() * p.w.widest();
  if ((p.channels_last && p.channels > 1) || cells > 2 * inputs_of(p) / outputs_of(p)) return 1;
  return cells >= kBlockCells ? kPoolThreads : cells >= kWarpCells ? kWarp : 1;
}

/// The cells of a window from `first` on in steps of `step`, row-major.
struct CellWalk {
  std::int32_t row, column, columns;
  std::int32_t step_rows, step_columns;

  __device__ CellWalk(std::int32_t first, std::int32_t step, std::int32_t width)
      : row(first / max(width, 1)),
        column(first - row * max(width, 1)),
        columns(max(width, 1)),
        step_rows(step / columns),
        step_columns(step - step_rows * columns) {}
  __device__ void next() {
    row += step_rows;
    column += step_columns;
    if (column >= columns) {
      column -= columns;
      ++row;
    }
  }
};

}  // namespace ferrite::kernels::cuda
