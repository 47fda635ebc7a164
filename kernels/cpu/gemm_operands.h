// The operands of a product as the inner kernel wants them: where they lie, or packed.
#pragma once

#include <cstring>

#include "ferrite/kernels/cpu/matmul.h"
#include "ferrite/kernels/cpu/micro.h"
#include "ferrite/kernels/cpu/pack.h"

namespace ferrite::kernels::cpu {

namespace detail {

/// The number of elements of an operand in each A: depths count pairs where A is a Pair.
template <class A>
inline constexpr std::int64_t kElements = std::is_same_v<A, Pair> ? 2 : 1;

/// Rows [k, k + run) of b, columns [j, j + used), as a panel of `width` columns filled up with
/// zeros; multiplied by alpha unless they are pairs.
template <class A, class S>
void pack_right(A* to, const Matrix<const S>& b, std::int64_t k, std::int64_t run, std::int64_t j,
                std::int64_t used, std::int64_t width, double alpha) {
  if (run == 0) return;  // the memory of an empty operand has no address
  if constexpr (std::is_same_v<A, Pair>) {
    std::int64_t first = 0;  // of the rows that are interleaved one by one
    if (b.row_step == 1 && b.column_step % 2 == 0) {
      first = std::min(run, b.rows / 2 - k);
      copy_matrix(to, width, reinterpret_cast<const Pair*>(b.at(2 * k, j)), 1, b.column_step / 2,
                  first, used);
    }
    for (std::int64_t r = first; r < run; ++r) {
      const BFloat16* one = b.at(2 * (k + r), j);
      const bool odd = 2 * (k + r) + 1 == b.rows;
      interleave(to + r * width, one, odd ? nullptr : one + b.row_step, used, b.column_step);
    }
  } else {
    copy_matrix(to, width, b.at(k, j), b.row_step, b.column_step, run, used);
    if (alpha != 1)
      for (std::int64_t r = 0; r < run; ++r)
        for (std::int64_t c = 0; c < used; ++c) to[r * width + c] *= static_cast<A>(alpha);
  }
  if (used < width)
    for (std::int64_t r = 0; r < run; ++r)
      std::fill(to + r * width + used, to + (r + 1) * width, A{});
}

/// The left operand of a task, `tiles` times `tile` rows by `block` deep at a time.
template <class A, class S>
class Left {
 public:
  Left(const Matrix<const S>& a, std::int64_t tile, std::int64_t tiles, std::int64_t block)
      : a_(a), tile_(tile) {
    const bool whole =
        std::is_same_v<S, A> || (kPairs && a.columns % 2 == 0 && a.row_step % 2 == 0);
    apart_ = whole && a.column_step == 1 && (!conflicts<S>(a.row_step) || a.rows < 14);
    adjacent_ = !apart_ && a.row_step == 1;
    in_place_ = apart_ || (adjacent_ && std::is_same_v<S, A> && !conflicts<S>(a.column_step));
    if (!in_place_)
      packed_ = Scratch<A>(std::min(tile * tiles, (a.rows + tile - 1) / tile * tile) * block);
  }

  Rows layout() const { return adjacent_ ? Rows::adjacent : Rows::apart; }

  /// Prepares rows [first, end), [k, k + run) of what is summed over.
  void pack(std::int64_t first, std::int64_t end, std::int64_t k, std::int64_t run) const {
    if (in_place_ || run == 0) return;  // the memory of an empty operand has no address
    if (kPairs || adjacent_)
      for (std::int64_t i = first; i < end; i += tile_)
        pack_tile(packed_.data() + (i - first) * run, i, std::min(tile_, end - i), k, run);
    else if constexpr (!kPairs)
      copy_matrix(packed_.data(), run, a_.at(first, k), a_.row_step, a_.column_step, end - first,
                  run);
  }

  /// A tile of them, the one from row i on, for the inner kernel.
  void give(Micro<A>& m, std::int64_t i, std::int64_t first, std::int64_t k,
            std::int64_t run) const {
    if (in_place_) {
      m.a = reinterpret_cast<const A*>(a_.at(i, kElements<A> * k));
      m.a_step = apart_ ? a_.row_step / kElements<A> : a_.column_step;
      return;
    }
    m.a = packed_.data() + (i - first) * run;
    m.a_step = adjacent_ ? tile_ : run;
  }

 private:
  static constexpr bool kPairs = std::is_same_v<A, Pair>;

  void pack_tile(A* packed, std::int64_t i, std::int64_t height, std::int64_t k,
                 std::int64_t run) const {
    if constexpr (!kPairs) {
      for (std::int64_t r = 0; r < run; ++r) copy_run(packed + r * tile_, a_.at(i, k + r), height);
      return;
    } else {
      pack_pairs(packed, i, height, k, run);
    }
  }

  void pack_pairs(Pair* packed, std::int64_t i, std::int64_t height, std::int64_t k,
                  std::int64_t run) const {
    if (adjacent_) {
      for (std::int64_t r = 0; r < run; ++r) {
        const BFloat16* one = a_.at(i, 2 * (k + r));
        const bool odd = 2 * (k + r) + 1 == a_.columns;
        interleave(packed + r * tile_, one, odd ? nullptr : one + a_.column_step, height);
      }
      return;
    }
    const std::int64_t whole = std::min(run, a_.columns / 2 - k);
    for (std::int64_t row = 0; row < height; ++row) {
      const BFloat16* from = a_.at(i + row, 2 * k);
      Pair* to = packed + row * run;
      if (a_.column_step == 1)
        std::memcpy(to, from, static_cast<std::size_t>(whole) * sizeof(Pair));
      else
        for (std::int64_t r = 0; r < whole; ++r)
          to[r] = {from[2 * r * a_.column_step], from[(2 * r + 1) * a_.column_step]};
      if (whole < run) to[whole] = {from[2 * whole * a_.column_step], BFloat16(0)};
    }
  }

  Matrix<const S> a_;
  std::int64_t tile_;
  bool apart_, adjacent_, in_place_;
  Scratch<A> packed_;
};

}  // namespace detail

}  // namespace ferrite::kernels::cpu
