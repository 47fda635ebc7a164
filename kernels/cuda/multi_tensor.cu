// Kernels over many arrays at once: clearing, scaling, clamping, unscaling, the check for
// overflows.
#include <cfloat>

#include "ferrite/core/cuda/report.cuh"
#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/multi_tensor_chunks.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/multi_tensor.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr std::int64_t kZeroChunk = 32768;  // bytes per block

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

}  // namespace ferrite::kernels::cuda
