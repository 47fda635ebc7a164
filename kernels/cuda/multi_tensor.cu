// Kernels over many arrays at once: clearing, scaling, clamping, unscaling, norms.
#include <cfloat>

#include "ferrite/core/cuda/report.cuh"
#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/multi_tensor.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/multi_tensor.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kArraysThreads = 256;
constexpr std::int64_t kChunk = 8192;       // elements per block
constexpr std::int64_t kZeroChunk = 32768;  // bytes per block

struct Array {
  void* data;
  std::int64_t numel;
};
using Arrays = ArrayListFor<Array>;

template <class Launch>
void for_each_arrays(const FlatTensors& tensors, Launch&& launch) {
  for_each_list<Array>(
      tensors.arrays.size(), kChunk,
      [&](std::size_t i) {
        return Array{tensors.arrays[i].data, tensors.arrays[i].numel};
      },
      launch);
}

/// The elements of an array that a block works on.
struct Chunk {
  std::int64_t begin, end;
};
template <std::int64_t kSize = kChunk, class List>
__device__ __forceinline__ Chunk chunk_of(const List& list, int array) {
  const std::int64_t begin = (blockIdx.x - list.first_block[array]) * kSize;
  const std::int64_t numel = list.entries[array].numel;
  return {begin, begin + kSize < numel ? begin + kSize : numel};
}

__device__ __forceinline__ bool is_pack_aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % kPackBytes == 0;
}

/// Calls use(first element, pack) for packs of V elements, U loads at a time.
template <int V, int U, class T, class Use>
__device__ __forceinline__ void for_each_pack(const T* data, std::int64_t begin, std::int64_t end,
                                              const Use& use) {
  for (std::int64_t first = begin + threadIdx.x * V; first < end; first += kArraysThreads * V * U) {
    Pack<T, V> values[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (first + u * kArraysThreads * V < end)
        values[u] = load_pack<V>(data + first + u * kArraysThreads * V);
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (first + u * kArraysThreads * V < end) use(first + u * kArraysThreads * V, values[u]);
  }
}

// ---- Elementwise kernels

/// to[i] = f(from[i]).
template <class To, class From, class F>
struct Transform {
  To* to;
  const F& f;
  Compute<From>& zeros;  ///< of F that check: NaN as soon as an element is not finite

  template <int V>
  __device__ __forceinline__ void operator()(std::int64_t at, const Pack<From, V>& values) const {
    Pack<To, V> result;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const auto value = static_cast<Compute<From>>(values.v[i]);
      if constexpr (F::kChecks) zeros += value * 0;
      result.v[i] = static_cast<To>(static_cast<Compute<To>>(f(value)));
    }
    store_pack<V>(to + at, result);
  }
};

/// Transforms a chunk. If F checks, returns whether one of the thread's elements is not finite.
template <class To, class From, class F>
__device__ __forceinline__ bool transform_chunk(To* to, const From* from, const Chunk& chunk,
                                                const F& f) {
  Compute<From> zeros = 0;
  const Transform<To, From, F> transform{to, f, zeros};
  constexpr int kPack = pack_size<To, From>();
  std::int64_t done = chunk.begin;
  if (is_pack_aligned(to) && is_pack_aligned(from)) {
    done = chunk.end - chunk.end % kPack;
    for_each_pack<kPack, 2>(from, chunk.begin, done, transform);
  }
  for_each_pack<1, 4>(from, done, chunk.end, transform);
  return zeros != 0;
}

template <class T, class F>
__global__ void __launch_bounds__(kArraysThreads) transform_all(Arrays list, F f) {
  const int array = list.array_of(blockIdx.x);
  T* data = static_cast<T*>(list.entries[array].data);
  if (f.prepare()) transform_chunk(data, data, chunk_of(list, array), f);
}

template <class C>
struct Scale {
  static constexpr bool kChecks = false;
  const double* scale;
  C factor = 1;

  __device__ bool prepare() {
    factor = static_cast<C>(*scale);
    return *scale != 1;
  }
  __device__ C operator()(C x) const { return x * factor; }
};

