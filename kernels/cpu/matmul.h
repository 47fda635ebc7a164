#pragma once

#include <algorithm>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cpu {

/// A matrix of a batch.
template <class S>
struct Matrix {
  S* data;
  std::int64_t rows, columns, row_step, column_step;

  S* at(std::int64_t r, std::int64_t c) const { return data + r * row_step + c * column_step; }
  Matrix transposed() const { return {data, columns, rows, column_step, row_step}; }
};

/// What follows a product: activation(alpha * product + beta * out + bias).
struct Epilogue {
  double alpha = 1, beta = 0;
  const void* bias = nullptr;  ///< of the inputs' type
  std::int64_t bias_row_step = 0, bias_column_step = 0;
  Activation activation = Activation::none;
  /// From a result to where its value before the activation goes, in bytes; 0: nowhere. Both lie
  /// alike, so that this holds for every part of the result.
  std::intptr_t before_activation = 0;

  Epilogue() = default;
  explicit Epilogue(double alpha) : alpha(alpha) {}
  Epilogue(const View& out, const MatmulOptions& options)
      : alpha(options.alpha), beta(options.beta), activation(options.activation) {
    if (options.bias.data) {
      bias = options.bias.data;
      bias_column_step = options.bias.strides[0];
    }
    if (options.before_activation.data)
      before_activation = reinterpret_cast<std::intptr_t>(options.before_activation.data) -
                          reinterpret_cast<std::intptr_t>(out.data);
  }
};

// The parts of matmul(), a source each.
decltype(matmul) float_product, double_product, half_product;

/// Calls product(out, a, b) with the matrices of a batch. Small products share a chunk; a large one
/// is cut up itself, which a loop that is a single chunk lets it do.
template <class S, class Product>
void for_each_product(const View& out, const View& a, const View& b, Product product) {
  const auto matrix = []<class T>(const View& v, std::int64_t index, T*) {
    const int d = v.ndim - 2;
    return Matrix<T>{v.as<T>() + (d ? index * v.strides[0] : 0), v.sizes[d], v.sizes[d + 1],
                     v.strides[d], v.strides[d + 1]};
  };
  const std::int64_t work = out.sizes[out.ndim - 2] * out.sizes[out.ndim - 1] *
                            std::max<std::int64_t>(1, a.sizes[a.ndim - 1]);
  const std::int64_t batch = out.ndim == 3 ? out.sizes[0] : 1;
  const std::int64_t grain =
      work >= (1 << 20) ? batch : std::max<std::int64_t>(1, (1 << 18) / work);
  parallel_for(batch, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      product(matrix(out, i, static_cast<S*>(nullptr)),
              matrix(a, i, static_cast<const S*>(nullptr)),
              matrix(b, i, static_cast<const S*>(nullptr)));
  });
}

}  // namespace ferrite::kernels::cpu
