// Copies between layouts whose innermost dimensions differ (NCHW and NHWC, transposed matrices):
// through tiles in shared memory, so that reads and writes are both contiguous.
#include <bit>

#include "ferrite/kernels/cuda/convert.cuh"
#include "ferrite/kernels/cuda/copy.h"
#include "ferrite/kernels/cuda/elementwise.cuh"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kTileThreads = 256;

/// Elements a tile, for words of `size` bytes: 64 x 64, 64 x 32 or 32 x 32.
constexpr int tile_elements(std::size_t size) { return size <= 2 ? 4096 : size == 4 ? 2048 : 1024; }

/// A tile has 2^log_rows rows, which are adjacent in the input, and 2^log_cols columns, which are
/// adjacent in the output. In shared memory it is stored by columns.
struct TileShape {
  int log_rows, log_cols;
  int pitch, pad, pad_shift;

  /// `unit`: elements per bank of 4 bytes, at least 1. The tile's longer sides are whole warps.
  TileShape(int log_rows, int log_cols, int unit) : log_rows(log_rows), log_cols(log_cols) {
    const int rows = 1 << log_rows, cols = 1 << log_cols;
    pad = unit;
    if (rows >= 32) {
      // A warp reads 32 columns of one row, or fewer columns of several rows, all from different
      // banks.
      pitch = rows + unit * (cols < 32 ? 32 / cols : 1);
      pad_shift = 31;
    } else {
      pitch = rows;
      pad_shift = std::countr_zero(static_cast<unsigned>(32 * unit)) - log_rows;
    }
  }
  __device__ int slot(int row, int col) const {
    return col * pitch + row + (col >> pad_shift) * pad;
  }
};

struct Transpose {
  std::int64_t rows, cols;
  std::int64_t out_stride, in_stride;  // from row to row; from column to column
  Divisor row_tiles, col_tiles;
  TileShape tile;
  StridedLoop<2> batches;
};

template <class Out, bool kConverts>
__global__ void __launch_bounds__(kTileThreads)
    transpose_kernel(const __grid_constant__ Transpose t, Out* out, const void* in,
                     DType in_dtype) {
  constexpr int kElements = tile_elements(sizeof(Out));
  constexpr int kSteps = kElements / kTileThreads;
  // In flight a thread.
  constexpr int kLoads = kConverts || sizeof(Out) == 8 ? 4 : sizeof(Out) == 4 ? 8 : 16;
  FERRITE_SHARED(tile, Out[kElements + kElements / 8]);
  std::uint32_t block = blockIdx.x;
  const std::int64_t row0 = static_cast<std::int64_t>(t.row_tiles.split(block)) << t.tile.log_rows;
  const std::int64_t col0 = static_cast<std::int64_t>(t.col_tiles.split(block)) << t.tile.log_cols;
  const auto batch = t.batches.offsets(block);
  const std::int64_t rows_left = t.rows - row0, cols_left = t.cols - col0;

  const auto place = [&](int step, int& row, int& col) {
    const int at = step * kTileThreads + static_cast<int>(threadIdx.x);
    row = at & ((1 << t.tile.log_rows) - 1), col = at >> t.tile.log_rows;
    return row < rows_left && col < cols_left;
  };
  const std::int64_t first = batch.at[1] + col0 * t.in_stride + row0;
  for (int step = 0; step < kSteps; step += kLoads) {
    Pack<Out, 1> loaded[kLoads]{};
    int row, col;
    if constexpr (kConverts) {
      std::int64_t from[kLoads];
      int count[kLoads];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) {
        count[k] = place(step + k, row, col);
        from[k] = first + col * t.in_stride + row;
      }
      load_converted<1>(loaded, in, in_dtype, from, true, count);
    } else {
#pragma unroll
      for (int k = 0; k < kLoads; ++k)
        if (place(step + k, row, col))
          loaded[k].v[0] = static_cast<const Out*>(in)[first + col * t.in_stride + row];
    }
#pragma unroll
    for (int k = 0; k < kLoads; ++k)
      if (place(step + k, row, col)) tile[t.tile.slot(row, col)] = loaded[k].v[0];
  }
  __syncthreads();
  out += batch.at[0] + row0 * t.out_stride + col0;
#pragma unroll 4
  for (int step = 0; step < kSteps; ++step) {
    const int at = step * kTileThreads + static_cast<int>(threadIdx.x);
    const int col = at & ((1 << t.tile.log_cols) - 1), row = at >> t.tile.log_cols;
    if (row < rows_left && col < cols_left)
      out[row * t.out_stride + col] = tile[t.tile.slot(row, col)];
  }
}

int ceil_log2(std::int64_t n) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n - 1)));
}

/// The tile for matrices of rows x cols: square, or as long as possible if one side is short.
TileShape tile_for(std::int64_t rows, std::int64_t cols, std::size_t size) {
  const int log_elements = ceil_log2(tile_elements(size));
  int log_rows = std::min((log_elements + 1) / 2, ceil_log2(rows));
  int log_cols = std::min(log_elements - log_rows, ceil_log2(cols));
  log_cols = std::max(log_cols, 0);
  log_rows = log_elements - log_cols;
  return {log_rows, log_cols, size >= 4 ? 1 : static_cast<int>(4 / size)};
}

/// Removes dimension `d`.
template <std::size_t N>
void drop_dim(LoopNest<N>& nest, int d) {
  nest.numel /= nest.sizes[d];
  for (--nest.ndim; d < nest.ndim; ++d) {
    nest.sizes[d] = nest.sizes[d + 1];
    nest.strides[d] = nest.strides[d + 1];
  }
}

}  // namespace

bool try_transpose(const Stream& stream, const View& out, const View& in) {
  LoopNest<2> nest({&out, &in});
  const int col_dim = nest.ndim - 1;
  if (nest.strides[col_dim][0] != 1 || nest.strides[col_dim][1] <= 1) return false;
  int row_dim = col_dim - 1;
  while (row_dim >= 0 && nest.strides[row_dim][1] != 1) --row_dim;
  if (row_dim < 0) return false;
  const std::int64_t rows = nest.sizes[row_dim], cols = nest.sizes[col_dim];
  const std::size_t size = itemsize(out.dtype);
  if (rows * cols < tile_elements(size) / 4) return false;

  const TileShape tile = tile_for(rows, cols, size);
  Transpose t{rows, cols, nest.strides[row_dim][0], nest.strides[col_dim][1], {}, {}, tile, {}};
  const std::int64_t row_tiles = ((rows - 1) >> tile.log_rows) + 1;
  const std::int64_t col_tiles = ((cols - 1) >> tile.log_cols) + 1;
  t.row_tiles = Divisor(static_cast<std::uint32_t>(row_tiles));
  t.col_tiles = Divisor(static_cast<std::uint32_t>(col_tiles));
  drop_dim(nest, col_dim);
  drop_dim(nest, row_dim);
  for_each_loop(nest, [&](const StridedLoop<2>& batches) {
    t.batches = batches;
    const auto run = [&]<class Out, bool kConverts>() {
      launch({"transpose", stream, static_cast<unsigned>(row_tiles * col_tiles * batches.numel),
              kTileThreads},
             transpose_kernel<Out, kConverts>, t, out.as<Out>(), static_cast<const void*>(in.data),
             in.dtype);
    };
    if (out.dtype != in.dtype)
      return dispatch_all(out.dtype, "copy",
                          [&]<class Out>() { run.template operator()<Out, true>(); });
    dispatch_words(out.dtype, [&]<class Word>() { run.template operator()<Word, false>(); });
  });
  return true;
}

}  // namespace ferrite::kernels::cuda
