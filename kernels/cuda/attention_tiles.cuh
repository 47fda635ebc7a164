// Products of attention: a warp holds 16 rows of weights or results in its registers, distributed
// as tensor cores want them, whichever unit multiplies. Lane 4 r + c has columns 2 c and 2 c + 1 of
// rows r and r + 8 of every 8 columns.
#pragma once

#include <algorithm>

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/async_copy.cuh"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/cuda/tile_mma.cuh"

namespace ferrite::kernels::cuda {

/// The sizes of a block's work: kRows rows of its own, 16 a warp, against kOthers rows at a time
/// that pass by, both in pieces of kWidth columns.
template <class T, int Width>
struct AttentionTiles {
  using C = Compute<T>;
  static constexpr bool kMma = is_half_type<T>;
  static constexpr int kWidth = Width;
  static constexpr int kRows = sizeof(T) == 8 ? 32 : 64, kOthers = kMma ? 64 : 32;
  static constexpr int kThreads = kRows / 16 * kWarp;
  static constexpr int kPack = kPackBytes / static_cast<int>(sizeof(T));
  /// Elements of a line in shared memory. Without tensor cores, lines are a pack apart in banks.
  static constexpr int kLine = kMma ? Width : Width + kPack;
  static constexpr int kOwn = kRows * kLine, kOther = kOthers * kLine;
  static constexpr int kWeightLine = kOthers + 1;
  static constexpr int kWeights = kMma ? 0 : kRows * kWeightLine;

  using Weights = C[kOthers / 8][4];
  using Results = C[Width / 8][4];

  static __device__ int warp_row() { return static_cast<int>(threadIdx.x) / kWarp * 16; }
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
  /// Row and column of element e of the j-th four.
  static __device__ int row_of(int e) { return warp_row() + lane() / 4 + e / 2 * 8; }
  static __device__ int column_of(int j, int e) { return 8 * j + lane() % 4 * 2 + e % 2; }

