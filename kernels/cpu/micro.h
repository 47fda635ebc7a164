// The inner kernel of products and convolutions: a few rows by a few vectors of results, held in
// registers while the common dimension is walked. Reaches the peak of the machine where its
// operands are in cache; what calls it decides what they are and in which order they are visited.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ferrite/kernels/cpu/simd.h"

namespace ferrite::kernels::cpu {

/// How the rows of the left operand lie in memory.
enum class Rows {
  apart,      ///< a_step apart, and what is summed over is contiguous within a run
  adjacent,   ///< contiguous, and what is summed over is a_step apart
  scattered,  ///< at a_rows[i], and what is summed over is a_step apart; c is at c_rows[i]
};

/// c[i][j] = start + the sum over s1, s0, k of a(i, k, s0, s1) b(j, k, s0, s1), where start is
/// bias[j], else row_bias[i], else 0; or c[i][j] + the sum (accumulate), which is added up first,
/// so that parts of a long sum round as short ones. The sum is cut into segments, between which the
/// operands move by steps of their own: rows of an image, taps of a filter. The products of a Pair
/// are two, and everything about operands counts pairs. A result has the same bits whatever `rows`
/// and `vectors` it is made with, of rows apart or scattered.
template <class T>
struct Micro {
  const T* a = nullptr;
  std::int64_t a_step = 0;
  const T* const* a_rows = nullptr;
  const T* b = nullptr;  ///< rows of whole vectors: what is past `columns` is read, and ignored
  std::int64_t b_step = 0;
  std::int64_t run = 0;  ///< length of a segment
  std::int64_t segments[2] = {1, 1};
  std::int64_t a_segment[2] = {0, 0};
  std::int64_t b_segment[2] = {0, 0};
  Sum<T>* c = nullptr;
  std::int64_t c_step = 0;  ///< between rows
  Sum<T>* const* c_rows = nullptr;
  std::int64_t columns = 0;
  const Sum<T>* bias = nullptr;      ///< whole vectors, for every row
  const Sum<T>* row_bias = nullptr;  ///< or a value for each row
  bool accumulate = false;
  /// The rows of the call after this one: brought nearer meanwhile. For rows apart and a segment.
  const T* next_a = nullptr;
};

inline constexpr int kMaxVectors = 4;
inline constexpr int kMaxRows = 14;

/// Rows of results that fit into registers beside the operands, with `vectors` vectors a row.
constexpr int max_rows(int vectors) {
  const int free = kVectorRegisters - 2 - vectors;
  return std::min(kMaxRows, std::max(1, free / vectors));
}

/// Computes `rows` (1 to max_rows(vectors)) by `vectors` (1 to kMaxVectors) vectors; `columns` is
/// more than vectors - 1 vectors and at most `vectors`. For float, double, and Pair where
/// there are pair_products().
template <class T>
void run_micro(const Micro<T>& m, int rows, int vectors, Rows layout);

/// The other kernel, for both operands contiguous along what is summed over:
/// c[i * c_row + j * c_column] (+)= the sum over s1, s0, k of a(i, k, s0, s1) b(j, k, s0, s1).
template <class T>
struct Dots {
  const T* a = nullptr;
  std::int64_t a_step = 0;  ///< between rows
  const T* const* b = nullptr;
  std::int64_t run = 0;
  std::int64_t segments[2] = {1, 1};
  std::int64_t a_segment[2] = {0, 0};
  std::int64_t b_segment[2] = {0, 0};
  T* c = nullptr;
  std::int64_t c_row = 0, c_column = 0;
  T* row_sums = nullptr;  ///< with c_row between them: the sums of a(i, ...) alone, if wanted
  bool accumulate = false;
};

inline constexpr int kDotRows = kVectorRegisters >= 32 ? 3 : 2;
inline constexpr int kDotColumns = kVectorRegisters >= 32 ? 9 : 5;

/// Computes `rows` (1 to kDotRows) by `columns` (1 to kDotColumns). For float and double.
template <class T>
void run_dots(const Dots<T>& d, int rows, int columns);

/// `count` rows or columns in equal shares of at most `most`.
inline std::int64_t even_share(std::int64_t count, std::int64_t most) {
  const std::int64_t shares = (count + most - 1) / most;
  return shares > 0 ? (count + shares - 1) / shares : most;
}

}  // namespace ferrite::kernels::cpu
