// The destinations of the results of tiled products, and the epilogue applied to them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ferrite/kernels/cuda/activation.cuh"
#include "ferrite/kernels/cuda/divisor.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/cuda/store_order.h"

namespace ferrite::kernels::cuda {

/// The epilogue of a product: activation(alpha * product + beta * out + bias).
template <class S, class T>
struct Epilogue {
  T alpha = 1, beta = 0;
  const S* bias = nullptr;
  std::int64_t bias_group_step = 0, bias_row_step = 0, bias_column_step = 0;
  Activation activation = Activation::none;
  S* before_activation = nullptr;  // receives the activation's input, at the result's offsets
};

/// Results of type S at the places that a Map gives to (batch, row, column). A Map has rows(batch),
/// columns(batch), offset(batch, row, column) and group(batch), which chooses among biases.
template <class S, class T, class Map>
struct TileOutput {
  S* data;
  Map map;
  Epilogue<S, T> epilogue;
  StoreOrder order = {};

  __device__ std::uint32_t rows(std::uint32_t batch) const { return map.rows(batch); }
  __device__ std::uint32_t columns(std::uint32_t batch) const { return map.columns(batch); }

  /// Stores N results from (row, column) on, adjacent in the direction `along`.
  template <int N, Along along>
  __device__ __forceinline__ void store(std::uint32_t batch, std::uint32_t row,
                                        std::uint32_t column, const Pack<T, N>& sums) const {
    const std::int64_t at = map.offset(batch, row, column);
    S* const to = data + at;
    Pack<T, N> results;
    Pack<S, N> before{};
    if (epilogue.beta != T(0)) before = load_pack<N>(to);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      T value = sums.v[i] * epilogue.alpha;
      if (epilogue.beta != T(0)) value += epilogue.beta * static_cast<T>(before.v[i]);
      if (epilogue.bias) {
        const std::uint32_t r = row + (along == Along::rows ? i : 0);
        const std::uint32_t c = column + (along == Along::columns ? i : 0);
        value += static_cast<T>(
            epilogue.bias[map.group(batch) * epilogue.bias_group_step + r * epilogue.bias_row_step +
                          c * epilogue.bias_column_step]);
      }
      results.v[i] = value;
    }
    if constexpr (std::is_floating_point_v<T>)
      if (epilogue.activation != Activation::none) {
        if (epilogue.before_activation) store_rounded(epilogue.before_activation + at, results);
        activate(epilogue.activation, results);
      }
    store_rounded(to, results);
  }

 private:
  template <int N>
  static __device__ __forceinline__ void store_rounded(S* to, const Pack<T, N>& results) {
    Pack<S, N> values;
#pragma unroll
    for (int i = 0; i < N; ++i) values.v[i] = static_cast<S>(results.v[i]);
    store_pack<N>(to, values);
  }
};

/// The offsets of the elements of a matrix, one of a batch.
struct MatrixMap {
  std::uint32_t row_count, column_count;
  std::int64_t batch_step, row_step, column_step;

  __device__ std::uint32_t rows(std::uint32_t) const { return row_count; }
  __device__ std::uint32_t columns(std::uint32_t) const { return column_count; }
  __device__ std::uint32_t group(std::uint32_t) const { return 0; }
  __device__ std::int64_t offset(std::uint32_t batch, std::uint32_t row,
                                 std::uint32_t column) const {
    return batch * batch_step + row * row_step + column * column_step;
  }
};

/// The distribution of a launch's tiles over blocks: tiles along x, products of a batch along y,
/// parts of the depth along z.
template <class T>
struct TileGrid {
  std::uint32_t row_tiles, column_tiles;
  std::uint32_t first_batch = 0, batches = 1;
  std::uint32_t depth_step;  // depth of a part; the whole depth if there is one part
  T* partial = nullptr;  // [part, batch, rows, columns] of sums; null: results are stored directly
  std::uint32_t rows, columns;  // the largest of all products of the batch

  __device__ T* partial_row(std::uint32_t part, std::uint32_t batch, std::uint32_t row) const {
    return partial + ((std::int64_t{part} * batches + batch - first_batch) * rows + row) *
                         std::int64_t{columns};
  }
  /// Stores partial sums, N at a time.
  template <int N>
  __device__ StoreOrder order() const {
    return {Along::columns, columns % N == 0};
  }
};

}  // namespace ferrite::kernels::cuda
