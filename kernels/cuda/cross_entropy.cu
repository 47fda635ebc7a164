// Cross-entropy in two kernels: one reads the logits once (online softmax), the other writes their
// gradient. For small problems the first one does both. Several lanes share the classes of a
// position. If classes are adjacent in memory (rows), they are adjacent threads; otherwise
// (columns) adjacent threads have adjacent positions.
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "ferrite/core/cuda/report.cuh"
#include "ferrite/kernels/cross_entropy.h"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/element.cuh"
#include "ferrite/kernels/cuda/online_sum.cuh"
#include "ferrite/kernels/cuda/reduce_dims.cuh"
#include "ferrite/kernels/cuda/rolled.cuh"
#include "ferrite/kernels/cuda/workspace.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kEntropyThreads = 256;

/// The sizes and strides of the targets without the class dimension, for error messages.
struct TargetGeometry {
  int ndim = 0;
  std::int64_t sizes[kMaxDims], strides[kMaxDims];

  TargetGeometry(const View& target, int dim) {
    for (int d = 0; d < target.ndim; ++d) {
      if (d == dim) continue;
      sizes[ndim] = target.sizes[d];
      strides[ndim++] = target.strides[d];
    }
  }
};

/// The part that forward and backward share. E is the type of the computation.
template <class T>
struct Problem {
  using E = Compute<T>;

  const T* logits;
  ReduceDims places;  // offsets of a position's first logit, and in views over positions
  std::int64_t positions, classes, class_step;
  int lanes;  // threads per position
  bool rows;
  bool log_probabilities;
  const std::int64_t* target;
  const E* weight;  // null: all 1
  std::int64_t ignore_index;
  double certain;             // 1 - label smoothing
  double smooth;              // a class's share of the smoothed label
  const double* all_weights;  // their sum; null: `classes`
  ferrite::cuda::DeviceReport* report;
  const char* op;
  TargetGeometry geometry;

  __device__ double weight_of(std::int64_t c) const {
    return weight ? static_cast<double>(weight[c]) : 1.0;
  }
  __device__ double sum_of_weights() const {
    return all_weights ? *all_weights : static_cast<double>(classes);
  }
  /// The target class of a position; -1 if it is ignored or was reported as out of range.
  __device__ std::int64_t target_at(std::int64_t offset, bool reports) const {
    const std::int64_t t = target[offset];
    if (t == ignore_index) return -1;
    if (t >= 0 && t < classes) return t;
    if (reports) report_target(t, offset);
    return -1;
  }
  __device__ void report_target(std::int64_t t, std::int64_t offset) const {
    std::int64_t sizes[kMaxDims], linear = 0;
    FERRITE_ROLLED
    for (int d = 0; d < geometry.ndim; ++d) {
      sizes[d] = geometry.sizes[d];
      const std::int64_t index = sizes[d] > 1 ? offset / geometry.strides[d] % sizes[d] : 0;
      linear = linear * sizes[d] + index;
    }
    ferrite::cuda::report_class(report, op, t, classes, ignore_index, linear, geometry.ndim, sizes);
  }

  // ---- How the block's threads are arranged
  __device__ int width() const { return kEntropyThreads / lanes; }  // positions per block
  __device__ int lane() const {
    const int thread = static_cast<int>(threadIdx.x);
    return rows ? thread & (lanes - 1) : thread / width();
  }
  __device__ std::int64_t position() const {
    const int thread = static_cast<int>(threadIdx.x);
    return std::int64_t{blockIdx.x} * width() + (rows ? thread / lanes : thread & (width() - 1));
  }
};

struct alignas(16) Sums {
  double loss, weight;
};

struct AddSums {
  __device__ Sums operator()(const Sums& a, const Sums& b) const {
    return {a.loss + b.loss, a.weight + b.weight};
  }
};

struct Results {
  Elements losses, log_sums;    // over positions
  Elements sum, mean, divisor;  // of one element
  Sums* partial;                // [blocks], if there are several; null if no total is wanted
  void* gradient;               // of one block's logits; null: not wanted

  __device__ void set(const Sums& total) const {
    if (sum.data) sum.set(0, total.loss);
    if (mean.data) mean.set(0, total.loss / total.weight);
    if (divisor.data) divisor.set(0, total.weight);
  }
};

/// The running result for a position, of one thread and then of all its lanes.
template <class E>
struct alignas(16) Scan {
  OnlineSum<E> sum;
  double weighted;  // the sum of the weighted logits, if labels are smoothed
};

