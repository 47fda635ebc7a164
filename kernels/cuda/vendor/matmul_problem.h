// The problem that cuBLASLt receives for a call, and whether it should receive it. This is decided
// on the host without the library, so that every build can test it.
//
// cuBLASLt is column-major: the row-major out = a b is its out' = b' a', for which no data has to
// be moved. If `out` is itself column-major, the problem is out = a b.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>

#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cuda::vendor {

/// A column-major matrix, or a batch of them.
struct ColumnMatrix {
  bool transposed = false;             ///< the library must transpose the matrix in memory
  std::int64_t rows = 0, columns = 0;  ///< in memory
  std::int64_t leading = 0;            ///< elements from one column to the next
  std::int64_t batch_stride = 0;
  std::uint32_t alignment = 0;  ///< of each matrix of the batch, in bytes, at most 256

  auto operator<=>(const ColumnMatrix&) const = default;
};

/// Settings of the solution.
struct MatmulSettings {
  bool tf32 = false;      ///< for float32
  bool measured = false;  ///< use the fastest of several plans, else the first of the heuristic

  auto operator<=>(const MatmulSettings&) const = default;
};

/// The operation that is applied to the product before it is stored.
enum class MatmulEpilogue : std::uint8_t {
  none,
  bias,
  relu,
  relu_bias,
  relu_keep,  ///< also stores bits that say where the result is above 0
  relu_keep_bias,
  relu_gradient,  ///< of a result that such bits stand for
  gelu,           ///< its tanh approximation is the only one that cuBLASLt has
  gelu_bias,
  gelu_keep,  ///< also stores gelu's input
  gelu_keep_bias,
  left_sums,   ///< of the rows of the left operand; they do not affect the result
  right_sums,  ///< of the columns of the right operand
};

/// All that a plan depends on; the key of the cache. out = left right, column-major.
struct MatmulProblem {
  DType dtype = kFloat32;
  MatmulSettings settings = {};
  bool left_is_a = false;
  ColumnMatrix left = {}, right = {}, out = {};
  std::int64_t batch = 1;
  bool reads_out = false;
  MatmulEpilogue epilogue = MatmulEpilogue::none;
  std::uint32_t vector_alignment = 0;  ///< of the bias or the sums, at most 16

  auto operator<=>(const MatmulProblem&) const = default;
};

/// The largest power of two, at most `most`, that `bytes` is a multiple of.
inline std::uint32_t alignment_of(std::uint64_t bytes, std::uint32_t most) {
  const std::uint64_t lowest = bytes & (~bytes + 1);
  return bytes == 0 ? most : static_cast<std::uint32_t>(std::min<std::uint64_t>(lowest, most));
}
inline std::uint32_t alignment_of(const void* data, std::uint32_t most) {
  return alignment_of(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(data)), most);
}

/// The transposes of the matrices of `v`, column-major; nothing if neither rows nor columns are
/// dense, or if they overlap.
inline std::optional<ColumnMatrix> by_columns(const View& v) {
  const int d = v.ndim - 2;
  const std::int64_t rows = v.sizes[d], columns = v.sizes[d + 1];
  const std::int64_t down = v.strides[d], along = v.strides[d + 1];
  ColumnMatrix m;
  if ((along == 1 || columns == 1) && (down >= columns || rows == 1)) {
    m.rows = columns, m.columns = rows;
    m.leading = rows == 1 ? columns : down;
  } else if ((down == 1 || rows == 1) && (along >= rows || columns == 1)) {
    m.transposed = true;
    m.rows = rows, m.columns = columns;
    m.leading = columns == 1 ? rows : along;
  } else {
    return std::nullopt;
  }
  if (v.ndim == 3 && v.sizes[0] > 1) m.batch_stride = v.strides[0];
  const auto step = static_cast<std::uint64_t>(m.batch_stride) * itemsize(v.dtype);
  m.alignment = std::min(alignment_of(v.data, 256), alignment_of(step, 256));
  return m;
}

