#include <cmath>
#include <numbers>

#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/convert.cuh"
#include "ferrite/kernels/cuda/copy.h"
#include "ferrite/kernels/cuda/elementwise.cuh"
#include "ferrite/kernels/cuda/sort_pairs.h"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/random.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kRandomThreads = 256;

/// Each thread computes one Philox block and the elements drawn from it.
template <int V>
unsigned grid_for(std::int64_t n) {
  return blocks_for(n, std::int64_t{kRandomThreads} * V);
}
__device__ PhiloxBlock block_of(const PhiloxState& state, std::int64_t number) {
  const PhiloxState from = state.resolved();
  return philox(from.seed, from.offset + static_cast<std::uint64_t>(number));
}

/// Two words as 64 random bits.
__device__ std::uint64_t word_pair(const PhiloxBlock& block, int i) {
  return static_cast<std::uint64_t>(block.v[2 * i]) << 32 | block.v[2 * i + 1];
}

/// Numbers of a Philox block: four floats or two doubles.
template <class C>
inline constexpr int kNumbers = sizeof(C) == 4 ? 4 : 2;

__device__ void uniform_numbers(const PhiloxBlock& block, float (&u)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) u[i] = philox_uniform(block.v[i]);
}
__device__ void uniform_numbers(const PhiloxBlock& block, double (&u)[2]) {
  u[0] = philox_uniform(block.v[0], block.v[1]);
  u[1] = philox_uniform(block.v[2], block.v[3]);
}

template <class T>
struct ToRange {
  UniformRange<T> range;

  template <class C, int N>
  __device__ void operator()(C (&u)[N]) const {
#pragma unroll
    for (C& x : u) {
      x = range.low + x * range.span;
      x = x < range.top ? x : range.top;
    }
  }
};

/// The Box-Muller transform, pair by pair.
template <class C>
struct ToNormal {
  C mean, std;

  template <int N>
  __device__ void operator()(C (&u)[N]) const {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      // 1 - u lies in (0, 1]: its logarithm is finite.
      const C radius = std::sqrt(C(-2) * std::log(C(1) - u[i]));
      const C angle = C(2 * std::numbers::pi) * u[i + 1];
      u[i] = mean + std * (radius * std::cos(angle));
      u[i + 1] = mean + std * (radius * std::sin(angle));
    }
  }
};

template <class T, class F>
__global__ void __launch_bounds__(kRandomThreads)
    floating_kernel(T* out, std::int64_t n, bool aligned, PhiloxState state, F transform) {
  using C = Compute<T>;
  constexpr int kCount = kNumbers<C>;
  const std::int64_t number = thread_in_grid<kRandomThreads>();
  if (number * kCount >= n) return;
  C u[kCount];
  uniform_numbers(block_of(state, number), u);
  transform(u);
  Pack<T, kCount> pack;
#pragma unroll
  for (int i = 0; i < kCount; ++i) pack.v[i] = static_cast<T>(u[i]);
  store_run(out, number * kCount, n, pack, aligned);
}

template <class T, class F>
void fill_floating(const Stream& stream, const char* name, const View& out, PhiloxState state,
                   const F& transform) {
  constexpr int kCount = kNumbers<Compute<T>>;
  T* const to = out.as<T>();
  launch({name, stream, grid_for<kCount>(out.numel), kRandomThreads}, floating_kernel<T, F>, to,
         out.numel, is_aligned(to, kCount), state, transform);
}

template <class T>
__device__ void store_integers(void* out, std::int64_t at, std::int64_t n,
                               const std::int64_t (&values)[2]) {
  const Pack<T, 2> pack = {convert_element<T>(values[0]), convert_element<T>(values[1])};
  store_run(static_cast<T*>(out), at, n, pack, false);
}

__global__ void __launch_bounds__(kRandomThreads)
    integers_kernel(void* out, DType dtype, std::int64_t n, PhiloxState state, std::uint64_t low,
                    std::uint64_t range) {
  const std::int64_t number = thread_in_grid<kRandomThreads>(), at = 2 * number;
  if (at >= n) return;
  const PhiloxBlock block = block_of(state, number);
  std::int64_t values[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    values[i] = static_cast<std::int64_t>(low + __umul64hi(word_pair(block, i), range));
  }
  switch (dtype) {
    case DType::float32:
      return store_integers<float>(out, at, n, values);
    case DType::float16:
      return store_integers<Half>(out, at, n, values);
    case DType::bfloat16:
      return store_integers<BFloat16>(out, at, n, values);
    case DType::float64:
      return store_integers<double>(out, at, n, values);
    case DType::int64:
      return store_integers<std::int64_t>(out, at, n, values);
    case DType::int32:
      return store_integers<std::int32_t>(out, at, n, values);
    case DType::int16:
      return store_integers<std::int16_t>(out, at, n, values);
    case DType::int8:
      return store_integers<std::int8_t>(out, at, n, values);
    case DType::uint8:
      return store_integers<std::uint8_t>(out, at, n, values);
    default:
      return store_integers<bool>(out, at, n, values);
  }
}