template <class E>
struct JoinScans {
  __device__ Scan<E> operator()(const Scan<E>& a, const Scan<E>& b) const {
    return {join(a.sum, b.sum), a.weighted + b.weighted};
  }
};

template <int V, class T>
__device__ __forceinline__ Scan<Compute<T>> scan_classes(const Problem<T>& p, const T* x) {
  using E = Compute<T>;
  constexpr int kUnroll = V == 1 ? 8 : 2;
  Scan<E> scan{{}, 0};
  const std::int64_t units = p.classes / V;
  for (std::int64_t first = p.lane(); first < units; first += std::int64_t{p.lanes} * kUnroll) {
    Pack<T, V> packs[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t i = first + u * p.lanes;
      if (i < units) packs[u] = load_pack<V>(x + i * V * p.class_step);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t i = first + u * p.lanes;
      if (i >= units) break;
      scan.sum.take(packs[u]);
      if (p.smooth > 0) {
#pragma unroll
        for (int v = 0; v < V; ++v)
          scan.weighted +=
              static_cast<double>(static_cast<E>(packs[u].v[v])) * p.weight_of(i * V + v);
      }
    }
  }
  return scan;
}

/// Writes the wanted results of a position and returns its contribution to the totals.
template <class T>
__device__ __forceinline__ Sums emit(const Problem<T>& p, const Results& results,
                                     const Scan<Compute<T>>& scan, const T* x,
                                     std::int64_t offset) {
  using E = Compute<T>;
  const std::int64_t t = p.target_at(offset, true);
  // Log probabilities need only the selection: their sum of exponentials counts as 1.
  const E top = p.log_probabilities ? E(0) : scan.sum.top;
  const double log_sum =
      p.log_probabilities ? 0.0 : static_cast<double>(std::log(scan.sum.total()));
  if (results.log_sums.data) results.log_sums.set(offset, static_cast<double>(top) + log_sum);
  Sums sums{0, 0};
  if (t >= 0) {
    const double w = p.weight_of(t);
    const E picked = static_cast<E>(x[t * p.class_step]) - top;
    sums = {p.certain * w * (log_sum - static_cast<double>(picked)), w};
    if (p.smooth > 0) {
      const double all = p.sum_of_weights();
      const double weighted =
          p.log_probabilities ? 0.0 : scan.weighted - static_cast<double>(top) * all;
      sums.loss += p.smooth * (all * log_sum - weighted);
    }
  }
  if (results.losses.data) results.losses.set(offset, sums.loss);
  return sums;
}

__global__ void __launch_bounds__(kEntropyThreads)
    join_totals(Results results, std::int64_t blocks) {
  Sums sums{0, 0};
  for (std::int64_t i = threadIdx.x; i < blocks; i += kEntropyThreads)
    sums = AddSums()(sums, results.partial[i]);
  sums = block_reduce<kEntropyThreads>(sums, Sums{0, 0}, AddSums());
  if (threadIdx.x == 0) results.set(sums);
}

template <class E>
__global__ void __launch_bounds__(kEntropyThreads)
    sum_weights(double* sum, const E* weight, std::int64_t classes) {
  double total = 0;
  for (std::int64_t c = threadIdx.x; c < classes; c += kEntropyThreads)
    total += static_cast<double>(weight[c]);
  total = block_reduce<kEntropyThreads>(total, 0.0, Add());
  if (threadIdx.x == 0) *sum = total;
}

/// The gradient of the output.
struct Upstream {
  Elements grad, log_sums, divisor;  // grad without data: 1
  bool shared;                       // one gradient for all positions

  __device__ double at(std::int64_t offset) const {
    const double g = grad.data ? grad.get<double>(shared ? 0 : offset) : 1.0;
    return shared && divisor.data ? g / divisor.get<double>(0) : g;
  }
};

/// The terms of a position's gradient: gradient_c = probability * p_c - picked (c == t) - share *
/// w_c.
template <class E>
struct Contribution {
  std::int64_t t = -1;
  E high = 0, low = 0;  // log_sum in two parts, because one float32 would be too coarse
  E probability = 0, picked = 0, share = 0;

  template <class T>
  __device__ Contribution(const Problem<T>& p, const Upstream& up, std::int64_t offset) {
    t = p.target_at(offset, p.lane() == 0);
    if (t < 0) return;
    const double grad = up.at(offset);
    const double at_target = grad * p.certain * p.weight_of(t);
    picked = static_cast<E>(at_target);
    if (p.log_probabilities) return;
    const double log_sum = up.log_sums.get<double>(offset);
    high = static_cast<E>(log_sum);
    low = static_cast<E>(log_sum - static_cast<double>(high));
    share = static_cast<E>(grad * p.smooth);
    probability =
        static_cast<E>(p.smooth > 0 ? at_target + grad * p.smooth * p.sum_of_weights() : at_target);
  }