/// The epilogue that covers all options; nothing if there is none.
inline std::optional<MatmulEpilogue> epilogue_of(const MatmulProblem& p, const View& out,
                                                 const MatmulOptions& options) {
  using E = MatmulEpilogue;
  const auto dense = [&](const View& v) {
    return v.dtype == out.dtype && (v.strides[0] == 1 || v.sizes[0] == 1);
  };
  const bool biased = options.bias.data != nullptr;
  const bool keeps = options.before_activation.data != nullptr;
  const bool has_bits = options.relu_bits.data != nullptr;
  // They are one of cuBLASLt's columns for each of out's rows, aligned to 16 bytes.
  const bool takes_bits =
      !p.left_is_a && p.batch == 1 && alignment_of(options.relu_bits.data, 16) == 16;
  if (options.relu_of.data)
    return has_bits && takes_bits ? std::optional(E::relu_gradient) : std::nullopt;
  // The bias is one of cuBLASLt's columns.
  if (biased && (p.left_is_a || !dense(options.bias))) return std::nullopt;
  if (options.row_sums.data) {
    if (biased || options.activation != Activation::none || p.batch > 1 || !dense(options.row_sums))
      return std::nullopt;
    return p.left_is_a ? E::left_sums : E::right_sums;
  }
  switch (options.activation) {
    case Activation::none:
      return biased ? E::bias : E::none;
    case Activation::relu:
      if (keeps) return std::nullopt;  // it would store bits
      if (has_bits && !takes_bits) return std::nullopt;
      if (has_bits) return biased ? E::relu_keep_bias : E::relu_keep;
      return biased ? E::relu_bias : E::relu;
    case Activation::gelu_tanh:
      if (!keeps) return biased ? E::gelu_bias : E::gelu;
      // It has the layout of out, in runs of 8 elements aligned to 16 bytes.
      if (p.out.leading % 8 != 0 || p.out.batch_stride % 8 != 0 ||
          alignment_of(options.before_activation.data, 16) < 16)
        return std::nullopt;
      return biased ? E::gelu_keep_bias : E::gelu_keep;
    default:
      return std::nullopt;
  }
}

/// The call of kernels::matmul as a problem for cuBLASLt; nothing if cuBLASLt cannot compute it, or
/// if our own kernels are as fast: for products of vectors, which are bound by memory.
inline std::optional<MatmulProblem> matmul_problem(const View& out, const View& a, const View& b,
                                                   const MatmulOptions& options,
                                                   const MatmulSettings& settings) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
  constexpr std::int64_t kMostProducts = 65535;  // some of its kernels take no larger batches
  MatmulProblem p{.dtype = out.dtype, .settings = settings};
  if (!is_floating(out.dtype) || out.numel == 0) return std::nullopt;
  if (out.dtype != kFloat32) p.settings.tf32 = false;
  const std::int64_t rows = out.sizes[out.ndim - 2], columns = out.sizes[out.ndim - 1];
  const std::int64_t depth = a.sizes[a.ndim - 1];
  if (rows == 1 || columns == 1 || depth == 0) return std::nullopt;
  if (std::max({rows, columns, depth}) > kMost) return std::nullopt;
  if (out.ndim == 3) p.batch = out.sizes[0];
  if (p.batch > kMostProducts) return std::nullopt;

  const auto to = by_columns(out);
  if (!to) return std::nullopt;
  p.left_is_a = to->transposed;
  const auto left = p.left_is_a ? by_columns(transposed(a)) : by_columns(b);
  const auto right = p.left_is_a ? by_columns(transposed(b)) : by_columns(a);
  if (!left || !right) return std::nullopt;
  p.left = *left, p.right = *right;
  p.out = p.left_is_a ? *by_columns(transposed(out)) : *to;
  if (std::max({p.left.leading, p.right.leading, p.out.leading}) > kMost) return std::nullopt;

  p.reads_out = options.beta != 0;
  const auto epilogue = epilogue_of(p, out, options);
  if (!epilogue) return std::nullopt;
  p.epilogue = *epilogue;
  if (const View& vector = options.bias.data ? options.bias : options.row_sums; vector.data)
    p.vector_alignment = alignment_of(vector.data, 16);
  return p;
}

}  // namespace ferrite::kernels::cuda::vendor
