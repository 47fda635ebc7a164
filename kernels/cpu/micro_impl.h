// The definition of run_micro, compiled once for each type.
#pragma once

#include <array>
#include <type_traits>
#include <utility>

#include "ferrite/kernels/cpu/micro.h"

namespace ferrite::kernels::cpu {

namespace detail {

/// Independent sums in flight that hide the latency of a fused multiply-add.
constexpr int unrolled_sums(int results) { return results <= 3 ? 4 : results <= 7 ? 2 : 1; }

template <class T, int R, int V, bool kScattered = false>
struct Accumulators {
  using S = Sum<T>;
  Vector<S> at[R][V];

  static S* row_of(const Micro<T>& m, int i) {
    return kScattered ? m.c_rows[i] : m.c + i * m.c_step;
  }

  void clear() {
#pragma GCC unroll 14
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) at[i][v] = Vector<S>{};
  }
  /// Adds the outer product of row(0), row(1)... and the vectors at b.
  template <class Row>
  [[gnu::always_inline]] void add(Row row, const T* b) {
    Vector<T> right[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) right[v] = load(b + v * kLanes<T>);
#pragma GCC unroll 14
    for (int i = 0; i < R; ++i) {
      const T left = row(i);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) add_product<T>(at[i][v], left, right[v]);
    }
  }
  void add(const Accumulators& other) {
#pragma GCC unroll 14
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) at[i][v] += other.at[i][v];
  }
  void start(const Micro<T>& m) {
#pragma GCC unroll 14
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        if (m.accumulate)
          at[i][v] = Vector<S>{};
        else if (m.bias)
          at[i][v] = load(m.bias + v * kLanes<S>);
        else
          at[i][v] = m.row_bias ? Vector<S>{} + m.row_bias[i] : Vector<S>{};
      }
  }
  void finish(const Micro<T>& m) {
    const std::int64_t tail = m.columns - (V - 1) * kLanes<S>;
    if (m.accumulate) {
#pragma GCC unroll 14
      for (int i = 0; i < R; ++i) {
        const S* c = row_of(m, i);
#pragma GCC unroll 4
        for (int v = 0; v + 1 < V; ++v) at[i][v] += load(c + v * kLanes<S>);
        const S* last = c + (V - 1) * kLanes<S>;
        at[i][V - 1] += tail == kLanes<S> ? load(last) : load_partial(last, tail);
      }
    }
#pragma GCC unroll 14
    for (int i = 0; i < R; ++i) {
      S* c = row_of(m, i);
#pragma GCC unroll 4
      for (int v = 0; v + 1 < V; ++v) store(c + v * kLanes<S>, at[i][v]);
      if (tail == kLanes<S>)
        store(c + (V - 1) * kLanes<S>, at[i][V - 1]);
      else
        store_partial(c + (V - 1) * kLanes<S>, at[i][V - 1], tail);
    }
  }
};

/// The lines of rows that are read next, one at a time: hardware does not follow many short rows.
template <class T>
class NextRows {
 public:
  explicit NextRows(const Micro<T>& m)
      : at_(m.next_a), lines_((m.run + kLine - 1) / kLine), to_row_(m.a_step - lines_ * kLine) {}

  void fetch_line() {
    __builtin_prefetch(at_);
    at_ += kLine;
    if (--left_ > 0) return;
    at_ += to_row_;
    left_ = lines_;
  }

 private:
  static constexpr std::int64_t kLine = 64 / sizeof(T);
  const T* at_;
  std::int64_t lines_, to_row_, left_ = lines_;
};

template <class T, int R, int V, bool kAhead = false>
void micro_apart(const Micro<T>& m) {
  Accumulators<T, R, V> sums;
  sums.start(m);
  [[maybe_unused]] NextRows<T> next(m);
  const std::int64_t step = m.a_step, b_step = m.b_step, run = m.run;
  for (std::int64_t s1 = 0; s1 < m.segments[1]; ++s1) {
    const T* a = m.a + s1 * m.a_segment[1];
    const T* b0 = m.b + s1 * m.b_segment[1];
    for (std::int64_t s0 = 0; s0 < m.segments[0]; ++s0) {
      // A pointer for three rows: x86 reaches base + step and base + 2 step in one instruction.
      const T* p[(R + 2) / 3];
#pragma GCC unroll 5
      for (int g = 0; g < (R + 2) / 3; ++g) p[g] = a + 3 * g * step;
      const T* b = b0;
      for (std::int64_t k = 0; k < run; ++k) {
        if constexpr (kAhead) next.fetch_line();
        sums.add([&](int i) { return p[i / 3][(i % 3) * step]; }, b);
#pragma GCC unroll 5
        for (int g = 0; g < (R + 2) / 3; ++g) ++p[g];
        b += b_step;
      }
      a += m.a_segment[0];
      b0 += m.b_segment[0];
    }
  }
  sums.finish(m);
}