  template <class T>
  __device__ T of_class(const Problem<T>& p, std::int64_t c, E x) const {
    // If `probability` is 0, the position is ignored or the logits are log probabilities; a NaN
    // among them must then not propagate.
    E gradient = probability == 0 ? E(0) : std::exp((x - high) - low) * probability;
    if (share != 0) gradient -= p.weight ? share * p.weight[c] : share;
    return static_cast<T>(c == t ? gradient - picked : gradient);
  }
};

template <int V, class T>
__device__ __forceinline__ void write_gradient(const Problem<T>& p, const Upstream& up, T* out) {
  using E = Compute<T>;
  constexpr int kUnroll = V == 1 ? 4 : 2;
  const std::int64_t position = p.position();
  if (position >= p.positions) return;
  const ReduceDims::Offsets at = p.places.offsets(position);
  const Contribution<E> own(p, up, at.out);
  const std::int64_t units = p.classes / V;
  for (std::int64_t first = p.lane(); first < units; first += std::int64_t{p.lanes} * kUnroll) {
    Pack<T, V> x[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t i = first + u * p.lanes;
      if (i < units) x[u] = load_pack<V>(p.logits + at.in + i * V * p.class_step);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const std::int64_t i = first + u * p.lanes;
      if (i >= units) break;
#pragma unroll
      for (int v = 0; v < V; ++v) x[u].v[v] = own.of_class(p, i * V + v, static_cast<E>(x[u].v[v]));
      store_pack<V>(out + at.in + i * V * p.class_step, x[u]);
    }
  }
}

template <int V, class T>
__global__ void __launch_bounds__(kEntropyThreads) backward(Problem<T> p, Upstream up, T* out) {
  write_gradient<V>(p, up, out);
}

/// `Both`: the gradient as well, from the results in memory.
template <int V, bool Both, class T>
__global__ void __launch_bounds__(kEntropyThreads) forward(Problem<T> p, Results results) {
  using E = Compute<T>;
  const std::int64_t position = p.position();
  const bool valid = position < p.positions;
  const ReduceDims::Offsets at = p.places.offsets(valid ? position : 0);
  const T* const x = p.logits + at.in;
  Scan<E> scan{{}, 0};
  if (valid && !p.log_probabilities) scan = scan_classes<V>(p, x);
  if (p.rows) {
    scan = p.lanes > kWarp ? block_reduce<kEntropyThreads>(scan, Scan<E>{{}, 0}, JoinScans<E>())
                           : group_reduce(scan, p.lanes, JoinScans<E>());
  } else if (p.lanes > 1) {
    FERRITE_SHARED(tile, Scan<E>[kEntropyThreads]);
    scan = column_reduce<kEntropyThreads>(scan, tile, p.width(), JoinScans<E>());
  }
  Sums sums{0, 0};
  if (valid && p.lane() == 0) sums = emit(p, results, scan, x, at.out);
  if (gridDim.x > 1 && !results.partial) return;
  sums = block_reduce<kEntropyThreads>(sums, Sums{0, 0}, AddSums());
  if (threadIdx.x == 0) {
    if (gridDim.x == 1)
      results.set(sums);
    else
      results.partial[blockIdx.x] = sums;
  }
  if constexpr (Both) {
    __syncthreads();
    write_gradient<V>(p, Upstream{{}, results.log_sums, results.divisor, true},
                      static_cast<T*>(results.gradient));
  }
}

int power_of_two(std::int64_t at_least, int most) {
  return static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(at_least, 1, most))));
}

enum class Pass : std::uint8_t { forward, backward };