/// Writes the bits of `one`, or 0. If `p` is null, `same` is the probability of all elements.
template <class Word, class P>
__global__ void __launch_bounds__(kRandomThreads)
    bernoulli_kernel(Word* out, std::int64_t n, bool aligned, PhiloxState state, const P* p,
                     float same, Word one) {
  const std::int64_t number = thread_in_grid<kRandomThreads>(), at = 4 * number;
  if (at >= n) return;
  const PhiloxBlock block = block_of(state, number);
  Pack<Word, 4> pack;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float limit = p && at + i < n ? static_cast<float>(p[at + i]) : same;
    pack.v[i] = philox_uniform(block.v[i]) < limit ? one : Word(0);
  }
  store_run(out, at, n, pack, aligned);
}

template <class Word, class P>
void draw(const Stream& stream, const View& out, PhiloxState state, const P* p, float same) {
  std::uint64_t one = 0;
  dispatch_all(out.dtype, "bernoulli", [&]<class T>() {
    const T value = static_cast<T>(true);
    std::memcpy(&one, &value, sizeof(T));
  });
  Word* const to = out.as<Word>();
  launch({"bernoulli", stream, grid_for<4>(out.numel), kRandomThreads}, bernoulli_kernel<Word, P>,
         to, out.numel, is_aligned(to, 4), state, p, same, static_cast<Word>(one));
}

/// Calls f.operator()<Word, P>() with an unsigned type of the size of `dtype` and the type of its
/// probabilities.
template <class F>
void dispatch_bernoulli(DType dtype, F&& f) {
  switch (dtype) {
    case kFloat16:
      return f.template operator()<std::uint16_t, Half>();
    case kBFloat16:
      return f.template operator()<std::uint16_t, BFloat16>();
    case kFloat64:
      return f.template operator()<std::uint64_t, double>();
    case kInt64:
      return f.template operator()<std::uint64_t, float>();
    case kInt16:
      return f.template operator()<std::uint16_t, float>();
    case kFloat32:
    case kInt32:
      return f.template operator()<std::uint32_t, float>();
    default:
      return f.template operator()<std::uint8_t, float>();
  }
}

/// Writes two keys per Philox block, and the indices of the elements.
__global__ void __launch_bounds__(kRandomThreads)
    draw_keys(KeyValues pairs, std::int64_t n, PhiloxState state) {
  const std::int64_t number = thread_in_grid<kRandomThreads>(), at = 2 * number;
  if (at >= n) return;
  const PhiloxBlock block = block_of(state, number);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (at + i >= n) break;
    pairs.keys[at + i] = word_pair(block, i);
    pairs.values[at + i] = at + i;
  }
}

}  // namespace

void uniform(const Stream& stream, const View& out, PhiloxState state, double low, double high) {
  dispatch_floating(out.dtype, "uniform", [&]<class T>() {
    fill_floating<T>(stream, "uniform", out, state, ToRange<T>{UniformRange<T>(low, high)});
  });
}

void normal(const Stream& stream, const View& out, PhiloxState state, double mean, double std) {
  dispatch_floating(out.dtype, "normal", [&]<class T>() {
    using C = Compute<T>;
    fill_floating<T>(stream, "normal", out, state,
                     ToNormal<C>{static_cast<C>(mean), static_cast<C>(std)});
  });
}

void random_integers(const Stream& stream, const View& out, PhiloxState state, std::int64_t low,
                     std::int64_t high) {
  const auto first = static_cast<std::uint64_t>(low);
  launch({"randint", stream, grid_for<2>(out.numel), kRandomThreads}, integers_kernel, out.data,
         out.dtype, out.numel, state, first, static_cast<std::uint64_t>(high) - first);
}

void bernoulli(const Stream& stream, const View& out, PhiloxState state, double p) {
  dispatch_bernoulli(out.dtype, [&]<class Word, class P>() {
    draw<Word, P>(stream, out, state, nullptr, static_cast<float>(p));
  });
}

void bernoulli(const Stream& stream, const View& out, PhiloxState state, const View& p) {
  dispatch_bernoulli(
      out.dtype, [&]<class Word, class P>() { draw<Word, P>(stream, out, state, p.as<P>(), 0); });
}

void permutation(const Stream& stream, const View& out, PhiloxState state) {
  // The permutation sorts random keys; the host sorts the same keys in the same way.
  const std::int64_t n = out.numel;
  if (n == 0) return;
  const Workspace workspace(stream, static_cast<std::size_t>(n) * 4 * sizeof(std::uint64_t));
  auto* const keys = workspace.as<std::uint64_t>();
  auto* const values = reinterpret_cast<std::int64_t*>(keys + 2 * n);
  const KeyValues pairs{keys, values}, scratch{keys + n, values + n};
  launch({"draw_keys", stream, grid_for<2>(n), kRandomThreads}, draw_keys, pairs, n, state);
  View sorted = out;
  sorted.data = sort_pairs(stream, pairs, scratch, n, 64).values;
  cuda::copy(stream, out, sorted);
}

}  // namespace ferrite::kernels::cuda
