#include <type_traits>

#include "ferrite/kernels/cuda/element.cuh"
#include "ferrite/kernels/cuda/multi_tensor.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/multi_tensor.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kPartsThreads = 256;
constexpr int kUnroll = 4;
constexpr int kWordBytes = sizeof(uint4);
constexpr std::int64_t kCopyChunk =
    std::int64_t{kPartsThreads} * kUnroll * kWordBytes;  // bytes per block

struct Copy {
  void* to;
  const void* from;
  std::int64_t numel;  ///< bytes
};

/// Copies the bytes [begin, end): as many whole words as fit, and the rest byte by byte.
template <class Word>
__device__ void copy_as(const Copy& copy, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kBytes = sizeof(Word);
  const Word* const from = static_cast<const Word*>(copy.from);
  Word* const to = static_cast<Word*>(copy.to);
  const std::int64_t last = end / kBytes;
  for (std::int64_t i = begin / kBytes + threadIdx.x; i < last; i += kPartsThreads * kUnroll) {
    Word words[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (i + u * kPartsThreads < last) words[u] = from[i + u * kPartsThreads];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (i + u * kPartsThreads < last) to[i + u * kPartsThreads] = words[u];
  }
  if constexpr (kBytes > 1) {
    const std::int64_t i = last * kBytes + threadIdx.x;
    if (i < end) static_cast<char*>(copy.to)[i] = static_cast<const char*>(copy.from)[i];
  }
}

__global__ void __launch_bounds__(kPartsThreads) copy_chunks(ArrayListFor<Copy> list) {
  const int array = list.array_of(blockIdx.x);
  const Copy& copy = list.entries[array];
  const std::int64_t begin = (blockIdx.x - list.first_block[array]) * kCopyChunk;
  const std::int64_t end = copy.numel - begin < kCopyChunk ? copy.numel : begin + kCopyChunk;
  const auto address =
      reinterpret_cast<std::uintptr_t>(copy.to) | reinterpret_cast<std::uintptr_t>(copy.from);
  if (address % sizeof(uint4) == 0)
    copy_as<uint4>(copy, begin, end);
  else if (address % sizeof(std::uint32_t) == 0)
    copy_as<std::uint32_t>(copy, begin, end);
  else
    copy_as<std::uint8_t>(copy, begin, end);
}

/// N: the most inputs.
template <int N>
struct Sum {
  void* out;
  std::int64_t numel;
  std::int32_t count;
  std::int32_t aligned;  ///< whether packs may be used
  const void* in[N];
};

/// The type in which T is added: unsigned for integers, which wrap around.
template <class T, bool = std::is_integral_v<T>>
struct AddedAs {
  using type = Compute<T>;
};
template <class T>
struct AddedAs<T, true> {
  using type = std::make_unsigned_t<T>;
};

template <class T, int N, int V>
__device__ __forceinline__ void sum_pack(const Sum<N>& sum, std::int64_t i) {
  using C = typename AddedAs<T>::type;
  C values[V];
  const Pack<T, V> first = load_pack<V>(static_cast<const T*>(sum.in[0]) + i);
#pragma unroll
  for (int v = 0; v < V; ++v) values[v] = static_cast<C>(first.v[v]);
#pragma unroll 4
  for (int k = 1; k < sum.count; ++k) {
    const Pack<T, V> next = load_pack<V>(static_cast<const T*>(sum.in[k]) + i);
#pragma unroll
    for (int v = 0; v < V; ++v) values[v] += static_cast<C>(next.v[v]);
  }
  Pack<T, V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.v[v] = static_cast<T>(values[v]);
  store_pack<V>(static_cast<T*>(sum.out) + i, result);
}

template <class T>
constexpr int kPack = kPackBytes / static_cast<int>(sizeof(T));
template <class T>
constexpr std::int64_t kSumChunk =
    std::int64_t{kPartsThreads} * kUnroll* kPack<T>;  // elements per block

template <class T, int N>
__global__ void __launch_bounds__(kPartsThreads) sum_chunks(ArrayListFor<Sum<N>> list) {
  constexpr int V = kPack<T>;
  const int array = list.array_of(blockIdx.x);
  const Sum<N>& sum = list.entries[array];
  const std::int64_t begin = (blockIdx.x - list.first_block[array]) * kSumChunk<T>;
  const std::int64_t end = sum.numel - begin < kSumChunk<T> ? sum.numel : begin + kSumChunk<T>;
  std::int64_t done = begin;
  if (sum.aligned) {
    done = begin + (end - begin) / V * V;
    for (std::int64_t i = begin + threadIdx.x * V; i < done; i += kPartsThreads * V)
      sum_pack<T, N, V>(sum, i);
  }
  for (std::int64_t i = done + threadIdx.x; i < end; i += kPartsThreads) sum_pack<T, N, 1>(sum, i);
}

template <class T, int N>
void sum_as(const Stream& stream, const std::vector<SumPart>& parts,
            const std::vector<const void*>& inputs) {
  for_each_list<Sum<N>>(
      parts.size(), kSumChunk<T>,
      [&](std::size_t i) {
        const SumPart& part = parts[i];
        Sum<N> sum{part.out, part.numel, part.count, 1, {}};
        bool aligned = is_aligned(static_cast<const T*>(part.out), kPack<T>);
        for (int k = 0; k < part.count; ++k) {
          sum.in[k] = inputs[static_cast<std::size_t>(part.first + k)];
          aligned = aligned && is_aligned(static_cast<const T*>(sum.in[k]), kPack<T>);
        }
        sum.aligned = aligned;
        return sum;
      },
      [&](const ArrayListFor<Sum<N>>& list, std::size_t) {
        if (list.blocks > 0)
          launch({"sum_parts", stream, list.blocks, kPartsThreads}, sum_chunks<T, N>, list);
      });
}

}  // namespace

void copy_parts(const Stream& stream, const std::vector<CopyPart>& parts) {
  for_each_list<Copy>(
      parts.size(), kCopyChunk,
      [&](std::size_t i) {
        return Copy{parts[i].to, parts[i].from, parts[i].bytes};
      },
      [&](const ArrayListFor<Copy>& list, std::size_t) {
        if (list.blocks > 0)
          launch({"copy_parts", stream, list.blocks, kPartsThreads}, copy_chunks, list);
      });
}

void sum_parts(const Stream& stream, DType dtype, const std::vector<SumPart>& parts,
               const std::vector<const void*>& inputs) {
  std::int32_t most = 0;
  for (const SumPart& part : parts) most = part.count > most ? part.count : most;
  dispatch_numeric(dtype, "sum_parts", [&]<class T>() {
    if (most <= 4) return sum_as<T, 4>(stream, parts, inputs);
    if (most <= 16) return sum_as<T, 16>(stream, parts, inputs);
    sum_as<T, 65>(stream, parts, inputs);
  });
}

}  // namespace ferrite::kernels::cuda
