// Copies of matrices into the layouts that the inner kernels want, and scratch memory for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ferrite/core/dtype.h"
#include "ferrite/core/error.h"
#include "ferrite/core/storage.h"
#include "ferrite/kernels/cpu/simd.h"

namespace ferrite::kernels::cpu {

/// Memory for `count` elements of T from the host's cache of blocks, contents undefined. Throws
/// OutOfMemoryError for more than there is, also if the size in bytes would overflow.
template <class T>
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(std::int64_t count) : storage_(Storage::allocate(bytes_of(count), Device())) {}
  T* data() const { return static_cast<T*>(storage_->data()); }
  explicit operator bool() const { return static_cast<bool>(storage_); }

 private:
  static std::size_t bytes_of(std::int64_t count) {
    constexpr auto kMost = INT64_MAX / static_cast<std::int64_t>(sizeof(T));
    // A product of sizes that has wrapped around is negative half the time.
    FERRITE_CHECK(count >= 0 && count <= kMost, OutOfMemoryError, "allocate",
                  "the scratch memory of a kernel would have more bytes than fit 64 bits");
    return static_cast<std::size_t>(count) * sizeof(T);
  }

  IntrusivePtr<Storage> storage_;
};

/// Strides at which many rows fall into few sets of a cache.
template <class T>
bool conflicts(std::int64_t step) {
  return step * static_cast<std::int64_t>(sizeof(T)) % 2048 == 0;
}

/// Columns rounded up to whole vectors.
template <class T>
constexpr std::int64_t whole_vectors(std::int64_t columns) {
  return (columns + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

template <class T, class S>
void copy_run(T* to, const S* from, std::int64_t count) {
  if constexpr (std::is_same_v<T, S>) {
    constexpr std::int64_t n = kLanes<T>;
    std::int64_t i = 0;
    for (; i + n <= count; i += n) store(to + i, load(from + i));
    if (i < count) store_partial(to + i, load_partial(from + i, count - i), count - i);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
  }
}

/// to[i] += from[i]
template <class T>
void add_run(T* to, const T* from, std::int64_t count) {
  constexpr std::int64_t n = kLanes<T>;
  std::int64_t i = 0;
  for (; i + n <= count; i += n) store(to + i, load(to + i) + load(from + i));
  if (i < count)
    store_partial(to + i, load_partial(to + i, count - i) + load_partial(from + i, count - i),
                  count - i);
}

/// to[i] = {first[i * step], second[i * step]}, with zeros for a second that is null.
inline void interleave(Pair* to, const BFloat16* first, const BFloat16* second, std::int64_t count,
                       std::int64_t step = 1) {
  if (step == 1 && second) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint32_t bits = first[i].bits | static_cast<std::uint32_t>(second[i].bits) << 16;
      std::memcpy(to + i, &bits, sizeof bits);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = {first[i * step], second ? second[i * step] : BFloat16(0)};
}

/// to[r * to_step + c] = from[r * from_row + c * from_column]; fast where either stride of `from`
/// is 1, that is for copies and transposes.
template <class T, class S>
void copy_matrix(T* to, std::int64_t to_step, const S* from, std::int64_t from_row,
                 std::int64_t from_column, std::int64_t rows, std::int64_t columns) {
  if (from_column == 1 || columns == 1) {
    for (std::int64_t r = 0; r < rows; ++r, to += to_step, from += from_row)
      copy_run(to, from, columns);
    return;
  }
  if constexpr (std::is_same_v<T, S>) {
    if (from_row == 1) {
      constexpr std::int64_t n = kLanes<T>;
      const auto block_at = [&](std::int64_t r, std::int64_t c) {
        const std::int64_t height = std::min(n, rows - r), width = std::min(n, columns - c);
        Vector<T> block[n];
        if (height == n && width == n) {
#pragma GCC unroll 16
          for (std::int64_t j = 0; j < n; ++j) block[j] = load(from + r + (c + j) * from_column);
          transpose_lanes(block);
#pragma GCC unroll 16
          for (std::int64_t i = 0; i < n; ++i) store(to + (r + i) * to_step + c, block[i]);
        } else {
          for (std::int64_t j = 0; j < n; ++j)
            block[j] =
                j < width ? load_partial(from + r + (c + j) * from_column, height) : Vector<T>{};
          transpose_lanes(block);
          for (std::int64_t i = 0; i < height; ++i)
            store_partial(to + (r + i) * to_step + c, block[i], width);
        }
      };
      // Columns that fall into few sets of a cache are read to the end while they are in it.
      if (rows < columns && conflicts<S>(from_column))
        for (std::int64_t c = 0; c < columns; c += n)
          for (std::int64_t r = 0; r < rows; r += n) block_at(r, c);
      else
        for (std::int64_t r = 0; r < rows; r += n)
          for (std::int64_t c = 0; c < columns; c += n) block_at(r, c);
      return;
    }
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      to[r * to_step + c] = static_cast<T>(from[r * from_row + c * from_column]);
}

/// copy_matrix with every row of `to` filled up with zeros to whole vectors.
template <class T, class S>
void copy_matrix_padded(T* to, std::int64_t to_step, const S* from, std::int64_t from_row,
                        std::int64_t from_column, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t n = kLanes<T>;
  if constexpr (std::is_same_v<T, S>) {
    if (from_column == 1) {
      for (std::int64_t r = 0; r < rows; ++r, to += to_step, from += from_row) {
        std::int64_t c = 0;
        for (; c + n <= columns; c += n) store(to + c, load(from + c));
        if (c < columns) store(to + c, load_partial(from + c, columns - c));
      }
      return;
    }
    if (from_row == 1) {
      for (std::int64_t r = 0; r < rows; r += n)
        for (std::int64_t c = 0; c < columns; c += n) {
          const std::int64_t height = std::min(n, rows - r), width = std::min(n, columns - c);
          Vector<T> block[n];
          for (std::int64_t j = 0; j < n; ++j)
            block[j] =
                j < width ? load_partial(from + r + (c + j) * from_column, height) : Vector<T>{};
          transpose_lanes(block);
          for (std::int64_t i = 0; i < height; ++i) store(to + (r + i) * to_step + c, block[i]);
        }
      return;
    }
  }
  for (std::int64_t r = 0; r < rows; ++r, to += to_step, from += from_row) {
    for (std::int64_t c = 0; c < columns; ++c) to[c] = static_cast<T>(from[c * from_column]);
    std::fill(to + columns, to + (columns + n - 1) / n * n, T{});
  }
}

}  // namespace ferrite::kernels::cpu