/// Calls f.operator()<V>(problem, blocks): with the largest V for which packs of V elements fit.
template <class T, class F>
void run(const Stream& stream, const CrossEntropyArgs& args, Pass pass, const View& out,
         const F& f) {
  const ReduceNest nest(args.target, args.logits);
  const std::int64_t classes = args.logits.sizes[args.dim];
  const std::int64_t step = classes == 1 ? 1 : args.logits.strides[args.dim];
  const bool rows = step == 1;
  constexpr int kPack = useful_pack<T>();
  const bool packed = rows && classes % kPack == 0 && is_aligned(args.logits.as<T>(), kPack) &&
                      is_aligned(out.as<T>(), kPack);
  const std::int64_t units = packed ? classes / kPack : classes;

  int lanes = 1;
  if (pass == Pass::forward && args.log_probabilities)
    lanes = 1;  // one element is read
  else if (rows && units > 2048)
    lanes = kEntropyThreads;
  else if (rows)
    lanes = power_of_two((units + 3) / 4, kWarp);
  else if (nest.outputs < 65536)  // few positions: several threads each
    lanes = power_of_two((units + 15) / 16, 8);
  // Few classes of few positions: one block, whose totals need no second kernel.
  if (pass == Pass::forward && rows && units <= 16 && nest.outputs <= kEntropyThreads) {
    const auto positions = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(nest.outputs));
    lanes = std::min(lanes, static_cast<int>(std::bit_floor(kEntropyThreads / positions)));
  }

  std::optional<Workspace> all_weights;
  const auto* weight = args.weight.as<const Compute<T>>();
  if (weight && args.label_smoothing > 0) {
    all_weights.emplace(stream, sizeof(double));
    launch({"cross_entropy weights", stream, 1, kEntropyThreads}, sum_weights<Compute<T>>,
           all_weights->as<double>(), weight, classes);
  }
  const Problem<T> problem{.logits = args.logits.as<const T>(),
                           .places = ReduceDims(nest.kept),
                           .positions = nest.outputs,
                           .classes = classes,
                           .class_step = step,
                           .lanes = lanes,
                           .rows = rows,
                           .log_probabilities = args.log_probabilities,
                           .target = args.target.as<const std::int64_t>(),
                           .weight = weight,
                           .ignore_index = args.ignore_index,
                           .certain = 1 - args.label_smoothing,
                           .smooth = args.label_smoothing / static_cast<double>(classes),
                           .all_weights = all_weights ? all_weights->as<double>() : nullptr,
                           .report = ferrite::cuda::report_slot(stream),
                           .op = args.log_probabilities ? "nll_loss" : "cross_entropy",
                           .geometry = TargetGeometry(args.target, args.dim)};
  const unsigned blocks = blocks_for(nest.outputs, kEntropyThreads / lanes);
  if (packed)
    f.template operator()<kPack>(problem, blocks);
  else
    f.template operator()<1>(problem, blocks);
}

}  // namespace

void cross_entropy(const Stream& stream, const CrossEntropyArgs& args,
                   const CrossEntropyResult& result) {
  Results results{result.losses,  result.log_sums, result.sum,          result.mean,
                  result.divisor, nullptr,         result.gradient.data};
  const bool both = results.gradient != nullptr;
  FERRITE_CHECK(
      !both || (computes_gradient_in_forward(args) && result.log_sums.data && result.divisor.data),
      ValueError, "cross_entropy", "the forward pass cannot compute this gradient");
  dispatch_floating(args.logits.dtype, "cross_entropy", [&]<class T>() {
    run<T>(stream, args, Pass::forward, both ? result.gradient : args.logits,
           [&]<int V>(const Problem<T>& problem, unsigned blocks) {
             // Without positions one block still writes the totals.
             const bool totals = results.sum.data || results.mean.data || results.divisor.data;
             std::optional<Workspace> partial;
             if (totals && blocks > 1) {
               partial.emplace(stream, blocks * sizeof(Sums));
               results.partial = partial->as<Sums>();
             }
             launch({"cross_entropy", stream, std::max(blocks, 1u), kEntropyThreads},
                    both ? forward<V, true, T> : forward<V, false, T>, problem, results);
             if (partial)
               launch({"cross_entropy totals", stream, 1, kEntropyThreads}, join_totals, results,
                      std::int64_t{blocks});
           });
  });
}

void cross_entropy_backward(const Stream& stream, const View& out, const CrossEntropyArgs& args,
                            const View& log_sums, const View& grad, const View& divisor) {
  if (out.numel == 0) return;
  const Upstream up{grad, log_sums, divisor, grad.numel == 1};
  dispatch_floating(args.logits.dtype, "cross_entropy_backward", [&]<class T>() {
    run<T>(stream, args, Pass::backward, out,
           [&]<int V>(const Problem<T>& problem, unsigned blocks) {
             launch({"cross_entropy_backward", stream, blocks, kEntropyThreads}, backward<V, T>,
                    problem, up, out.as<T>());
           });
  });
}

}  // namespace ferrite::kernels::cuda
