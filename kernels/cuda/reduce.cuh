// The loops of all reductions, for a functor R:
//   Elem, Lane, Total       the types of an element, of the result of a thread or block, and of the
//                           result across blocks
//   Lane lane(), Total total()                    neutral elements
//   Lane step(Lane, Elem, index)                  adds the element with number `index` among those
//   reduced
//   Lane combine(Lane, Lane)
//   Total join(Total, Lane), join(Total, Total)
//   void store(offset, Total)                     writes a result
//
// Rows: the elements of an output are adjacent in memory; a few lanes, a warp or a block reduce
// them. Columns: outputs are adjacent, and adjacent lanes have adjacent outputs. Both load 16 bytes
// at a time if the strides allow it. Long reductions are split, and a second kernel joins the
// pieces in order.
#pragma once

#include <type_traits>

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/cuda/reduce_dims.cuh"
#include "ferrite/kernels/cuda/reduce_plan.h"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/reduce_nest.h"

namespace ferrite::kernels::cuda {

namespace detail {

/// A reduction in the form for the kernel.
struct ReduceTask {
  ReduceDims kept, reduced;  // the vectorised one of the two is in packs
  std::int64_t outputs;      // rows: outputs; columns: packs of them
  std::int64_t units;        // of an output: rows: packs; columns: elements
  std::int64_t segment;      // units per split
  std::int64_t out_step;     // columns: stride between the outputs of a pack
  int lanes;                 // threads per output
  int tail;                  // rows: elements of an output after its last pack
  bool rows;
};

/// Folds this block's segment, from unit `lane` on.
template <int V, class R, class T>
__device__ __forceinline__ void fold_segment(const R& r, typename R::Lane (&lanes)[V], const T* in,
                                             const ReduceTask& task, int lane) {
  constexpr int kUnroll = reduce_unroll(V);
  const std::int64_t begin = blockIdx.y * task.segment;
  const std::int64_t left = task.units - begin;
  const int size = static_cast<int>(left < task.segment ? left : task.segment);
  const bool flat = task.reduced.is_flat();
  const std::int64_t stride = task.reduced.in_step();
  // Element numbers: a pack holds V elements of a row, or one element of each of V columns.
  const int step = task.rows ? V : 1, next = task.rows ? 1 : 0;
  for (int first = lane; first < size; first += task.lanes * kUnroll) {
    Pack<T, V> x[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t i = begin + first + u * task.lanes;
      if (first + u * task.lanes < size)
        x[u] = load_pack<V>(in + (flat ? i * stride : task.reduced.offsets(i).in));
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t i = (begin + first + u * task.lanes) * step;
      if (first + u * task.lanes >= size) break;
#pragma unroll
      for (int v = 0; v < V; ++v)
        lanes[v] = r.step(lanes[v], static_cast<typename R::Elem>(x[u].v[v]), i + v * next);
    }
  }
}

template <class R>
__device__ __forceinline__ void keep(const R& r, typename R::Lane value, std::int64_t output,
                                     std::int64_t outputs, std::int64_t offset,
                                     typename R::Lane* partial) {
  if (partial)
    partial[blockIdx.y * outputs + output] = value;
  else
    r.store(offset, r.join(r.total(), value));
}

/// Grid: outputs by splits. `partial` ([splits, outputs], or null) receives the results that are to
/// be joined.
template <class R, class T, int V>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_elements(R r, const T* in, ReduceTask task, typename R::Lane* partial) {
  using Lane = typename R::Lane;
  const int thread = static_cast<int>(threadIdx.x);
  const int width = kReduceThreads / task.lanes;  // both powers of two
  const int lane = task.rows ? thread & (task.lanes - 1) : thread / width;
  const int column = task.rows ? thread / task.lanes : thread & (width - 1);
  const std::int64_t output = std::int64_t{blockIdx.x} * width + column;
  const bool valid = output < task.outputs;
  const ReduceDims::Offsets at = task.kept.offsets(valid ? output : 0);

  Lane lanes[V];
#pragma unroll
  for (int v = 0; v < V; ++v) lanes[v] = r.lane();
  if (valid) fold_segment<V>(r, lanes, in + at.in, task, lane);

  const auto combine = [&](const Lane& a, const Lane& b) { return r.combine(a, b); };
  if (task.rows) {
    // A short row may have fewer lanes than elements after its last pack.
    if (valid && blockIdx.y + 1 == gridDim.y)
      for (int t = lane; t < task.tail; t += task.lanes) {
        const std::int64_t i = task.units * V + t;
        lanes[0] = r.step(lanes[0], static_cast<typename R::Elem>(in[at.in + i]), i);
      }
    Lane value = lanes[0];
#pragma unroll
    for (int v = 1; v < V; ++v) value = r.combine(value, lanes[v]);
    value = task.lanes > kWarp ? block_reduce<kReduceThreads>(value, r.lane(), combine)
                               : group_reduce(value, task.lanes, combine);
    if (valid && lane == 0) keep(r, value, output, task.outputs, at.out, partial);
    return;
  }
  FERRITE_SHARED(tile, Lane[V][kReduceThreads]);
#pragma unroll
  for (int v = 0; v < V; ++v)
    lanes[v] = column_reduce<kReduceThreads>(lanes[v], tile[v], width, combine);
  if (valid && lane == 0) {
#pragma unroll
    for (int v = 0; v < V; ++v)
      keep(r, lanes[v], output * V + v, task.outputs * V, at.out + v * task.out_step, partial);
  }
}

/// Joins partial [splits, outputs].
template <class R>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_partials(R r, const typename R::Lane* partial, ReduceDims kept, std::int64_t outputs,
                    int splits, int lanes) {
  using Total = typename R::Total;
  const int width = kReduceThreads / lanes;
  const int column = static_cast<int>(threadIdx.x) & (width - 1);
  const std::int64_t output = std::int64_t{blockIdx.x} * width + column;
  Total total = r.total();
  if (output < outputs) {
#pragma unroll 8
    for (int s = static_cast<int>(threadIdx.x) / width; s < splits; s += lanes)
      total = r.join(total, partial[s * outputs + output]);
  }
  FERRITE_SHARED(tile, Total[kReduceThreads]);
  total = column_reduce<kReduceThreads>(
      total, tile, width, [&](const Total& a, const Total& b) { return r.join(a, b); });
  if (output < outputs && static_cast<int>(threadIdx.x) < width)
    r.store(kept.offsets(output).out, total);
}

/// Whether all packs start at multiples of their size, if the first element is aligned. The
/// innermost dimension of `vector` must then be a multiple of V, but for one that `tail` allows to
/// end early.
inline bool packs_fit(const ReduceNest::Dims& vector, const ReduceNest::Dims& other, int pack,
                      bool tail) {
  if (vector.inner().in != 1 || (vector.inner().size % pack != 0 && !tail)) return false;
  for (int d = 0; d + 1 < vector.n; ++d)
    if (vector.dims[static_cast<std::size_t>(d)].in % pack != 0) return false;
  for (int d = 0; d < other.n; ++d)
    if (other.dims[static_cast<std::size_t>(d)].in % pack != 0) return false;
  return true;
}

template <class R>
class Reduction {
  using Lane = typename R::Lane;

