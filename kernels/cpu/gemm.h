// The product of two matrices of floats, on several threads, without a library.
//
// After Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008): panels
// of b are packed for the inner kernel (kernels/cpu/micro.h), which reads a where it lies; once for
// all tasks that need them. The cut into tasks follows from the sizes alone, so that the bits do
// not depend on the number of threads.
#pragma once

#include <algorithm>
#include <vector>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/gemm_operands.h"
#include "ferrite/kernels/cpu/unary.h"

namespace ferrite::kernels::cpu {

namespace detail {

inline constexpr std::int64_t kDepth = 384;         // of a packed panel
inline constexpr std::int64_t kTaskColumns = 256;   // at most
inline constexpr std::int64_t kTaskWork = 1 << 18;  // multiplications worth a thread's while
/// From here on rows are cut rather than columns. With fewer registers a tile has fewer rows, and a
/// panel of b has to meet more of them each time that it is fetched.
inline constexpr std::int64_t kCutRows = kVectorRegisters >= 32 ? 28 : 112;
inline constexpr std::int64_t kMostTasks = 64;         // by work; more only where columns are many
inline constexpr std::int64_t kFewRows = 4;            // products that are bound by memory
inline constexpr std::int64_t kSplitDepth = 4096;      // from here on small results split the depth
inline constexpr std::int64_t kSharedBytes = 8 << 20;  // at most, of panels that tasks share
inline constexpr std::int64_t kNearBytes = 24 << 10;   // of the nearest cache, for a panel
inline constexpr std::int64_t kNearTiles = 8;          // of rows, that come from the next one

/// How a product is cut: results per task. Rows are cut first, into whole tiles of the inner
/// kernel: tasks share the panels of b, but each one packs its rows of a, where they must be, for
/// itself.
struct Tasks {
  std::int64_t rows, columns, across, count;
  Tasks(std::int64_t m, std::int64_t n, std::int64_t work) : columns(even_share(n, kTaskColumns)) {
    constexpr std::int64_t tile = max_rows(2);
    const std::int64_t wanted = std::clamp<std::int64_t>(work / kTaskWork, 1, kMostTasks);
    std::int64_t tiles = (m + tile - 1) / tile;
    for (;;) {
      rows = std::min(m, tiles * tile);
      across = (n - 1) / columns + 1;
      count = across * ((m - 1) / rows + 1);
      if (count >= wanted) break;
      if (rows >= kCutRows || (columns < 64 && rows >= 56))
        tiles = (tiles + 1) / 2;
      else if (columns >= 64)
        columns = (columns / 2 + 31) / 32 * 32;
      else
        break;
    }
  }
};

/// Applies the activation to `n` values that are the results from (i, j) on.
template <class Out, class T>
void activate_row(T* row, std::int64_t n, const Matrix<Out>& out, std::int64_t i, std::int64_t j,
                  const Epilogue& e) {
  if (e.before_activation) {
    auto* to =
        reinterpret_cast<Out*>(reinterpret_cast<std::byte*>(out.at(i, j)) + e.before_activation);
    for (std::int64_t c = 0; c < n; ++c) to[c * out.column_step] = static_cast<Out>(row[c]);
  }
  activation_block<T>(unary_op(e.activation))(row, row, n, T(0), T(0));
}

/// Does what follows the multiplication by alpha to `n` sums, and stores the results from (i, j)
/// on.
template <class S, class Out, class T>
void store_row(T* row, std::int64_t n, const Matrix<Out>& out, std::int64_t i, std::int64_t j,
               const Epilogue& e) {
  if (e.beta != 0)
    for (std::int64_t c = 0; c < n; ++c)
      row[c] += static_cast<T>(e.beta) * static_cast<T>(*out.at(i, j + c));
  if (e.bias) {
    const S* bias = static_cast<const S*>(e.bias) + i * e.bias_row_step + j * e.bias_column_step;
    for (std::int64_t c = 0; c < n; ++c) row[c] += static_cast<T>(bias[c * e.bias_column_step]);
  }
  if (e.activation != Activation::none) activate_row(row, n, out, i, j, e);
  for (std::int64_t c = 0; c < n; ++c) *out.at(i, j + c) = static_cast<Out>(row[c]);
}

template <class T>
void scale_row(T* row, std::int64_t n, double alpha) {
  if (alpha == 1) return;
  for (std::int64_t c = 0; c < n; ++c) row[c] *= static_cast<T>(alpha);
}

/// The columns of b that a task needs, cut into panels of two vectors, one of three where there are
/// no more, and into blocks of the depth: block after block, each of them panel after panel.
template <class A>
struct Panels {
  static constexpr std::int64_t lanes = kLanes<Sum<A>>;
  std::int64_t columns, depth, vectors, panel, block;

