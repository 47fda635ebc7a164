// Running sums. Long rows are cut into segments: the first kernel sums each segment, the second
// computes the sum of all earlier segments, and the third scans each segment from there. Short rows
// need only the third.
#include <algorithm>

#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/reduce.cuh"
#include "ferrite/kernels/order.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kCumsumThreads = 256;
constexpr int kCumsumItems = 8;  // elements of a thread
constexpr int kCumsumTile = kCumsumThreads * kCumsumItems;

/// float32 is summed in double; integers wrap around.
template <class T>
using SumOf = std::conditional_t<is_floating_type<T>, double, std::uint64_t>;
template <class T>
using ResultOf = std::conditional_t<is_floating_type<T>, T, std::int64_t>;

template <class T>
struct Scan {
  const T* in;
  ResultOf<T>* out;
  ReduceDims positions;
  std::int64_t count;  // of positions
  std::int64_t size, in_step, out_step;
  std::int64_t segments, length;
  /// [segments, positions]: first the sum of each segment, later that of all earlier segments. Null
  /// if there is one segment.
  SumOf<T>* sums;
  bool sums_only;

  __device__ std::int64_t end_of(std::int64_t segment) const {
    const std::int64_t end = (segment + 1) * length;
    return end < size ? end : size;
  }
  __device__ SumOf<T> load(std::int64_t at) const {
    return static_cast<SumOf<T>>(static_cast<Compute<T>>(in[at]));
  }
  __device__ void store(std::int64_t at, SumOf<T> sum) const {
    if constexpr (is_half_type<T>)
      out[at] = T(static_cast<float>(sum));
    else
      out[at] = static_cast<ResultOf<T>>(sum);
  }
};

/// One block per segment of a position whose elements are neighbours.
template <class T>
__global__ void __launch_bounds__(kCumsumThreads) scan_rows(Scan<T> s) {
  using Sum = SumOf<T>;
  // Each thread has consecutive elements; one word of padding between threads avoids bank
  // conflicts.
  FERRITE_SHARED(tile, Sum[kCumsumTile + kCumsumThreads]);
  const auto slot = [](int i) { return i + i / kCumsumItems; };
  const std::int64_t position = blockIdx.x / s.segments, segment = blockIdx.x % s.segments;
  const ReduceDims::Offsets at = s.positions.offsets(position);
  const std::int64_t end = s.end_of(segment);
  Sum* const own = s.sums ? s.sums + segment * s.count + position : nullptr;
  Sum carry = own && !s.sums_only ? *own : Sum(0);
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t first = segment * s.length; first < end; first += kCumsumTile) {
    const int n = static_cast<int>(end - first < kCumsumTile ? end - first : kCumsumTile);
#pragma unroll
    for (int k = 0; k < kCumsumItems; ++k) {
      const int i = k * kCumsumThreads + thread;
      tile[slot(i)] = i < n ? s.load(at.in + (first + i) * s.in_step) : Sum(0);
    }
    __syncthreads();
    Sum sum = 0;
#pragma unroll
    for (int k = 0; k < kCumsumItems; ++k) {
      const int i = slot(thread * kCumsumItems + k);
      tile[i] = sum += tile[i];
    }
    Sum total;
    const Sum before = carry + block_scan<kCumsumThreads>(sum, Sum(0), Add(), total);
#pragma unroll
    for (int k = 0; k < kCumsumItems; ++k) tile[slot(thread * kCumsumItems + k)] += before;
    carry += total;
    __syncthreads();
    if (!s.sums_only) {
#pragma unroll
      for (int k = 0; k < kCumsumItems; ++k) {
        const int i = k * kCumsumThreads + thread;
        if (i < n) s.store(at.out + (first + i) * s.out_step, tile[slot(i)]);
      }
    }
    __syncthreads();
  }
  if (s.sums_only && thread == 0) *own = carry;
}

