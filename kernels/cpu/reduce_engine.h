// The loops of all reductions, over functions F:
//   Elem           what elements are read as: float, double or int64
//   Lane           what some hundred elements are folded into; lanes lie side by side and vectorise
//   Total          double or int64: what lanes are added up in
//   Lane lane(), Total total()             neutral elements
//   Lane step(Lane, Elem)                  takes an element in
//   Lane combine(Lane, Lane), Total join(Total, Total)
//   Total finish(Total)
//
// A step() that takes vectors as well as numbers is what combine() does, too.
//
// Long reductions are cut into segments by size alone, and their totals joined in order: the result
// does not depend on the number of threads. Folding few elements into a float lane before it
// goes into a double total keeps the relative error of float32 sums near 1e-6 at any length.
#pragma once

#include <vector>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/convert.h"
#include "ferrite/kernels/cpu/fold.h"
#include "ferrite/kernels/cpu/loops.h"
#include "ferrite/kernels/reduce.h"
#include "ferrite/kernels/reduce_nest.h"

namespace ferrite::kernels::cpu {

template <class F>
class ReduceEngine {
  using Elem = typename F::Elem;
  using Lane = typename F::Lane;
  using Total = typename F::Total;

  static constexpr std::int64_t kLanes = kFoldLanes;  // side by side in a row
  static constexpr std::int64_t kColumns = 256;       // side by side in a tile of columns
  static constexpr std::int64_t kChunk = 1024;        // elements read at a time
  static constexpr std::int64_t kSteps = 128;         // elements a lane takes in
  static constexpr std::int64_t kSegment = 65536;     // elements of one task
  static constexpr std::int64_t kMaxSegments = 64;    // of one column tile

 public:
  ReduceEngine(const F& f, const View& out, const View& in)
      : f_(f), nest_(out, in), in_(in.data, in.dtype), out_(out) {}

  void run() const {
    if (nest_.outputs == 0) return;
    nest_.rows() ? run_rows() : run_columns();
  }

 private:
  // ---- Rows: the elements of an output are neighbours.