template <class T, int R, int V>
void micro_adjacent(const Micro<T>& m) {
  constexpr int kSums = unrolled_sums(R * V);
  Accumulators<T, R, V> sums[kSums];
  sums[0].start(m);
#pragma GCC unroll 4
  for (int u = 1; u < kSums; ++u) sums[u].clear();
  const std::int64_t step = m.a_step, b_step = m.b_step, run = m.run;
  for (std::int64_t s1 = 0; s1 < m.segments[1]; ++s1) {
    const T* a0 = m.a + s1 * m.a_segment[1];
    const T* b0 = m.b + s1 * m.b_segment[1];
    for (std::int64_t s0 = 0; s0 < m.segments[0]; ++s0) {
      const T* a = a0;
      const T* b = b0;
      std::int64_t k = 0;
      for (; k + kSums <= run; k += kSums) {
#pragma GCC unroll 4
        for (int u = 0; u < kSums; ++u) {
          sums[u].add([&](int i) { return a[i]; }, b);
          a += step;
          b += b_step;
        }
      }
      if constexpr (kSums > 1)
        for (; k < run; ++k) {
          sums[0].add([&](int i) { return a[i]; }, b);
          a += step;
          b += b_step;
        }
      a0 += m.a_segment[0];
      b0 += m.b_segment[0];
    }
  }
#pragma GCC unroll 4
  for (int u = 1; u < kSums; ++u) sums[0].add(sums[u]);
  sums[0].finish(m);
}

template <class T, int R, int V>
void micro_scattered(const Micro<T>& m) {
  Accumulators<T, R, V, true> sums;
  sums.start(m);
  const T* rows[R];
#pragma GCC unroll 14
  for (int i = 0; i < R; ++i) rows[i] = m.a_rows[i];
  const std::int64_t step = m.a_step, b_step = m.b_step, run = m.run;
  for (std::int64_t s1 = 0; s1 < m.segments[1]; ++s1) {
    std::int64_t a0 = s1 * m.a_segment[1];
    const T* b0 = m.b + s1 * m.b_segment[1];
    for (std::int64_t s0 = 0; s0 < m.segments[0]; ++s0) {
      const T* b = b0;
      std::int64_t a = a0;
      for (std::int64_t k = 0; k < run; ++k) {
        sums.add([&](int i) { return rows[i][a]; }, b);
        a += step;
        b += b_step;
      }
      a0 += m.a_segment[0];
      b0 += m.b_segment[0];
    }
  }
  sums.finish(m);
}

template <class T>
using MicroFn = void (*)(const Micro<T>&);

/// Null where the results do not fit into registers.
template <class T, int R, int V, MicroFn<T> kKernel>
constexpr MicroFn<T> fitting() {
  return R <= max_rows(V) ? kKernel : nullptr;
}

template <class T, int V, int... R>
constexpr std::array<MicroFn<T>, kMaxRows> scattered_of(std::integer_sequence<int, R...>) {
  return {fitting<T, R + 1, V, micro_scattered<T, std::min(R + 1, max_rows(V)), V>>()...};
}

template <class T, int V, int... R>
constexpr std::array<MicroFn<T>, kMaxRows> ahead_of(std::integer_sequence<int, R...>) {
  return {fitting<T, R + 1, V, micro_apart<T, std::min(R + 1, max_rows(V)), V, true>>()...};
}

template <class T, int V, int... R>
constexpr std::array<std::array<MicroFn<T>, kMaxRows>, 3> kernels_of(
    std::integer_sequence<int, R...>) {
  return {{{fitting<T, R + 1, V, micro_apart<T, std::min(R + 1, max_rows(V)), V>>()...},
           {fitting<T, R + 1, V, micro_adjacent<T, std::min(R + 1, max_rows(V)), V>>()...},
           scattered_of<T, V>(std::integer_sequence<int, R...>())}};
}

template <class T, int R, int J, bool kRowSums>
void dots(const Dots<T>& d) {
  Vector<T> sums[R][J], row_sums[R];
#pragma GCC unroll 3
  for (int i = 0; i < R; ++i) {
    row_sums[i] = Vector<T>{};
#pragma GCC unroll 9
    for (int j = 0; j < J; ++j) sums[i][j] = Vector<T>{};
  }
  const T* columns[J];
#pragma GCC unroll 9
  for (int j = 0; j < J; ++j) columns[j] = d.b[j];
  const std::int64_t step = d.a_step, run = d.run;
  for (std::int64_t s1 = 0; s1 < d.segments[1]; ++s1)
    for (std::int64_t s0 = 0; s0 < d.segments[0]; ++s0) {
      const T* a = d.a + s1 * d.a_segment[1] + s0 * d.a_segment[0];
      const std::int64_t b = s1 * d.b_segment[1] + s0 * d.b_segment[0];
      // Whole and partial vectors alike: rows are short, and a second loop would cost more.
      for (std::int64_t k = 0; k < run; k += kLanes<T>) {
        const std::int64_t count = std::min<std::int64_t>(kLanes<T>, run - k);
        Vector<T> left[R];
#pragma GCC unroll 3
        for (int i = 0; i < R; ++i) {
          left[i] = load_partial(a + k + i * step, count);
          if constexpr (kRowSums) row_sums[i] += left[i];
        }
#pragma GCC unroll 9
        for (int j = 0; j < J; ++j) {
          const Vector<T> right = load_partial(columns[j] + b + k, count);
#pragma GCC unroll 3
          for (int i = 0; i < R; ++i) add_products<T>(sums[i][j], left[i], right);
        }
      }
    }
#pragma GCC unroll 3
  for (int i = 0; i < R; ++i) {
    const auto put = [&](T& to, Vector<T> sum) {
      to = (d.accumulate ? to : T(0)) + sum_lanes<T>(sum);
    };
#pragma GCC unroll 9
    for (int j = 0; j < J; ++j) put(d.c[i * d.c_row + j * d.c_column], sums[i][j]);
    if constexpr (kRowSums) put(d.row_sums[i * d.c_row], row_sums[i]);
  }
}