  /// Where an element of a tile is.
  static __device__ int at(int row, int column) {
    if constexpr (kMma)
      return SliceLayout<kOthers, Width, true>::at(row, column / kChunk) + column % kChunk;
    else
      return row * kLine + column;
  }
};

/// Rows in global memory, of which the first `rows` exist.
template <class T>
struct AttentionRows {
  const T* data;
  std::int64_t step;
  int rows, width;
  bool packs;  ///< whether packs of 16 bytes are aligned
};

/// Starts to copy columns [column, column + kWidth) of `Rows` rows; what does not exist is 0.
template <class Tiles, int Rows, class T>
__device__ __forceinline__ void load_tile(T* tile, const AttentionRows<T>& from, int column) {
  constexpr int kPack = Tiles::kPack, kPacks = Tiles::kWidth / kPack;
  for (int i = static_cast<int>(threadIdx.x); i < Rows * kPacks; i += Tiles::kThreads) {
    const int row = i / kPacks, c = i % kPacks * kPack;
    const int count = row < from.rows ? from.width - column - c : 0;
    T* const to = tile + Tiles::at(row, c);
    const T* const source = from.data + row * from.step + column + c;
    if (from.packs && (count <= 0 || count >= kPack)) {
      async_copy<kPack>(to, source, count > 0);
    } else {
      Pack<T, kPack> values;
#pragma unroll
      for (int j = 0; j < kPack; ++j) values.v[j] = j < count ? source[j] : T(0);
      store_shared_pack<kPack>(to, values);
    }
  }
}

/// Waits for the copies of all threads.
__device__ __forceinline__ void tiles_loaded() {
  async_commit();
  async_wait<0>();
  __syncthreads();
}

/// c += own others^T, of columns [0, depth) of both tiles.
template <class Tiles, class T>
__device__ __forceinline__ void multiply_rows(typename Tiles::Weights& c, const T* own,
                                              const T* others, int depth) {
  if constexpr (Tiles::kMma) {
    using Own = SliceLayout<Tiles::kRows, Tiles::kWidth, true>;
    using Others = SliceLayout<Tiles::kOthers, Tiles::kWidth, true>;
    for (int k = 0; k < depth; k += 16) {
      unsigned a[4];
      detail::load_square<Own, true, true>(a, own, Tiles::warp_row(), k);
#pragma unroll
      for (int j = 0; j < Tiles::kOthers / 16; ++j) {
        unsigned b[4];
        detail::load_square<Others, true, false>(b, others, 16 * j, k);
        multiply_fragments<T>(c[2 * j], a, {b[0], b[1]});
        multiply_fragments<T>(c[2 * j + 1], a, {b[2], b[3]});
      }
    }
  } else {
    constexpr int kPack = Tiles::kPack;
    for (int k = 0; k < depth; k += kPack) {
      const auto upper = load_pack<kPack>(own + Tiles::at(Tiles::row_of(0), k));
      const auto lower = load_pack<kPack>(own + Tiles::at(Tiles::row_of(2), k));
#pragma unroll
      for (int j = 0; j < Tiles::kOthers / 8; ++j) {
        const auto left = load_pack<kPack>(others + Tiles::at(Tiles::column_of(j, 0), k));
        const auto right = load_pack<kPack>(others + Tiles::at(Tiles::column_of(j, 1), k));
#pragma unroll
        for (int i = 0; i < kPack; ++i) {
          c[j][0] += upper.v[i] * left.v[i];
          c[j][1] += upper.v[i] * right.v[i];
          c[j][2] += lower.v[i] * left.v[i];
          c[j][3] += lower.v[i] * right.v[i];
        }
      }
    }
  }
}

template <class T>
__device__ __forceinline__ unsigned two_halves(float first, float second) {
  return T(first).bits | static_cast<unsigned>(T(second).bits) << 16;
}

/// results += weights others. `shared` has kWeights elements; only the types without tensor cores
/// use it, each warp its own rows.
template <class Tiles, class T>
__device__ __forceinline__ void multiply_weights(typename Tiles::Results& results,
                                                 const typename Tiles::Weights& weights,
                                                 const T* others, T* shared) {
  if constexpr (Tiles::kMma) {
    using Others = SliceLayout<Tiles::kWidth, Tiles::kOthers, false>;
#pragma unroll
    for (int k = 0; k < Tiles::kOthers / 16; ++k) {
      const auto& low = weights[2 * k];
      const auto& high = weights[2 * k + 1];
      const unsigned a[4] = {two_halves<T>(low[0], low[1]), two_halves<T>(low[2], low[3]),
                             two_halves<T>(high[0], high[1]), two_halves<T>(high[2], high[3])};
#pragma unroll
      for (int j = 0; j < Tiles::kWidth / 16; ++j) {
        unsigned b[4];
        detail::load_square<Others, false, false>(b, others, 16 * j, 16 * k);
        multiply_fragments<T>(results[2 * j], a, {b[0], b[1]});
        multiply_fragments<T>(results[2 * j + 1], a, {b[2], b[3]});
      }
    }
  } else {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < Tiles::kOthers / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        shared[Tiles::row_of(e) * Tiles::kWeightLine + Tiles::column_of(j, e)] = weights[j][e];
    __syncwarp();
    const T* const upper = shared + Tiles::row_of(0) * Tiles::kWeightLine;
    const T* const lower = shared + Tiles::row_of(2) * Tiles::kWeightLine;
    for (int k = 0; k < Tiles::kOthers; ++k) {
      const T above = upper[k], below = lower[k];
#pragma unroll
      for (int j = 0; j < Tiles::kWidth / 8; ++j) {
        const auto pair = load_pack<2>(others + Tiles::at(k, Tiles::column_of(j, 0)));
        results[j][0] += above * pair.v[0];
        results[j][1] += above * pair.v[1];
        results[j][2] += below * pair.v[0];
        results[j][3] += below * pair.v[1];
      }
    }
  }
}

/// c = own others^T over all columns, in pieces. Of a single piece the own rows are loaded only
/// with `first`. `alongside` starts copies that may arrive together with the first piece.
template <class Tiles, class T, class Alongside>
__device__ __forceinline__ void multiply_all(typename Tiles::Weights& c, T* own_tile,
                                             const AttentionRows<T>& own, T* other_tile,
                                             const AttentionRows<T>& others, bool first,
                                             const Alongside& alongside) {
  constexpr int kStep = Tiles::kMma ? 16 : Tiles::kPack;
#pragma unroll
  for (auto& four : c)
#pragma unroll
    for (auto& x : four) x = 0;
  for (int column = 0; column < own.width; column += Tiles::kWidth) {
    __syncthreads();  // reads of what was in the tiles
    if (first || own.width > Tiles::kWidth) load_tile<Tiles, Tiles::kRows>(own_tile, own, column);
    load_tile<Tiles, Tiles::kOthers>(other_tile, others, column);
    if (column == 0) alongside();
    tiles_loaded();
    constexpr int kWidth = Tiles::kWidth;
    const int depth = std::min(kWidth, (own.width - column + kStep - 1) / kStep * kStep);
    multiply_rows<Tiles>(c, own_tile, other_tile, depth);
  }
}

/// Replaces the last piece of multiply_all by the one that begins at `column`.
template <class Tiles, class T>
__device__ __forceinline__ void select_columns(T* tile, const AttentionRows<T>& others,
                                               int column) {
  if (others.width <= Tiles::kWidth) return;
  __syncthreads();
  load_tile<Tiles, Tiles::kOthers>(tile, others, column);
  tiles_loaded();
}

}  // namespace ferrite::kernels::cuda