  Panels(std::int64_t n, std::int64_t elements)
      : columns(n),
        depth((elements + kElements<A> - 1) / kElements<A>),
        vectors((n + lanes - 1) / lanes),
        panel(vectors == 3 ? 3 : std::min<std::int64_t>(2, vectors)),
        block(even_share(depth, kDepth)) {}

  std::int64_t count() const { return (vectors + panel - 1) / panel; }
  std::int64_t size(std::int64_t of_depth) const { return of_depth * vectors * lanes; }
  std::int64_t run(std::int64_t k) const { return std::min(block, depth - k); }

  /// Block k of the panel from vector v on; `to` is where the block begins.
  template <class S>
  void pack(A* to, const Matrix<const S>& b, std::int64_t k, std::int64_t v, double alpha) const {
    const std::int64_t width = std::min(panel, vectors - v) * lanes;
    pack_right<A>(to + v * lanes * run(k), b, k, run(k), v * lanes,
                  std::min(width, columns - v * lanes), width, alpha);
  }
};

/// rows x columns results from (m, n), by one thread; `shared` are all panels of b, or null.
template <class A, class S, class Out, class T = Sum<A>>
void gemm_task(const Matrix<Out>& out, const Matrix<const S>& a, const Matrix<const S>& b,
               const Epilogue& e, const A* shared) {
  constexpr std::int64_t lanes = kLanes<T>;
  const std::int64_t rows = out.rows, columns = out.columns;
  const Panels<A> panels(columns, a.columns);
  const std::int64_t depth = panels.depth, vectors = panels.vectors, panel = panels.panel;
  const std::int64_t block = panels.block;
  const std::int64_t tile = even_share(rows, max_rows(static_cast<int>(panel)));

  const bool column_bias = e.bias && e.bias_column_step != 0;
  const bool direct = std::is_same_v<Out, T> && out.column_step == 1 && (!e.bias || column_bias);
  Scratch<T> own;
  if (!direct) own = Scratch<T>(rows * columns);
  T* const c = direct ? reinterpret_cast<T*>(out.data) : own.data();
  const std::int64_t c_step = direct ? out.row_step : columns;

  Scratch<T> bias;
  if (direct && e.bias) {
    bias = Scratch<T>(whole_vectors<T>(columns));
    for (std::int64_t j = 0; j < columns; ++j)
      bias.data()[j] = static_cast<T>(static_cast<const S*>(e.bias)[j * e.bias_column_step]);
  }
  if (direct && e.beta != 0 && (e.beta != 1 || e.bias))
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        T& value = c[i * c_step + j];
        value *= static_cast<T>(e.beta);
        if (e.bias) value += bias.data()[j];
      }

