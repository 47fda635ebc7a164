// Norms over many arrays at once, and the scale that clips gradients by their norm.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include "ferrite/core/cuda/report.cuh"
#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/multi_tensor_chunks.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/multi_tensor.h"

namespace ferrite::kernels::cuda {

namespace {

enum class Power { one, two, infinite, other };

Power power_of(double p) {
  return p == 1 ? Power::one : p == 2 ? Power::two : std::isinf(p) ? Power::infinite : Power::other;
}

/// Adds, or takes the larger.
struct Join {
  bool largest;
  __device__ __forceinline__ double operator()(double a, double b) const {
    return largest ? Max()(a, b) : a + b;
  }
};

__device__ __forceinline__ double root(double sum, Power power, double p) {
  switch (power) {
    case Power::one:
    case Power::infinite:
      return sum;
    case Power::two:
      return sqrt(sum);
    default:
      return pow(sum, 1 / p);
  }
}

template <Power power>
struct AddPowers {
  double& sum;
  double p;

  template <class T, int V>
  __device__ __forceinline__ void operator()(std::int64_t, const Pack<T, V>& values) const {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const auto x = static_cast<double>(static_cast<Compute<T>>(values.v[i]));
      if constexpr (power == Power::two)
        sum += x * x;
      else if constexpr (power == Power::one)
        sum += fabs(x);
      else if constexpr (power == Power::infinite)
        sum = Max()(sum, fabs(x));
      else
        sum += pow(fabs(x), p);
    }
  }
};

/// Without aligned packs, loads the same elements one by one; the result has the same bits.
template <int V, class T, class Use>
__device__ __forceinline__ void for_each_split_pack(const T* data, std::int64_t begin,
                                                    std::int64_t end, const Use& use) {
  for (std::int64_t first = begin + threadIdx.x * V; first < end; first += kArraysThreads * V) {
    Pack<T, V> values;
#pragma unroll
    for (int i = 0; i < V; ++i) values.v[i] = data[first + i];
    use(first, values);
  }
}

template <Power power, class T>
__device__ __forceinline__ double chunk_sum(const T* data, const Chunk& chunk, double p) {
  double sum = 0;
  const AddPowers<power> add{sum, p};
  constexpr int kPack = pack_size<T>();
  const std::int64_t packs_end = chunk.end - chunk.end % kPack;
  if (is_pack_aligned(data))
    for_each_pack<kPack, 4>(data, chunk.begin, packs_end, add);
  else
    for_each_split_pack<kPack>(data, chunk.begin, packs_end, add);
  for_each_pack<1, 1>(data, packs_end, chunk.end, add);
  return sum;
}

template <class T>
__global__ void __launch_bounds__(kArraysThreads)
    sum_chunks(Arrays list, Power power, double p, double* partial) {
  const int array = list.array_of(blockIdx.x);
  const T* data = static_cast<const T*>(list.entries[array].data);
  const Chunk chunk = chunk_of(list, array);
  double sum = 0;
  switch (power) {
    case Power::one:
      sum = chunk_sum<Power::one>(data, chunk, p);
      break;
    case Power::two:
      sum = chunk_sum<Power::two>(data, chunk, p);
      break;
    case Power::infinite:
      sum = chunk_sum<Power::infinite>(data, chunk, p);
      break;
    default:
      sum = chunk_sum<Power::other>(data, chunk, p);
  }
  sum = block_reduce<kArraysThreads>(sum, 0.0, Join{power == Power::infinite});
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// Joins partial[0..count), and returns the result to every thread of the block.
__device__ __forceinline__ double join_partials(const double* partial, std::int64_t count,
                                                const Join& join) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kArraysThreads) sum = join(sum, partial[i]);
  return block_reduce<kArraysThreads>(sum, 0.0, join);
}

/// One block per array.
__global__ void __launch_bounds__(kArraysThreads)
    finish_each(Arrays list, Power power, double p, const double* partial, double* each) {
  const int array = static_cast<int>(blockIdx.x);
  const unsigned begin = list.first_block[array];
  const unsigned end = array + 1 < list.count ? list.first_block[array + 1] : list.blocks;
  const double sum = join_partials(partial + begin, end - begin, Join{power == Power::infinite});
  if (threadIdx.x == 0) each[array] = root(sum, power, p);
}

