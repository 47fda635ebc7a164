// Conversion of matrix views to operands of tiled products.
#pragma once

#include <type_traits>

#include "ferrite/kernels/cuda/matmul_types.h"
#include "ferrite/kernels/cuda/tile_launch.cuh"
#include "ferrite/kernels/cuda/tile_matrix.cuh"

namespace ferrite::kernels::cuda::native {

/// The matrices of a batch.
struct MatrixView {
  void* data;
  std::int64_t batch, rows, columns;
  std::int64_t batch_step, row_step, column_step;

  explicit MatrixView(const View& v)
      : data(v.data),
        batch(v.ndim == 3 ? v.sizes[0] : 1),
        rows(v.sizes[v.ndim - 2]),
        columns(v.sizes[v.ndim - 1]),
        batch_step(v.ndim == 3 ? v.strides[0] : 0),
        row_step(v.strides[v.ndim - 2]),
        column_step(v.strides[v.ndim - 1]) {}

  MatrixView transposed() const {
    MatrixView t = *this;
    std::swap(t.rows, t.columns);
    std::swap(t.row_step, t.column_step);
    return t;
  }
};

/// out = activation(alpha a b + beta out + bias) in the form for kernels, computed in T.
template <class S, class T>
struct MatrixProduct {
  MatrixView out, a, b;
  Epilogue<S, T> epilogue;

  MatrixProduct(const View& out, const View& a, const View& b, const MatmulOptions& options)
      : out(out), a(a), b(b) {
    epilogue.alpha = scalar(options.alpha);
    epilogue.beta = scalar(options.beta);
    if (options.bias.data) {
      epilogue.bias = options.bias.as<S>();
      epilogue.bias_column_step = options.bias.strides[0];
    }
    epilogue.activation = options.activation;
    epilogue.before_activation = options.before_activation.as<S>();
  }

  TileSizes sizes() const { return {out.rows, out.columns, a.columns, out.batch}; }

  /// out^T = b^T a^T.
  void transpose() {
    out = out.transposed();
    const MatrixView left = b.transposed();
    b = a.transposed();
    a = left;
    std::swap(epilogue.bias_row_step, epilogue.bias_column_step);
  }

  TileOutput<S, T, MatrixMap> output(int run) const {
    TileOutput<S, T, MatrixMap> o{
        static_cast<S*>(out.data),
        {static_cast<std::uint32_t>(out.rows), static_cast<std::uint32_t>(out.columns),
         out.batch_step, out.row_step, out.column_step},
        epilogue};
    const auto whole = [run](std::int64_t n) { return n % run == 0; };
    if (out.row_step == 1 && out.column_step != 1) o.order.along = Along::rows;
    const bool rows = o.order.along == Along::rows;
    o.order.packed = (rows ? out.row_step : out.column_step) == 1 &&
                     whole(rows ? out.rows : out.columns) && is_aligned(o.data, run) &&
                     is_aligned(epilogue.before_activation, run) &&
                     whole(rows ? out.column_step : out.row_step) && whole(out.batch_step);
    return o;
  }

 private:
  /// Scales of integer products are truncated, via a signed integer.
  static T scalar(double value) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::make_signed_t<T>>(value));
    else
      return static_cast<T>(value);
  }
};

/// An operand whose rows are the rows of `m` and whose depth is its columns.
template <class T, int Rows, class Tile>
MatrixOperand<T, Rows, Tile::kDepth, Tile::kThreads> row_operand(const MatrixView& m) {
  return {
      static_cast<const T*>(m.data), m.rows, m.columns, m.batch_step, m.row_step, m.column_step};
}

template <class Tile, class T>
void run_tiles(const Stream& stream, const char* name, const MatrixProduct<T, T>& product) {
  const TileSizes sizes = product.sizes();
  auto a = row_operand<T, Tile::kRows, Tile>(product.a);
  auto b = row_operand<T, Tile::kColumns, Tile>(product.b.transposed());
  auto out = product.output(Tile::kRun);
  launch_tiles<Tile>(stream, name, tile_product<Tile, decltype(a), decltype(b), decltype(out)>, a,
                     b, out, sizes, plan_parts<Tile>(sizes));
}

}  // namespace ferrite::kernels::cuda::native