 public:
  Reduction(const Stream& stream, const char* name, const R& r, const ReduceNest& nest)
      : stream_(stream), name_(name), r_(r), nest_(nest) {}

  template <class T, int V>
  void run(const T* in) const {
    const bool rows = nest_.rows();
    const std::int64_t outputs = rows ? nest_.outputs : nest_.outputs / V;
    const std::int64_t units = rows ? nest_.count / V : nest_.count;
    const ReducePlan plan = rows ? plan_rows(outputs, units, reduce_unroll(V))
                                 : plan_columns(outputs, units, reduce_unroll(V));
    const ReduceTask task{.kept = ReduceDims(nest_.kept, rows ? 1 : V),
                          .reduced = ReduceDims(nest_.reduced, rows ? V : 1),
                          .outputs = outputs,
                          .units = units,
                          .segment = plan.segment,
                          .out_step = nest_.kept.inner().out,
                          .lanes = plan.lanes,
                          .tail = rows ? static_cast<int>(nest_.count % V) : 0,
                          .rows = rows};
    const dim3 grid(plan.blocks, static_cast<unsigned>(plan.splits));
    const auto reduce_into = [&](Lane* partial) {
      launch({name_, stream_, grid, kReduceThreads}, reduce_elements<R, T, V>, r_, in, task,
             partial);
    };
    if (plan.splits == 1) return reduce_into(nullptr);
    const Workspace partials(stream_,
                             static_cast<std::size_t>(nest_.outputs * plan.splits) * sizeof(Lane));
    reduce_into(partials.as<Lane>());
    const ReducePlan join = plan_partials(nest_.outputs, plan.splits);
    launch({name_, stream_, join.blocks, kReduceThreads}, reduce_partials<R>, r_,
           static_cast<const Lane*>(partials.as<Lane>()), ReduceDims(nest_.kept), nest_.outputs,
           plan.splits, join.lanes);
  }

 private:
  const Stream& stream_;
  const char* name_;
  const R& r_;
  const ReduceNest& nest_;
};

}  // namespace detail

/// The type of totals of E.
template <class E>
using TotalOf = std::conditional_t<std::is_floating_point_v<E>, double, std::int64_t>;

/// Calls f.operator()<T, E>(): the stored type and the type for the reduction.
template <class F>
void dispatch_reduced(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f.template operator()<float, float>();
    case DType::float16:
      return f.template operator()<Half, float>();
    case DType::bfloat16:
      return f.template operator()<BFloat16, float>();
    case DType::float64:
      return f.template operator()<double, double>();
    case DType::int64:
      return f.template operator()<std::int64_t, std::int64_t>();
    case DType::int32:
      return f.template operator()<std::int32_t, std::int64_t>();
    case DType::int16:
      return f.template operator()<std::int16_t, std::int64_t>();
    case DType::int8:
      return f.template operator()<std::int8_t, std::int64_t>();
    default:  // bool is stored as 0 or 1
      return f.template operator()<std::uint8_t, std::int64_t>();
  }
}

enum class Packs : std::uint8_t { where_possible, never };

/// Reduces elements of type T with `r`, over the dimensions where `out` has size 1 and `in` has
/// not. `packs`: whether to instantiate kernels that load 16 bytes at a time.
template <class T, Packs packs = Packs::where_possible, class R>
void run_reduction(const Stream& stream, const char* name, const R& r, const View& out,
                   const View& in) {
  const ReduceNest nest(out, in);
  if (nest.outputs == 0) return;
  const detail::Reduction<R> reduction(stream, name, r, nest);
  const T* const data = in.as<const T>();
  constexpr int kPack = packs == Packs::never ? 1 : useful_pack<T>();
  if constexpr (kPack > 1) {
    const bool fits = nest.rows()
                          ? detail::packs_fit(nest.reduced, nest.kept, kPack, nest.reduced.n == 1)
                          : detail::packs_fit(nest.kept, nest.reduced, kPack, false);
    if (fits && is_aligned(data, kPack)) return reduction.template run<T, kPack>(data);
  }
  reduction.template run<T, 1>(data);
}

}  // namespace ferrite::kernels::cuda
