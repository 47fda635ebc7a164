// Scans. Long rows are cut into segments: the first kernel joins each segment into one state, the
// second computes the state of all earlier segments, and the third scans each segment from there.
// Short rows need only the third.
#include <algorithm>

#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/reduce.cuh"
#include "ferrite/kernels/order.h"
#include "ferrite/kernels/scan.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kScanThreads = 256;
constexpr int kScanItems = 8;  // elements of a thread
constexpr int kScanTile = kScanThreads * kScanItems;

/// The type in which elements of type T are read.
template <class T>
using ElementOf = std::conditional_t<is_floating_type<T>, Compute<T>, std::int64_t>;

/// A scan by F of elements of type T.
template <class T, class F>
struct Scan {
  using State = typename F::State;
  using Out = std::conditional_t<is_floating_type<T> && !F::kGivesIndex, T, std::int64_t>;
  const T* in;
  Out* out;
  ReduceDims positions;
  std::int64_t count;  // of positions
  std::int64_t size, in_step, out_step;
  std::int64_t segments, length;
  /// [segments, positions]: first the state of each segment, later that of all earlier segments.
  /// Null if there is one segment.
  State* states;
  bool states_only;

  __device__ std::int64_t end_of(std::int64_t segment) const {
    const std::int64_t end = (segment + 1) * length;
    return end < size ? end : size;
  }
  /// Element `i` of the position whose first element is at `start`.
  __device__ State load(std::int64_t start, std::int64_t i) const {
    return F::of(static_cast<ElementOf<T>>(in[start + i * in_step]), i);
  }
  __device__ void store(std::int64_t at, const State& state) const {
    if constexpr (std::is_same_v<Out, T> && is_half_type<T>)
      out[at] = T(static_cast<float>(F::result(state)));
    else
      out[at] = static_cast<Out>(F::result(state));
  }
};

/// One block per segment of a position whose elements are neighbours.
template <class T, class F>
__global__ void __launch_bounds__(kScanThreads) scan_rows(Scan<T, F> s) {
  using State = typename F::State;
  // Each thread has consecutive elements; one word of padding between threads avoids bank
  // conflicts.
  FERRITE_SHARED(tile, State[kScanTile + kScanThreads]);
  const auto slot = [](int i) { return i + i / kScanItems; };
  const std::int64_t position = blockIdx.x / s.segments, segment = blockIdx.x % s.segments;
  const ReduceDims::Offsets at = s.positions.offsets(position);
  const std::int64_t end = s.end_of(segment);
  State* const own = s.states ? s.states + segment * s.count + position : nullptr;
  State carry = own && !s.states_only ? *own : F::identity();
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t first = segment * s.length; first < end; first += kScanTile) {
    const int n = static_cast<int>(end - first < kScanTile ? end - first : kScanTile);
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) {
      const int i = k * kScanThreads + thread;
      tile[slot(i)] = i < n ? s.load(at.in, first + i) : F::identity();
    }
    __syncthreads();
    State state = F::identity();
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) {
      const int i = slot(thread * kScanItems + k);
      tile[i] = state = F()(state, tile[i]);
    }
    State total;
    const State before = F()(carry, block_scan<kScanThreads>(state, F::identity(), F(), total));
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) {
      const int i = slot(thread * kScanItems + k);
      tile[i] = F()(before, tile[i]);
    }
    carry = F()(carry, total);
    __syncthreads();
    if (!s.states_only) {
#pragma unroll
      for (int k = 0; k < kScanItems; ++k) {
        const int i = k * kScanThreads + thread;
        if (i < n) s.store(at.out + (first + i) * s.out_step, tile[slot(i)]);
      }
    }
    __syncthreads();
  }
  if (s.states_only && thread == 0) *own = carry;
}

/// One thread per segment of a position; neighbouring threads have neighbouring positions.
template <class T, class F>
__global__ void __launch_bounds__(kScanThreads) scan_columns(Scan<T, F> s) {
  using State = typename F::State;
  const std::int64_t i = std::int64_t{blockIdx.x} * kScanThreads + threadIdx.x;
  if (i >= s.count * s.segments) return;
  const std::int64_t segment = i / s.count;
  const ReduceDims::Offsets at = s.positions.offsets(i % s.count);
  const std::int64_t end = s.end_of(segment);
  State state = s.states && !s.states_only ? s.states[i] : F::identity();
  for (std::int64_t first = segment * s.length; first < end; first += 4) {
    State x[4];
#pragma unroll
    for (int u = 0; u < 4; ++u) x[u] = first + u < end ? s.load(at.in, first + u) : F::identity();
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      state = F()(state, x[u]);
      if (!s.states_only && first + u < end) s.store(at.out + (first + u) * s.out_step, state);
    }
  }
  if (s.states_only) s.states[i] = state;
}