  Scratch<A> packed;
  if (!shared) packed = Scratch<A>(panels.size(block));
  // A panel of b that stays in the nearest cache meets several tiles of rows before the next one.
  const bool stays = block * panel * lanes * static_cast<std::int64_t>(sizeof(A)) <= kNearBytes;
  const std::int64_t tiles = stays ? kNearTiles : 1;
  const Left<A, S> left(a, tile, tiles, block);
  for (std::int64_t k = 0; k == 0 || k < depth; k += block) {
    const std::int64_t run = panels.run(k);
    const A* const right = shared ? shared + panels.size(k) : packed.data();
    if (!shared)
      for (std::int64_t v = 0; v < vectors; v += panel)
        panels.pack(packed.data(), b, k, v, e.alpha);
    for (std::int64_t first = 0; first < rows; first += tile * tiles) {
      const std::int64_t end = std::min(rows, first + tile * tiles);
      left.pack(first, end, k, run);
      for (std::int64_t v = 0; v < vectors; v += panel)
        for (std::int64_t i = first; i < end; i += tile) {
          const std::int64_t width = std::min(panel, vectors - v);
          Micro<A> m{.b = right + v * lanes * run,
                     .b_step = width * lanes,
                     .run = run,
                     .c = c + i * c_step + v * lanes,
                     .c_step = c_step,
                     .columns = std::min(width * lanes, columns - v * lanes),
                     .bias = direct && e.bias && e.beta == 0 ? bias.data() + v * lanes : nullptr,
                     .accumulate = k > 0 || (direct && e.beta != 0)};
          left.give(m, i, first, k, run);
          run_micro(m, static_cast<int>(std::min(tile, end - i)), static_cast<int>(width),
                    left.layout());
        }
    }
  }
  for (std::int64_t i = 0; i < rows; ++i)
    if (!direct) {
      if (kElements < A >> 1) scale_row(c + i * columns, columns, e.alpha);
      store_row<S>(c + i * columns, columns, out, i, 0, e);
    } else if (e.activation != Activation::none) {
      activate_row(c + i * c_step, columns, out, i, 0, e);
    }
}

/// The part of an epilogue that belongs to results from (row, column) on.
template <class S>
Epilogue at(Epilogue e, std::int64_t row, std::int64_t column) {
  if (e.bias)
    e.bias = static_cast<const S*>(e.bias) + row * e.bias_row_step + column * e.bias_column_step;
  return e;
}

template <class T>
T dot(const T* a, const T* b, std::int64_t n) {
  constexpr std::int64_t lanes = kLanes<T>;
  Vector<T> sums[4] = {};
  std::int64_t k = 0;
  for (; k + 4 * lanes <= n; k += 4 * lanes)
    for (int u = 0; u < 4; ++u) sums[u] += load(a + k + u * lanes) * load(b + k + u * lanes);
  for (; k < n; k += lanes) {
    const std::int64_t count = std::min(lanes, n - k);
    sums[0] += load_partial(a + k, count) * load_partial(b + k, count);
  }
  return sum_lanes<T>((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/// Few rows: every element of b is read for the few multiplications it takes part in, and packing
/// it would double the cost.
template <class T>
void few_rows(const Matrix<T>& out, const Matrix<const T>& a, const Matrix<const T>& b,
              const Epilogue& e) {
  const std::int64_t depth = a.columns;
  Scratch<T> packed;
  const T* left = a.data;
  std::int64_t left_step = a.row_step;
  if (a.column_step != 1) {
    packed = Scratch<T>(a.rows * depth);
    copy_matrix(packed.data(), depth, a.data, a.row_step, a.column_step, a.rows, depth);
    left = packed.data();
    left_step = depth;
  }
  const std::int64_t grain =
      std::max<std::int64_t>(64, kTaskWork / std::max<std::int64_t>(1, depth));
  parallel_for(out.columns, grain / 64 * 64, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t width = 4 * kLanes<T>;
    alignas(kVectorBytes) T result[kFewRows * width];
    for (std::int64_t j = begin; j < end; j += width) {
      const std::int64_t count = std::min(width, end - j);
      if (b.row_step == 1) {
        for (std::int64_t c = 0; c < count; ++c)
          for (std::int64_t i = 0; i < a.rows; ++i)
            result[i * width + c] = dot(left + i * left_step, b.at(0, j + c), depth);
      } else {
        Scratch<T> tail;
        Micro<T> m{.a_step = left_step,
                   .b = b.at(0, j),
                   .b_step = b.row_step,
                   .run = depth,
                   .c_step = width,
                   .columns = count};
        if (count < width) {
          m.b_step = whole_vectors<T>(count);
          tail = Scratch<T>(depth * m.b_step);
          m.b = tail.data();
          for (std::int64_t k = 0; k < depth; ++k) {
            T* to = std::copy_n(b.at(k, j), count, tail.data() + k * m.b_step);
            std::fill(to, tail.data() + (k + 1) * m.b_step, T(0));
          }
        }
        const int vectors = static_cast<int>(whole_vectors<T>(count) / kLanes<T>);
        for (std::int64_t i = 0; i < a.rows; i += max_rows(vectors)) {
          m.a = left + i * left_step;
          m.c = result + i * width;
          run_micro(m, static_cast<int>(std::min<std::int64_t>(max_rows(vectors), a.rows - i)),
                    vectors, Rows::apart);
        }
      }
      for (std::int64_t i = 0; i < a.rows; ++i) {
        T* row = result + i * width;
        for (std::int64_t c = 0; c < count; ++c) row[c] *= static_cast<T>(e.alpha);
        store_row<T>(row, count, out, i, j, e);
      }
    }
  });
}

/// All tasks of a product. Where several have the same columns, their panels are packed once, for
/// as many columns at a time as kSharedBytes hold.
template <class A, class S, class Out>
void run_tasks(const Matrix<Out>& out, const Matrix<const S>& a, const Matrix<const S>& b,
               const Epilogue& e, const Tasks& tasks) {
  const std::int64_t m = out.rows, n = out.columns, depth = a.columns;
  const std::int64_t down = (m - 1) / tasks.rows + 1;
  const auto columns_of = [&](std::int64_t across) {
    return std::min(tasks.columns, n - across * tasks.columns);
  };
  const auto right = [&](std::int64_t across) -> Matrix<const S> {
    return {b.at(0, across * tasks.columns), depth, columns_of(across), b.row_step, b.column_step};
  };
  const auto task = [&](std::int64_t across, std::int64_t row, const A* shared) {
    const std::int64_t i = row * tasks.rows, j = across * tasks.columns;
    const std::int64_t rows = std::min(tasks.rows, m - i);
    gemm_task<A, S>(
        Matrix<Out>{out.at(i, j), rows, columns_of(across), out.row_step, out.column_step},
        {a.at(i, 0), rows, depth, a.row_step, a.column_step}, right(across), at<S>(e, i, j),
        shared);
  };
  if (down == 1) {
    parallel_for(tasks.across, 1,
                 [&](std::int64_t across, std::int64_t) { task(across, 0, nullptr); });
    return;
  }
  const Panels<A> widest(tasks.columns, depth);
  const std::int64_t each = widest.size(widest.depth),
                     per_group = std::clamp<std::int64_t>(
                         kSharedBytes /
                             std::max<std::int64_t>(1, each * static_cast<std::int64_t>(sizeof(A))),
                         1, tasks.across);
  const Scratch<A> shared(per_group * each);
  for (std::int64_t first = 0; first < tasks.across; first += per_group) {
    const std::int64_t count = std::min(per_group, tasks.across - first);
    parallel_for(count * widest.count(), 1, [&](std::int64_t p, std::int64_t) {
      const std::int64_t across = p / widest.count();
      const Panels<A> panels(columns_of(first + across), depth);
      const std::int64_t v = p % widest.count() * panels.panel;
      for (std::int64_t k = 0; v < panels.vectors && k < panels.depth; k += panels.block)
        panels.pack(shared.data() + across * each + panels.size(k), right(first + across), k, v,
                    e.alpha);
    });
    parallel_for(count * down, 1, [&](std::int64_t p, std::int64_t) {
      task(first + p / down, p % down, shared.data() + p / down * each);
    });
  }
}

}  // namespace detail

/// By products of type A, in float32 of 16-bit types or Pair.
template <class A, class S, class Out>
void gemm(const Matrix<Out>& out, const Matrix<const S>& a, const Matrix<const S>& b,
          const Epilogue& e) {
  using namespace detail;
  using T = Sum<A>;
  const std::int64_t m = out.rows, n = out.columns, depth = a.columns;
  if (m == 0 || n == 0) return;
  const std::int64_t work = m * n * std::max<std::int64_t>(1, depth);

  // Rows of the result that are contiguous, or few rows rather than few columns.
  const bool rows_contiguous = out.column_step == 1 || n == 1;
  const bool few = m <= kFewRows || n <= kFewRows;
  if (few ? n < m : (!rows_contiguous && out.row_step == 1)) {
    Epilogue swapped = e;
    std::swap(swapped.bias_row_step, swapped.bias_column_step);
    return gemm<A, S>(out.transposed(), b.transposed(), a.transposed(), swapped);
  }

  const Tasks tasks(m, n, work);
  if (depth >= kSplitDepth && tasks.count * kTaskWork * 4 <= work) {
    const std::int64_t span = even_share(depth, std::max(kSplitDepth / 4, (depth + 15) / 16));
    const std::int64_t parts = (depth - 1) / span + 1;
    const bool scaled_last = kElements<A> > 1;
    const Scratch<T> partial(parts * m * n);
    parallel_for(parts, 1, [&](std::int64_t p, std::int64_t) {
      const std::int64_t k = p * span, count = std::min(span, depth - k);
      gemm<A, S>(Matrix<T>{partial.data() + p * m * n, m, n, n, 1},
                 {a.at(0, k), m, count, a.row_step, a.column_step},
                 {b.at(k, 0), count, n, b.row_step, b.column_step},
                 Epilogue(scaled_last ? 1 : e.alpha));
    });
    for (std::int64_t i = 0; i < m; ++i) {
      T* row = partial.data() + i * n;
      for (std::int64_t p = 1; p < parts; ++p)
        for (std::int64_t j = 0; j < n; ++j) row[j] += partial.data()[(p * m + i) * n + j];
      if (scaled_last) scale_row(row, n, e.alpha);
      store_row<S>(row, n, out, i, 0, e);
    }
    return;
  }
  if constexpr (std::is_same_v<S, T>)
    if (m <= kFewRows && (b.row_step == 1 || b.column_step == 1)) return few_rows(out, a, b, e);

  run_tasks<A>(out, a, b, e, tasks);
}

}  // namespace ferrite::kernels::cpu