  void run_rows() const {
    const std::int64_t segments = std::max<std::int64_t>(1, (nest_.count - 1) / kSegment + 1);
    const std::int64_t work = std::max<std::int64_t>(1, std::min(nest_.count, kSegment));
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / work);
    if (segments == 1) {
      parallel_for(nest_.outputs, grain, [&](std::int64_t begin, std::int64_t end) {
        for_each_piece(nest_.kept, begin, end, [&](auto in, auto out, std::int64_t n) {
          Total batch[kColumns];
          const auto& kept = nest_.kept.inner();
          for (std::int64_t i = 0; i < n; i += kColumns) {
            const std::int64_t m = std::min(kColumns, n - i);
            for (std::int64_t j = 0; j < m; ++j)
              batch[j] = row(in + (i + j) * kept.in, 0, nest_.count);
            store(out + i * kept.out, batch, m);
          }
        });
      });
      return;
    }
    std::vector<Total> totals(static_cast<std::size_t>(nest_.outputs * segments));
    parallel_for(nest_.outputs * segments, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t o = task / segments, first = task % segments * kSegment;
        for_each_piece(nest_.kept, o, o + 1, [&](auto in, auto, auto) {
          totals[static_cast<std::size_t>(task)] =
              row(in, first, std::min(first + kSegment, nest_.count));
        });
      }
    });
    const Total* from = totals.data();
    for_each_piece(nest_.kept, 0, nest_.outputs, [&](auto, auto out, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i, from += segments) {
        Total total = f_.total();
        for (std::int64_t s = 0; s < segments; ++s) total = f_.join(total, from[s]);
        store(out + i * nest_.kept.inner().out, total);
      }
    });
  }

  /// Reduces the elements [begin, end) of the output whose first element is at `base`.
  Total row(std::int64_t base, std::int64_t begin, std::int64_t end) const {
    const std::int64_t stride = nest_.reduced.inner().in;
    Elem buffer[kChunk];
    if (nest_.reduced.n == 1 && end - begin <= kChunk)
      return f_.join(f_.total(), fold(in_.read(base + begin * stride, stride, end - begin, buffer),
                                      end - begin));
    Lane lanes[kLanes];
    std::fill_n(lanes, kLanes, f_.lane());
    Total total = f_.total();
    std::int64_t steps = 0;
    for_each_piece(nest_.reduced, begin, end, [&](std::int64_t at, auto, std::int64_t n) {
      for (std::int64_t done = 0; done < n; done += kChunk) {
        const std::int64_t length = std::min(kChunk, n - done);
        const Elem* x = in_.read(base + at + done * stride, stride, length, buffer);
        if (length == kChunk) {
          total = f_.join(total, fold(x, length));
          continue;
        }
        take(lanes, x, length);
        steps += (length - 1) / kLanes + 1;
        if (steps >= kSteps) flush(lanes, total), steps = 0;
      }
    });
    flush(lanes, total);
    return total;
  }

  /// At most kChunk neighbours, without a way through memory.
  Total fold(const Elem* x, std::int64_t n) const {
    if constexpr (std::is_floating_point_v<Elem> &&
                  requires(const F& f, Vector<Elem> v) { f.step(v, v); })
      return static_cast<Total>(fold_run(
          x, n, f_.lane(), [this](const auto& a, const auto& b) { return f_.step(a, b); }));
    Lane lanes[kLanes];
    std::fill_n(lanes, kLanes, f_.lane());
    const std::int64_t whole = n / kLanes * kLanes;
    take(lanes, x, whole);
    return static_cast<Total>(fold_halves(
        lanes, x + whole, n, [this](Lane a, Elem e) { return f_.step(a, e); },
        [this](Lane a, Lane b) { return f_.combine(a, b); }));
  }

  void take(Lane* lanes, const Elem* x, std::int64_t n) const {
    std::int64_t i = 0;
    if (n >= kLanes) {
      Lane local[kLanes];  // stays in registers
      std::copy_n(lanes, kLanes, local);
      for (; i + kLanes <= n; i += kLanes)
        for (std::int64_t j = 0; j < kLanes; ++j) local[j] = f_.step(local[j], x[i + j]);
      std::copy_n(local, kLanes, lanes);
    }
    for (std::int64_t j = 0; i + j < n; ++j) lanes[j] = f_.step(lanes[j], x[i + j]);
  }

  void flush(Lane* lanes, Total& total) const {
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2)
      for (std::int64_t j = 0; j < half; ++j) lanes[j] = f_.combine(lanes[j], lanes[j + half]);
    total = f_.join(total, static_cast<Total>(lanes[0]));
    std::fill_n(lanes, kLanes, f_.lane());
  }

  // ---- Columns: neighbours belong to different outputs.

  void run_columns() const {
    const auto& inner = nest_.kept.inner();
    const std::int64_t tiles = (inner.size - 1) / kColumns + 1;
    const std::int64_t width = std::min(inner.size, kColumns);
    const std::int64_t segment =
        std::max({kSegment / width, (nest_.count - 1) / kMaxSegments + 1, std::int64_t{1}});
    const std::int64_t segments = std::max<std::int64_t>(1, (nest_.count - 1) / segment + 1);
    const std::int64_t tasks = nest_.outputs / inner.size * tiles * segments;
    const std::int64_t work = width * std::max<std::int64_t>(1, std::min(segment, nest_.count));
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / work);
    std::vector<Total> totals(segments == 1 ? 0 : static_cast<std::size_t>(tasks * kColumns));
    const auto first_of = [&](std::int64_t tile) { return tile / tiles * inner.size; };
    parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
      Total local[kColumns];
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t tile = task / segments, first = task % segments * segment;
        const std::int64_t column = tile % tiles * kColumns;
        const std::int64_t n = std::min(kColumns, inner.size - column);
        Total* to = segments == 1 ? local : totals.data() + task * kColumns;
        for_each_piece(nest_.kept, first_of(tile), first_of(tile) + 1,
                       [&](std::int64_t in, std::int64_t out, auto) {
                         columns(in + column * inner.in, n, first,
                                 std::min(first + segment, nest_.count), to);
                         if (segments == 1) store(out + column * inner.out, to, n);
                       });
      }
    });
    if (segments == 1) return;
    Total sum[kColumns];
    for (std::int64_t tile = 0; tile < tasks / segments; ++tile) {
      const std::int64_t column = tile % tiles * kColumns;
      const std::int64_t n = std::min(kColumns, inner.size - column);
      std::fill_n(sum, n, f_.total());
      for (std::int64_t s = 0; s < segments; ++s) {
        const Total* from = totals.data() + (tile * segments + s) * kColumns;
        for (std::int64_t j = 0; j < n; ++j) sum[j] = f_.join(sum[j], from[j]);
      }
      for_each_piece(
          nest_.kept, first_of(tile), first_of(tile) + 1,
          [&](auto, std::int64_t out, auto) { store(out + column * inner.out, sum, n); });
    }
  }

  /// Reduces the rows [begin, end) of the `n` columns from `base` on into `totals`.
  void columns(std::int64_t base, std::int64_t n, std::int64_t begin, std::int64_t end,
               Total* totals) const {
    const std::int64_t stride = nest_.kept.inner().in, step = nest_.reduced.inner().in;
    // Rows that follow each other without a gap are taken several at a time, as one wide row.
    const std::int64_t wide = stride == 1 && step == n ? kColumns / n : 1;
    Lane lanes[kColumns];
    std::fill_n(lanes, wide * n, f_.lane());
    std::fill_n(totals, n, f_.total());
    std::int64_t steps = 0;
    const auto flush_columns = [&] {
      for (std::int64_t g = 0; g < wide; ++g)
        for (std::int64_t j = 0; j < n; ++j)
          totals[j] = f_.join(totals[j], static_cast<Total>(lanes[g * n + j]));
      std::fill_n(lanes, wide * n, f_.lane());
      steps = 0;
    };
    for_each_piece(nest_.reduced, begin, end, [&](std::int64_t at, auto, std::int64_t rows) {
      std::int64_t r = 0;
      while (r < rows) {
        const bool whole = rows - r >= wide;
        const std::int64_t width = whole ? wide * n : n;
        const std::int64_t hop = whole ? wide : 1;
        const std::int64_t passes = std::min(whole ? (rows - r) / wide : rows - r, kSteps - steps);
        take_rows(lanes, base + at + r * step, width, stride, hop * step, passes);
        r += passes * hop;
        steps += passes;
        if (steps == kSteps) flush_columns();
      }
    });
    flush_columns();
  }

  void take_rows(Lane* lanes, std::int64_t at, std::int64_t width, std::int64_t stride,
                 std::int64_t step, std::int64_t rows) const {
    std::int64_t r = 0;
    if (in_.direct(stride)) {
      const Elem* x = in_.data() + at;
      for (; r + 4 <= rows; r += 4, x += 4 * step) {
        const Elem *x1 = x + step, *x2 = x1 + step, *x3 = x2 + step;
#pragma GCC ivdep
        for (std::int64_t j = 0; j < width; ++j)
          lanes[j] = f_.step(f_.step(f_.step(f_.step(lanes[j], x[j]), x1[j]), x2[j]), x3[j]);
      }
    }
    Elem buffer[kColumns];
    for (; r < rows; ++r) {
      const Elem* x = in_.read(at + r * step, stride, width, buffer);
#pragma GCC ivdep
      for (std::int64_t j = 0; j < width; ++j) lanes[j] = f_.step(lanes[j], x[j]);
    }
  }

  // ---- Results

  void store(std::int64_t offset, const Total* totals, std::int64_t n) const {
    Total results[kColumns];
    for (std::int64_t j = 0; j < n; ++j) results[j] = f_.finish(totals[j]);
    store_run(out_.as<char>() + offset * static_cast<std::int64_t>(itemsize(out_.dtype)),
              out_.dtype, nest_.kept.inner().out, results, n);
  }
  void store(std::int64_t offset, Total total) const { store(offset, &total, 1); }

  F f_;
  ReduceNest nest_;
  RunReader<Elem> in_;
  View out_;
};

template <class F>
void run_reduction(const F& f, const View& out, const View& in) {
  ReduceEngine<F>(f, out, in).run();
}

/// What totals of E are kept in.
template <class E>
using TotalOf = std::conditional_t<std::is_floating_point_v<E>, double, std::int64_t>;

// The parts of reduce(), a translation unit each.
void reduce_sum(const View& out, const View& in, bool mean);
void reduce_prod(const View& out, const View& in);
void reduce_extremum(const View& out, const View& in, bool max);
void reduce_count(ReduceOp op, const View& out, const View& in);
void reduce_norm(const View& out, const View& in, double p);

}  // namespace ferrite::kernels::cpu
