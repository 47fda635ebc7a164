#include "ferrite/kernels/cpu/matmul.h"

#include <type_traits>
#include <vector>

#include "ferrite/kernels/cpu/pack.h"
#include "ferrite/kernels/unary.h"

namespace ferrite::kernels::cpu {

namespace {

template <class S>
void integer_product(const Matrix<S>& out, const Matrix<const S>& a, const Matrix<const S>& b,
                     const MatmulOptions& options) {
  // Unsigned: integers wrap around.
  using U = std::make_unsigned_t<S>;
  const U alpha = static_cast<U>(static_cast<S>(options.alpha));
  const U beta = static_cast<U>(static_cast<S>(options.beta));
  const std::int64_t cost = std::max<std::int64_t>(1, out.columns * a.columns);
  parallel_for(out.rows, std::max<std::int64_t>(1, 65536 / cost),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i)
                   for (std::int64_t j = 0; j < out.columns; ++j) {
                     U sum = 0;
                     for (std::int64_t k = 0; k < a.columns; ++k)
                       sum += static_cast<U>(*a.at(i, k)) * static_cast<U>(*b.at(k, j));
                     S& result = *out.at(i, j);
                     sum *= alpha;
                     if (beta) sum += beta * static_cast<U>(result);
                     if (options.bias.data)
                       sum += static_cast<U>(options.bias.as<S>()[j * options.bias.strides[0]]);
                     result = static_cast<S>(sum);
                   }
               });
}

/// Sums of the columns of rows [begin, end), in blocks so that rounding errors grow slowly.
template <class S, class T>
void sum_rows(T* sums, const View& a, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kBlock = 64;
  const std::int64_t columns = a.sizes[1], step = a.strides[1];
  std::vector<T> block(static_cast<std::size_t>(columns));
  std::fill_n(sums, columns, T(0));
  for (std::int64_t r = begin; r < end; r += kBlock) {
    std::fill(block.begin(), block.end(), T(0));
    T* to = block.data();
    for (std::int64_t i = r; i < std::min(end, r + kBlock); ++i) {
      const S* row = a.as<S>() + i * a.strides[0];
      if (step == 1)
        for (std::int64_t j = 0; j < columns; ++j) to[j] += static_cast<T>(row[j]);
      else
        for (std::int64_t j = 0; j < columns; ++j) to[j] += static_cast<T>(row[j * step]);
    }
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += to[j];
  }
}

void product(const View& out, const View& a, const View& b, const MatmulOptions& options) {
  switch (out.dtype) {
    case kFloat32:
      return float_product(out, a, b, options);
    case kFloat64:
      return double_product(out, a, b, options);
    case kFloat16:
    case kBFloat16:
      return half_product(out, a, b, options);
    default:
      dispatch_types<std::int64_t, std::int32_t>(out.dtype, "matmul", [&]<class S>() {
        for_each_product<S>(out, a, b, [&](const auto& c, const auto& x, const auto& y) {
          integer_product<S>(c, x, y, options);
        });
      });
  }
}

}  // namespace

void matmul(const View& out, const View& a, const View& b, const MatmulOptions& options) {
  if (options.row_sums.data) column_sum(options.row_sums, transposed(a));
  if (out.numel == 0) return;
  product(out, a, b, options);
  if (options.relu_of.data) unary_backward(UnaryOp::relu, out, out, options.relu_of, {});
}

void column_sum(const View& out, const View& a) {
  const std::int64_t rows = a.sizes[0], columns = a.sizes[1];
  if (columns == 0) return;
  dispatch_floating(out.dtype, "column_sum", [&]<class S>() {
    using T = Compute<S>;
    const std::int64_t grain =
        std::max<std::int64_t>((rows + 15) / 16, std::max<std::int64_t>(1, 65536 / columns));
    const std::int64_t parts = rows > 0 ? (rows - 1) / grain + 1 : 0;
    const Scratch<T> partial(std::max<std::int64_t>(1, parts) * columns);
    parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
      sum_rows<S>(partial.data() + begin / grain * columns, a, begin, end);
    });
    for (std::int64_t j = 0; j < columns; ++j) {
      T sum = 0;
      for (std::int64_t p = 0; p < parts; ++p) sum += partial.data()[p * columns + j];
      out.as<S>()[j * out.strides[0]] = static_cast<S>(sum);
    }
  });
}

}  // namespace ferrite::kernels::cpu

namespace ferrite::kernels {

void matmul(const Stream& stream, const View& out, const View& a, const View& b,
            const MatmulOptions& options) {
  FERRITE_CHECK(is_floating(out.dtype) || (options.activation == Activation::none &&
                                           !options.row_sums.data && !options.relu_of.data),
                DTypeError, "matmul", "activations and sums of rows are for floats, not {}",
                out.dtype);
  launch<cpu::matmul, cuda::matmul>(stream, "matmul", out, a, b, options);
}

}  // namespace ferrite::kernels