/// Replaces each state in [segments, positions] by that of all earlier segments; one block per
/// position.
template <class F, class State = typename F::State>
__global__ void __launch_bounds__(kScanThreads)
    scan_segments(State* states, std::int64_t segments) {
  const std::int64_t position = blockIdx.x, positions = gridDim.x;
  State carry = F::identity();
  for (std::int64_t first = 0; first < segments; first += kScanThreads) {
    const std::int64_t s = first + threadIdx.x;
    State* const state = states + s * positions + position;
    State total;
    const State before =
        block_scan<kScanThreads>(s < segments ? *state : F::identity(), F::identity(), F(), total);
    if (s < segments) *state = F()(carry, before);
    carry = F()(carry, total);
  }
}

template <class T, class F>
void run(const Stream& stream, const View& out, const View& in, int dim) {
  using State = typename F::State;
  View place = out;  // one element a position
  place.sizes[dim] = 1;
  const ReduceNest nest(place, in);
  const std::int64_t size = in.sizes[dim], count = nest.outputs;
  const bool rows = size > 64 && (count == 1 || in.strides[dim] < nest.kept.inner().in);

  // Enough segments to keep the device busy, each long enough to pay for its overhead.
  const std::int64_t wanted = rows ? 1024 : 65536, shortest = rows ? 2 * kScanTile : 64;
  const std::int64_t most = std::clamp<std::int64_t>((wanted + count - 1) / count, 1,
                                                     std::max<std::int64_t>(1, size / shortest));
  const std::int64_t length = (size + most - 1) / most;
  Scan<T, F> scan{.in = in.as<const T>(),
                  .out = out.as<typename Scan<T, F>::Out>(),
                  .positions = ReduceDims(nest.kept),
                  .count = count,
                  .size = size,
                  .in_step = in.strides[dim],
                  .out_step = out.strides[dim],
                  .segments = (size + length - 1) / length,
                  .length = length,
                  .states = nullptr,
                  .states_only = false};
  const std::int64_t tasks = count * scan.segments;
  const auto scan_all = [&] {
    if (rows)
      launch({"scan", stream, static_cast<unsigned>(tasks), kScanThreads}, scan_rows<T, F>, scan);
    else
      launch({"scan", stream, blocks_for(tasks, kScanThreads), kScanThreads}, scan_columns<T, F>,
             scan);
  };
  if (scan.segments == 1) return scan_all();
  const Workspace states(stream, static_cast<std::size_t>(tasks) * sizeof(State));
  scan.states = states.as<State>();
  scan.states_only = true;
  scan_all();
  launch({"scan of segments", stream, static_cast<unsigned>(count), kScanThreads}, scan_segments<F>,
         scan.states, scan.segments);
  scan.states_only = false;
  scan_all();
}

template <class T>
void scan_as(const Stream& stream, ScanOp op, const View& out, const View& in, int dim) {
  switch (op) {
    case ScanOp::prod:
      return run<T, ProductScan<T>>(stream, out, in, dim);
    case ScanOp::argmax:
      return run<T, ExtremumScan<T, true>>(stream, out, in, dim);
    case ScanOp::argmin:
      return run<T, ExtremumScan<T, false>>(stream, out, in, dim);
    default:
      if constexpr (is_floating_type<T>) return run<T, LogSumScan<T>>(stream, out, in, dim);
  }
}

}  // namespace

void scan(const Stream& stream, ScanOp op, const View& out, const View& in, int dim) {
  if (in.numel == 0) return;
  if (op == ScanOp::sum)
    return dispatch_reduced(
        in.dtype, [&]<class T, class E>() { run<T, SumScan<ElementOf<T>>>(stream, out, in, dim); });
  dispatch_types<float, double, std::int64_t>(
      in.dtype, "scan", [&]<class T>() { scan_as<T>(stream, op, out, in, dim); });
}

}  // namespace ferrite::kernels::cuda
