// Loops along one axis of a dense view, such as that of the classes in a softmax. Either the
// elements along the axis are neighbours in memory (rows), or those of other positions are
// (columns). Both come in blocks that fit the first-level cache.
#pragma once

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/convert.h"
#include "ferrite/kernels/cpu/fold.h"
#include "ferrite/kernels/cpu/loops.h"
#include "ferrite/kernels/reduce_nest.h"

namespace ferrite::kernels::cpu {

/// Elements that a block of rows or columns buffers.
inline constexpr std::int64_t kAxisBlock = 1024;
/// Columns at a time.
inline constexpr std::int64_t kAxisColumns = 128;

/// `like` with one position where `dim` was: what ReduceNest takes for its output.
inline View one_position(const View& like, int dim) {
  View v = like;
  v.sizes[dim] = 1;
  return v;
}

/// A dense view as positions, each with `size` elements along the axis; `positions` (or
/// one_position()) gives the `out` offsets.
struct AxisLoop {
  AxisLoop(const View& in, const View& positions)
      : nest(positions, in), size(nest.count), stride(nest.reduced.inner().in) {}

  /// Whether a position's elements are neighbours. Then so are whole positions.
  bool rows() const { return stride == 1 || nest.outputs == 1; }
  /// Positions a chunk of threads takes; the cut depends on the sizes alone.
  std::int64_t grain() const {
    return std::max<std::int64_t>(rows() ? 1 : kAxisColumns,
                                  kElementGrain / 4 / std::max<std::int64_t>(1, size));
  }

  /// Calls body(chunk, in, out, n) for blocks of n rows (of at most kAxisBlock elements, or one
  /// row), or of n <= kAxisColumns columns. Chunk counts up in steps of grain().
  template <class Body>
  void run(Body&& body) const {
    const std::int64_t most =
        rows() ? std::max<std::int64_t>(1, kAxisBlock / std::max<std::int64_t>(1, size))
               : kAxisColumns;
    const auto& step = nest.kept.inner();
    parallel_for(nest.outputs, grain(), [&](std::int64_t begin, std::int64_t end) {
      for_each_piece(nest.kept, begin, end, [&](std::int64_t in, std::int64_t out, std::int64_t n) {
        for (std::int64_t i = 0; i < n; i += most)
          body(begin / grain(), in + i * step.in, out + i * step.out, std::min(most, n - i));
      });
    });
  }

  ReduceNest nest;
  std::int64_t size, stride;
};

/// y[i] = exp(x[i]); y may be x. Exact at NaN and the infinities; results below the normal range
/// are 0.
void exp_run(const float* x, float* y, std::int64_t n);
void exp_run(const double* x, double* y, std::int64_t n);
/// The sum of exp(x[i] - shift) over up to some thousand elements, which are also written to y,
/// unless that is null; y may be x.
float exp_sum(const float* x, float shift, std::int64_t n, float* y = nullptr);
double exp_sum(const double* x, double shift, std::int64_t n, double* y = nullptr);

}  // namespace ferrite::kernels::cpu