/// One thread per segment of a position; neighbouring threads have neighbouring positions.
template <class T>
__global__ void __launch_bounds__(kCumsumThreads) scan_columns(Scan<T> s) {
  using Sum = SumOf<T>;
  const std::int64_t i = std::int64_t{blockIdx.x} * kCumsumThreads + threadIdx.x;
  if (i >= s.count * s.segments) return;
  const std::int64_t segment = i / s.count;
  const ReduceDims::Offsets at = s.positions.offsets(i % s.count);
  const std::int64_t end = s.end_of(segment);
  Sum sum = s.sums && !s.sums_only ? s.sums[i] : Sum(0);
  for (std::int64_t first = segment * s.length; first < end; first += 4) {
    Sum x[4];
#pragma unroll
    for (int u = 0; u < 4; ++u)
      x[u] = first + u < end ? s.load(at.in + (first + u) * s.in_step) : Sum(0);
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      sum += x[u];
      if (!s.sums_only && first + u < end) s.store(at.out + (first + u) * s.out_step, sum);
    }
  }
  if (s.sums_only) s.sums[i] = sum;
}

/// Replaces each sum in [segments, positions] by the sum of all earlier segments; one block per
/// position.
template <class Sum>
__global__ void __launch_bounds__(kCumsumThreads) scan_sums(Sum* sums, std::int64_t segments) {
  const std::int64_t position = blockIdx.x, positions = gridDim.x;
  Sum carry = 0;
  for (std::int64_t first = 0; first < segments; first += kCumsumThreads) {
    const std::int64_t s = first + threadIdx.x;
    Sum* const sum = sums + s * positions + position;
    Sum total;
    const Sum before =
        block_scan<kCumsumThreads>(s < segments ? *sum : Sum(0), Sum(0), Add(), total);
    if (s < segments) *sum = carry + before;
    carry += total;
  }
}

template <class T>
void run(const Stream& stream, const View& out, const View& in, int dim) {
  using Sum = SumOf<T>;
  View place = out;  // one element a position
  place.sizes[dim] = 1;
  const ReduceNest nest(place, in);
  const std::int64_t size = in.sizes[dim], count = nest.outputs;
  const bool rows = size > 64 && (count == 1 || in.strides[dim] < nest.kept.inner().in);

  // Enough segments to keep the device busy, each long enough to pay for its overhead.
  const std::int64_t wanted = rows ? 1024 : 65536, shortest = rows ? 2 * kCumsumTile : 64;
  const std::int64_t most = std::clamp<std::int64_t>((wanted + count - 1) / count, 1,
                                                     std::max<std::int64_t>(1, size / shortest));
  const std::int64_t length = (size + most - 1) / most;
  Scan<T> scan{.in = in.as<const T>(),
               .out = out.as<ResultOf<T>>(),
               .positions = ReduceDims(nest.kept),
               .count = count,
               .size = size,
               .in_step = in.strides[dim],
               .out_step = out.strides[dim],
               .segments = (size + length - 1) / length,
               .length = length,
               .sums = nullptr,
               .sums_only = false};
  const std::int64_t tasks = count * scan.segments;
  const auto scan_all = [&] {
    if (rows)
      launch({"cumsum", stream, static_cast<unsigned>(tasks), kCumsumThreads}, scan_rows<T>, scan);
    else
      launch({"cumsum", stream, blocks_for(tasks, kCumsumThreads), kCumsumThreads}, scan_columns<T>,
             scan);
  };
  if (scan.segments == 1) return scan_all();
  const Workspace sums(stream, static_cast<std::size_t>(tasks) * sizeof(Sum));
  scan.sums = sums.as<Sum>();
  scan.sums_only = true;
  scan_all();
  launch({"cumsum of sums", stream, static_cast<unsigned>(count), kCumsumThreads}, scan_sums<Sum>,
         scan.sums, scan.segments);
  scan.sums_only = false;
  scan_all();
}

}  // namespace

void cumsum(const Stream& stream, const View& out, const View& in, int dim) {
  if (in.numel == 0) return;
  dispatch_reduced(in.dtype, [&]<class T, class E>() { run<T>(stream, out, in, dim); });
}

}  // namespace ferrite::kernels::cuda
