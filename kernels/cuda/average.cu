// Averages of many arrays at once.
#include "ferrite/core/dtype.h"
#include "ferrite/kernels/average.h"
#include "ferrite/kernels/cuda/multi_tensor.cuh"
#include "ferrite/kernels/cuda/pack.cuh"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kAverageThreads = 256;
constexpr std::int64_t kAverageChunk = 4096;  // elements per block

struct Pair {
  void* average;
  const void* value;
  std::int64_t numel;
};
using Pairs = ArrayListFor<Pair>;

/// One thread.
__global__ void next_weight(std::int64_t* count, double* weight, AverageArgs args) {
  *weight = weight_of_next(args, *count);
  ++*count;
}

/// Handles elements [begin, end): each thread U packs of V elements at a time.
template <int V, int U, class A, class B>
__device__ __forceinline__ void average_chunk(A* average, const B* value, double weight,
                                              std::int64_t begin, std::int64_t end) {
  using C = Compute<A>;
  const auto w = static_cast<C>(weight);
  const bool copies = weight == 1;  // even if the average holds NaN
  for (std::int64_t first = begin + threadIdx.x * V; first < end;
       first += kAverageThreads * V * U) {
    Pack<A, V> a[U];
    Pack<B, V> b[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const std::int64_t at = first + u * kAverageThreads * V;
      if (at >= end) break;
      a[u] = load_pack<V>(average + at);
      b[u] = load_pack<V>(value + at);
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const std::int64_t at = first + u * kAverageThreads * V;
      if (at >= end) break;
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const auto old = static_cast<C>(a[u].v[i]);
        const auto next = static_cast<C>(b[u].v[i]);
        a[u].v[i] = static_cast<A>(copies ? next : old + w * (next - old));
      }
      store_pack<V>(average + at, a[u]);
    }
  }
}

template <class A, class B>
__global__ void __launch_bounds__(kAverageThreads)
    average_arrays(Pairs list, const double* weight) {
  const int array = list.array_of(blockIdx.x);
  const Pair& pair = list.entries[array];
  auto* const average = static_cast<A*>(pair.average);
  const auto* const value = static_cast<const B*>(pair.value);
  const std::int64_t begin = (blockIdx.x - list.first_block[array]) * kAverageChunk;
  const std::int64_t end = begin + kAverageChunk < pair.numel ? begin + kAverageChunk : pair.numel;
  constexpr int kAveragePack = pack_size<A, B>();
  const std::uintptr_t bits =
      reinterpret_cast<std::uintptr_t>(average) | reinterpret_cast<std::uintptr_t>(value);
  std::int64_t done = begin;
  if (bits % kPackBytes == 0) {
    done = end - end % kAveragePack;
    average_chunk<kAveragePack, 2>(average, value, *weight, begin, done);
  }
  average_chunk<1, 4>(average, value, *weight, done, end);
}

}  // namespace

void average_weight(const Stream& stream, std::int64_t* count, const View& weight,
                    const AverageArgs& args) {
  launch({"average_weight", stream, 1, 1}, next_weight, count, weight.as<double>(), args);
}

void average_all(const Stream& stream, const FlatTensors& averages, const FlatTensors& values,
                 const View& weight) {
  const auto run = [&]<class A, class B>() {
    for_each_list<Pair>(
        averages.arrays.size(), kAverageChunk,
        [&](std::size_t i) {
          return Pair{averages.arrays[i].data, values.arrays[i].data, averages.arrays[i].numel};
        },
        [&](const Pairs& list, std::size_t) {
          launch({"average_all", stream, list.blocks, kAverageThreads}, average_arrays<A, B>, list,
                 static_cast<const double*>(weight.as<double>()));
        });
  };
  if (averages.dtype == values.dtype)
    return dispatch_floating(averages.dtype, "average_all",
                             [&]<class T>() { run.template operator()<T, T>(); });
  if (averages.dtype == kFloat32)
    return dispatch_types<Half, BFloat16>(values.dtype, "average_all",
                                          [&]<class T>() { run.template operator()<float, T>(); });
  dispatch_types<float>(values.dtype, "average_all", [&]<class From>() {
    dispatch_types<Half, BFloat16>(averages.dtype, "average_all",
                                   [&]<class T>() { run.template operator()<T, From>(); });
  });
}

}  // namespace ferrite::kernels::cuda