/// One block. `rooted`: writes the norm instead of its power.
__global__ void __launch_bounds__(kArraysThreads)
    finish_all(const double* partial, std::int64_t count, Power power, double p, bool rooted,
               double* all) {
  const double sum = join_partials(partial, count, Join{power == Power::infinite});
  if (threadIdx.x == 0) *all = rooted ? root(sum, power, p) : sum;
}

/// Either output may be null.
void sum_arrays(const Stream& stream, const FlatTensors& tensors, double p, double* each,
                double* all, bool rooted) {
  std::int64_t count = 0;
  for (const auto& array : tensors.arrays) count += (array.numel + kChunk - 1) / kChunk;
  const Workspace partials(stream, static_cast<std::size_t>(count + 1) * sizeof(double));
  double* const start = partials.as<double>();
  double* next = start;
  const Power power = power_of(p);
  dispatch_floating(tensors.dtype, "norm", [&]<class T>() {
    for_each_arrays(tensors, [&](const Arrays& list, std::size_t first) {
      launch({"sum_chunks", stream, list.blocks, kArraysThreads}, sum_chunks<T>, list, power, p,
             next);
      if (each)
        launch({"finish_each", stream, static_cast<unsigned>(list.count), kArraysThreads},
               finish_each, list, power, p, static_cast<const double*>(next), each + first);
      next += list.blocks;
    });
  });
  if (all)
    launch({"finish_all", stream, 1, kArraysThreads}, finish_all, static_cast<const double*>(start),
           count, power, p, rooted, all);
}

struct Sums {
  static constexpr int kMax = 256;
  const double* values[kMax];
  int count;
};

/// Whether and how a norm that is not finite is reported.
struct FiniteCheck {
  ferrite::cuda::DeviceReport* report;
  const char* op;
};

/// One thread. Continues from the sum in `norm` unless `starts`; computes the norm and the scale if
/// `ends`.
__global__ void scale_of_sums(Sums sums, Power power, double p, double max_norm, bool starts,
                              bool ends, double* norm, double* scale, FiniteCheck check) {
  const Join join{power == Power::infinite};
  double total = starts ? 0 : *norm;
  for (int i = 0; i < sums.count; ++i) total = join(total, *sums.values[i]);
  if (!ends) {
    *norm = total;
    return;
  }
  *norm = root(total, power, p);
  const double factor = max_norm / (*norm + 1e-6);
  const bool bad = check.report && !(*norm - *norm == 0);
  *scale = factor > 1 || bad ? 1 : factor;
  if (bad) ferrite::cuda::report_value(check.report, check.op, 0, DBL_MAX, *norm);
}

}  // namespace

void sum_of_powers(const Stream& stream, const FlatTensors& tensors, double p, const View& out) {
  sum_arrays(stream, tensors, p, nullptr, out.as<double>(), false);
}

void norms(const Stream& stream, const FlatTensors& tensors, double p, const View& each,
           const View& all) {
  sum_arrays(stream, tensors, p, each.as<double>(), all.as<double>(), true);
}

void clip_scale(const Stream& stream, const std::vector<const double*>& sums, double p,
                double max_norm, const View& norm, const View& scale, bool check) {
  const FiniteCheck finite{check ? ferrite::cuda::report_slot(stream) : nullptr, kNormOp};
  std::size_t at = 0;
  do {
    Sums some;
    some.count = static_cast<int>(std::min<std::size_t>(Sums::kMax, sums.size() - at));
    std::copy_n(sums.begin() + static_cast<std::ptrdiff_t>(at), some.count, some.values);
    const bool starts = at == 0;
    at += static_cast<std::size_t>(some.count);
    launch({"clip_scale", stream, 1, 1}, scale_of_sums, some, power_of(p), p, max_norm, starts,
           at == sums.size(), norm.as<double>(), scale.as<double>(), finite);
  } while (at < sums.size());
}

}  // namespace ferrite::kernels::cuda