template <class C>
struct Clamp {
  static constexpr bool kChecks = false;
  C limit;

  __device__ bool prepare() const { return true; }
  __device__ C operator()(C x) const { return x > limit ? limit : x < -limit ? -limit : x; }
};

/// The arrays' sizes are in bytes.
__global__ void __launch_bounds__(kArraysThreads) zero_arrays(Arrays list) {
  const int array = list.array_of(blockIdx.x);
  const Chunk chunk = chunk_of<kZeroChunk>(list, array);
  auto* const data = static_cast<unsigned char*>(list.entries[array].data);
  // Single bytes up to the first boundary, then packs, then the remaining bytes.
  std::int64_t first = chunk.begin;
  const auto past = reinterpret_cast<std::uintptr_t>(data + chunk.begin) % kPackBytes;
  if (past != 0) first += kPackBytes - static_cast<std::int64_t>(past);
  if (first > chunk.end) first = chunk.end;
  const std::int64_t last = chunk.end - (chunk.end - first) % kPackBytes;
  if (const std::int64_t at = chunk.begin + threadIdx.x; at < first) data[at] = 0;
  if (const std::int64_t at = last + threadIdx.x; at < chunk.end) data[at] = 0;
  for (std::int64_t at = first + threadIdx.x * kPackBytes; at < last;
       at += kArraysThreads * kPackBytes)
    store_pack<kPackBytes>(data + at, Pack<unsigned char, kPackBytes>{});
}

// ---- Unscaling

struct Pair {
  void* to;
  const void* from;
  std::int64_t numel;
};
using Pairs = ArrayListFor<Pair>;

template <class C>
struct Unscale {
  static constexpr bool kChecks = true;
  C factor;
  __device__ C operator()(C x) const { return x * factor; }
};

template <class To, class From>
__global__ void __launch_bounds__(kArraysThreads)
    unscale(Pairs list, const float* inv_scale, float* found_inf) {
  const int array = list.array_of(blockIdx.x);
  const Pair& pair = list.entries[array];
  const Unscale<Compute<From>> f{inv_scale ? static_cast<Compute<From>>(*inv_scale)
                                           : Compute<From>(1)};
  const bool found = transform_chunk(static_cast<To*>(pair.to), static_cast<const From*>(pair.from),
                                     chunk_of(list, array), f);
  // One lane per warp stores the flag: if many elements are infinite, stores by all lanes would be
  // serialised.
  if (__any_sync(kAllLanes, found) && found_inf && threadIdx.x % kWarp == 0)
    atomicExch(found_inf, 1.0f);
}

// ---- Checking

template <class T>
struct SumZeros {
  Compute<T>& zeros;  ///< NaN as soon as an element is not finite

  template <int V>
  __device__ __forceinline__ void operator()(std::int64_t, const Pack<T, V>& values) const {
#pragma unroll
    for (int i = 0; i < V; ++i) zeros += static_cast<Compute<T>>(values.v[i]) * 0;
  }
};

struct TypedArray {
  const void* data;
  std::int64_t numel;
  DType dtype;
};
using TypedArrays = ArrayListFor<TypedArray>;

/// Whether an element of the chunk that this thread loads is infinite or NaN.
template <class T>
__device__ __forceinline__ bool finds_infinite(const void* array, const Chunk& chunk) {
  const T* data = static_cast<const T*>(array);
  Compute<T> zeros = 0;
  const SumZeros<T> sum{zeros};
  constexpr int kPack = pack_size<T>();
  std::int64_t done = chunk.begin;
  if (is_pack_aligned(data)) {
    done = chunk.end - chunk.end % kPack;
    for_each_pack<kPack, 4>(data, chunk.begin, done, sum);
  }
  for_each_pack<1, 4>(data, done, chunk.end, sum);
  return zeros != 0;
}