template <class T>
using DotsFn = void (*)(const Dots<T>&);

template <class T, int R, bool kRowSums, int... J>
constexpr std::array<DotsFn<T>, sizeof...(J)> dots_of(std::integer_sequence<int, J...>) {
  return {dots<T, R, J + 1, kRowSums>...};
}

}  // namespace detail

/// What is rarely trained in has a third of the kernels: all rows are scattered ones, and rows of
/// dot products are short.
template <class T>
inline constexpr bool kFewKernels = std::is_same_v<T, double>;

template <class T>
void run_dots(const Dots<T>& d, int rows, int columns) {
  constexpr int kMost = kFewKernels<T> ? 3 : kDotColumns;
  using Count = std::make_integer_sequence<int, kMost>;
  static constexpr std::array<detail::DotsFn<T>, kMost> table[2][3] = {
      {detail::dots_of<T, 1, false>(Count()), detail::dots_of<T, 2, false>(Count()),
       detail::dots_of<T, 3, false>(Count())},
      {detail::dots_of<T, 1, true>(Count()), detail::dots_of<T, 2, true>(Count()),
       detail::dots_of<T, 3, true>(Count())}};
  Dots<T> part = d;
  for (int j = 0; j < columns; j += kMost) {
    part.b = d.b + j;
    part.c = d.c + j * d.c_column;
    part.row_sums = j == 0 ? d.row_sums : nullptr;
    table[part.row_sums ? 1 : 0][rows - 1]
         [static_cast<std::size_t>(std::min(columns - j, kMost) - 1)](part);
  }
}

template <class T>
void run_micro(const Micro<T>& m, int rows, int vectors, Rows layout) {
  using Count = std::make_integer_sequence<int, kMaxRows>;
  if constexpr (kFewKernels<T>) {
    static constexpr std::array<std::array<detail::MicroFn<T>, kMaxRows>, kMaxVectors> table{
        detail::scattered_of<T, 1>(Count()), detail::scattered_of<T, 2>(Count()),
        detail::scattered_of<T, 3>(Count()), detail::scattered_of<T, 4>(Count())};
    const auto run =
        table[static_cast<std::size_t>(vectors - 1)][static_cast<std::size_t>(rows - 1)];
    if (layout == Rows::scattered) return run(m);
    Micro<T> by_rows = m;
    const T* a_rows[kMaxRows];
    Sum<T>* c_rows[kMaxRows];
    for (int i = 0; i < rows; ++i) {
      a_rows[i] = m.a + (layout == Rows::adjacent ? i : i * m.a_step);
      c_rows[i] = m.c + i * m.c_step;
    }
    if (layout == Rows::apart) by_rows.a_step = 1;
    by_rows.a_rows = a_rows;
    by_rows.c_rows = c_rows;
    run(by_rows);
  } else {
    static constexpr std::array<std::array<std::array<detail::MicroFn<T>, kMaxRows>, 3>,
                                kMaxVectors>
        table{detail::kernels_of<T, 1>(Count()), detail::kernels_of<T, 2>(Count()),
              detail::kernels_of<T, 3>(Count()), detail::kernels_of<T, 4>(Count())};
    if constexpr (std::is_same_v<T, float>) {
      static constexpr std::array<std::array<detail::MicroFn<T>, kMaxRows>, 2> ahead{
          detail::ahead_of<T, 1>(Count()), detail::ahead_of<T, 2>(Count())};
      if (m.next_a && layout == Rows::apart && vectors <= 2)
        return ahead[static_cast<std::size_t>(vectors - 1)][static_cast<std::size_t>(rows - 1)](m);
    }
    table[static_cast<std::size_t>(vectors - 1)][static_cast<std::size_t>(layout)]
         [static_cast<std::size_t>(rows - 1)](m);
  }
}

}  // namespace ferrite::kernels::cpu