__global__ void __launch_bounds__(kArraysThreads) check_arrays(TypedArrays list, float* found_inf) {
  const int array = list.array_of(blockIdx.x);
  const TypedArray& entry = list.entries[array];
  const Chunk chunk = chunk_of(list, array);
  bool found = false;
  switch (entry.dtype) {
    case kFloat16:
      found = finds_infinite<Half>(entry.data, chunk);
      break;
    case kBFloat16:
      found = finds_infinite<BFloat16>(entry.data, chunk);
      break;
    case kFloat64:
      found = finds_infinite<double>(entry.data, chunk);
      break;
    default:
      found = finds_infinite<float>(entry.data, chunk);
  }
  if (__any_sync(kAllLanes, found) && threadIdx.x % kWarp == 0) atomicExch(found_inf, 1.0f);
}

// ---- Norms

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

void zero_all(const Stream& stream, const FlatTensors& tensors) {
  const auto size = static_cast<std::int64_t>(itemsize(tensors.dtype));
  for_each_list<Array>(
      tensors.arrays.size(), kZeroChunk,
      [&](std::size_t i) {
        return Array{tensors.arrays[i].data, tensors.arrays[i].numel * size};
      },
      [&](const Arrays& list, std::size_t) {
        launch({"zero_all", stream, list.blocks, kArraysThreads}, zero_arrays, list);
      });
}

void scale_all(const Stream& stream, const FlatTensors& tensors, const View& scale) {
  dispatch_floating(tensors.dtype, "scale_all", [&]<class T>() {
    const Scale<Compute<T>> f{scale.as<double>()};
    for_each_arrays(tensors, [&](const Arrays& list, std::size_t) {
      launch({"scale_all", stream, list.blocks, kArraysThreads},
             transform_all<T, Scale<Compute<T>>>, list, f);
    });
  });
}

void clamp_all(const Stream& stream, const FlatTensors& tensors, double limit) {
  dispatch_floating(tensors.dtype, "clamp_all", [&]<class T>() {
    const Clamp<Compute<T>> f{static_cast<Compute<T>>(limit)};
    for_each_arrays(tensors, [&](const Arrays& list, std::size_t) {
      launch({"clamp_all", stream, list.blocks, kArraysThreads},
             transform_all<T, Clamp<Compute<T>>>, list, f);
    });
  });
}

void unscale_all(const Stream& stream, const FlatTensors& to, const FlatTensors& from,
                 const float* inv_scale, float* found_inf) {
  const auto run = [&]<class To, class From>() {
    for_each_list<Pair>(
        from.arrays.size(), kChunk,
        [&](std::size_t i) {
          return Pair{to.arrays[i].data, from.arrays[i].data, from.arrays[i].numel};
        },
        [&](const Pairs& list, std::size_t) {
          launch({"unscale_all", stream, list.blocks, kArraysThreads}, unscale<To, From>, list,
                 inv_scale, found_inf);
        });
  };
  if (to.dtype == from.dtype)
    return dispatch_floating(to.dtype, "unscale_all",
                             [&]<class T>() { run.template operator()<T, T>(); });
  if (to.dtype == kFloat32)
    return dispatch_types<Half, BFloat16>(from.dtype, "unscale_all",
                                          [&]<class T>() { run.template operator()<float, T>(); });
  dispatch_types<float>(from.dtype, "unscale_all", [&]<class From>() {
    dispatch_types<Half, BFloat16>(to.dtype, "unscale_all",
                                   [&]<class T>() { run.template operator()<T, From>(); });
  });
}

void check_finite(const Stream& stream, const std::vector<FlatTensors>& lists, float* found_inf) {
  std::vector<TypedArray> arrays;
  for (const FlatTensors& tensors : lists) {
    dispatch_floating(tensors.dtype, "check_finite", []<class>() {});
    for (const FlatTensors::Array& a : tensors.arrays)
      arrays.push_back({a.data, a.numel, tensors.dtype});
  }
  for_each_list<TypedArray>(
      arrays.size(), kChunk, [&](std::size_t i) { return arrays[i]; },
      [&](const TypedArrays& list, std::size_t) {
        launch({"check_finite", stream, list.blocks, kArraysThreads}, check_arrays, list,
               found_inf);
      });
}

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
