// Writing by index. Values with the same destination are applied in the order of the index, as on
// the CPU, so that results are reproducible bit for bit. A lane is the set of elements that differ
// only in the indexed dimension.
// - Different lanes have different destinations: if there are many lanes, or few elements per lane,
//   one thread processes each lane in order;
// - sums of integers do not depend on the order and use atomics;
// - otherwise elements are sorted by destination, and one thread processes those of each
//   destination.
#include <bit>
#include <type_traits>

#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/index.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/cuda/sort_pairs.h"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/index.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kScatterThreads = 256;
constexpr int kUnroll = 4;  // loads in flight while processing a lane

// Enough lanes to keep a GPU busy, and few enough elements per lane for one thread.
constexpr std::int64_t kManyLanes = 16384;
constexpr std::int64_t kShortLane = 32;

struct Assign {
  template <class T>
  __device__ void operator()(T& to, T from) const {
    to = from;
  }
};
struct AddTo {
  template <class T>
  __device__ void operator()(T& to, T from) const {
    to = static_cast<T>(to + from);
  }
};

/// Integers wrap around; NaN wins over numbers.
struct MultiplyBy {
  template <class T>
  __device__ void operator()(T& to, T from) const {
    using W = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
    to = static_cast<T>(static_cast<W>(to) * static_cast<W>(from));
  }
};
struct RaiseTo {
  template <class T>
  __device__ void operator()(T& to, T from) const {
    if (from > to || from != from) to = from;
  }
};
struct LowerTo {
  template <class T>
  __device__ void operator()(T& to, T from) const {
    if (from < to || from != from) to = from;
  }
};

// ---- One thread per lane

/// Steps along the indexed dimension.
struct LaneSteps {
  std::int64_t length, out, index, source;
};

/// `lanes`: the first element of each in out, index and source.
template <class T, class Store>
__global__ void __launch_bounds__(kScatterThreads)
    walk_lanes(StridedLoop<3> lanes, LaneSteps step, T* out, const std::int64_t* ids,
               const T* source, IndexCheck check) {
  const std::uint32_t lane = blockIdx.x * kScatterThreads + threadIdx.x;
  if (lane >= lanes.numel) return;
  const Offsets<3> at = lanes.offsets(lane);
  std::int64_t bad = -1;
  for (std::int64_t first = 0; first < step.length; first += kUnroll) {
    std::int64_t id[kUnroll];
    T value[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (first + u >= step.length) break;
      id[u] = ids[at.at[1] + (first + u) * step.index];
      value[u] = source[at.at[2] + (first + u) * step.source];
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      if (first + u >= step.length) break;
      if (check.fits(id[u]))
        Store()(out[at.at[0] + id[u] * step.out], value[u]);
      else
        bad = at.at[1] + (first + u) * step.index;
    }
  }
  if (bad >= 0) report_bad_index(check, ids[bad], bad);
}

struct Lanes {
  View out, index, source;  // of size 1 along the dimension
  LaneSteps step;

  Lanes(const View& out, const View& index, const View& source, int dim)
      : out(bases(out, index, dim)), index(index), source(source) {
    step = {index.sizes[dim], out.strides[dim], index.strides[dim], source.strides[dim]};
    for (View* v : {&this->out, &this->index, &this->source}) {
      v->sizes[dim] = 1;
      v->numel = index.numel / step.length;
    }
  }
  bool walkable() const { return step.length <= kShortLane || out.numel >= kManyLanes; }

  template <class T, class Store>
  void walk(const Stream& stream, const IndexCheck& check) const {
    for_each_loop(LoopNest<3>({&out, &index, &source}), [&](const StridedLoop<3>& loop) {
      launch({"walk_lanes", stream, blocks_for(loop.numel, kScatterThreads), kScatterThreads},
             walk_lanes<T, Store>, loop, step, out.as<T>(),
             static_cast<const std::int64_t*>(index.as<std::int64_t>()),
             static_cast<const T*>(source.as<T>()), check);
    });
  }
};

// ---- Integers

__device__ __forceinline__ void add_atomically(std::int32_t* to, std::int32_t value) {
  atomicAdd(to, value);
}
__device__ __forceinline__ void add_atomically(std::int64_t* to, std::int64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

/// `loop`: out without its step along the dimension, index, source.
template <class T>
__global__ void __launch_bounds__(kScatterThreads)
    add_each_integer(StridedLoop<3> loop, T* out, std::int64_t out_step, const std::int64_t* ids,
                     const T* source, T alpha, IndexCheck check) {
  using Wrapping = std::make_unsigned_t<T>;
  const std::uint32_t i = blockIdx.x * kScatterThreads + threadIdx.x;
  if (i >= loop.numel) return;
  const Offsets<3> at = loop.offsets(i);
  const std::int64_t id = ids[at.at[1]];
  if (!check.fits(id)) return report_bad_index(check, id, at.at[1]);
  add_atomically(
      out + at.at[0] + id * out_step,
      static_cast<T>(static_cast<Wrapping>(alpha) * static_cast<Wrapping>(source[at.at[2]])));
}

/// `index` has the sizes of `source`; `check` has the caller's geometry of it, for messages.
template <class T>
void add_integers(const Stream& stream, const View& out, const View& index, const View& source,
                  int dim, T alpha, const IndexCheck& check) {
  const View base = bases(out, index, dim);
  for_each_loop(LoopNest<3>({&base, &index, &source}), [&](const StridedLoop<3>& loop) {
    launch({"add_integers", stream, blocks_for(loop.numel, kScatterThreads), kScatterThreads},
           add_each_integer<T>, loop, out.as<T>(), out.strides[dim],
           static_cast<const std::int64_t*>(index.as<std::int64_t>()),
           static_cast<const T*>(source.as<T>()), alpha, check);
  });
}

// ---- Sorted by destination

/// A key is a destination, or `limit` if the index is out of range; a value is a source offset.
/// `loop`: the base of destinations, the index, and the sources.
__global__ void __launch_bounds__(kScatterThreads)
    make_pairs(StridedLoop<3> loop, std::int64_t step, const std::int64_t* ids, std::uint64_t limit,
               KeyValues pairs, IndexCheck check) {
  const std::uint32_t i = blockIdx.x * kScatterThreads + threadIdx.x;
  if (i >= loop.numel) return;
  const Offsets<3> at = loop.offsets(i);
  const std::int64_t id = ids[at.at[1]];
  const bool fits = check.fits(id);
  if (!fits) report_bad_index(check, id, at.at[1]);
  pairs.keys[i] = fits ? static_cast<std::uint64_t>(at.at[0] + id * step) : limit;
  pairs.values[i] = at.at[2];
}

/// Destinations and sources, sorted.
class Destinations {
 public:
  /// From views of one shape, as for make_pairs.
  Destinations(const Stream& stream, const View& base, std::int64_t step, const View& index,
               const View& read, std::uint64_t limit, const IndexCheck& check)
      : count(index.numel),
        limit(limit),
        space_(stream, 4 * static_cast<std::size_t>(index.numel) * sizeof(std::uint64_t)) {
    auto* const words = space_.as<std::uint64_t>();
    const KeyValues made{words, reinterpret_cast<std::int64_t*>(words + count)};
    const KeyValues scratch{words + 2 * count, reinterpret_cast<std::int64_t*>(words + 3 * count)};
    KeyValues next = made;
    for_each_loop(LoopNest<3>({&base, &index, &read}), [&](const StridedLoop<3>& loop) {
      launch({"make_pairs", stream, blocks_for(loop.numel, kScatterThreads), kScatterThreads},
             make_pairs, loop, step, static_cast<const std::int64_t*>(index.as<std::int64_t>()),
             limit, next, check);
      next.keys += loop.numel;
      next.values += loop.numel;
    });
    sorted = sort_pairs(stream, made, scratch, count, std::bit_width(limit));
  }

  std::int64_t count;
  std::uint64_t limit;
  KeyValues sorted;

 private:
  Workspace space_;
};

/// The destinations of single elements: offsets from the first element of `out` and of `source`.
Destinations element_destinations(const Stream& stream, const View& out, const View& index,
                                  const View& source, int dim, const IndexCheck& check) {
  std::uint64_t span = 1;
  for (int d = 0; d < out.ndim; ++d)
    span += static_cast<std::uint64_t>((out.sizes[d] - 1) * out.strides[d]);
  View read = source;
  std::copy_n(index.sizes, index.ndim, read.sizes);
  return {stream, bases(out, index, dim), out.strides[dim], index, read, span, check};
}

/// The last value of each destination is kept.
template <class Word>
__global__ void __launch_bounds__(kScatterThreads)
    assign_last(KeyValues pairs, std::int64_t count, std::uint64_t limit, Word* out,
                const Word* source) {
  const std::int64_t i = thread_in_grid<kScatterThreads>();
  if (i >= count) return;
  const std::uint64_t key = pairs.keys[i];
  if (key == limit || (i + 1 < count && pairs.keys[i + 1] == key)) return;
  out[key] = source[pairs.values[i]];
}

/// The thread of a destination's first pair joins all of its sources, in order.
template <class T, class Store>
__global__ void __launch_bounds__(kScatterThreads)
    join_elements(KeyValues pairs, std::int64_t count, std::uint64_t limit, T* out,
                  const T* source) {
  std::int64_t i = thread_in_grid<kScatterThreads>();
  if (i >= count) return;
  const std::uint64_t key = pairs.keys[i];
  if (key == limit || (i > 0 && pairs.keys[i - 1] == key)) return;
  T joined = out[key];
  for (; i < count && pairs.keys[i] == key; ++i) Store()(joined, source[pairs.values[i]]);
  out[key] = joined;
}

template <int V, class T, class S>
__device__ __forceinline__ void add_pack(Pack<T, V>& sum, const Pack<S, V>& values, T alpha) {
#pragma unroll
  for (int i = 0; i < V; ++i)
    sum.v[i] = static_cast<T>(sum.v[i] + alpha * static_cast<T>(values.v[i]));
}

/// The strides between destinations and between sources.
struct SliceSteps {
  std::int64_t out, source;
};

/// The thread of a destination's first pair adds all slices of the destination, in order. `lanes`
/// (packs of V, in out and source) and the thread's index give the elements of the slices that it
/// handles.
template <int V, class T, class S>
__global__ void __launch_bounds__(kScatterThreads)
    add_slices(StridedLoop<2> lanes, Divisor lane_count, KeyValues pairs, std::int64_t first,
               std::int64_t count, std::uint64_t limit, SliceSteps step, T* out, const S* source,
               T alpha) {
  std::uint32_t rest = blockIdx.x * kScatterThreads + threadIdx.x;
  const std::uint32_t lane = lane_count.split(rest);
  std::int64_t i = first + rest;
  if (i >= count) return;
  const std::uint64_t key = pairs.keys[i];
  if (key == limit || (i > 0 && pairs.keys[i - 1] == key)) return;
  const Offsets<2> at = lanes.offsets(lane);
  T* const to = out + at.at[0] + static_cast<std::int64_t>(key) * step.out;
  const S* const from = source + at.at[1];
  Pack<T, V> sum = load_pack<V>(to);
  for (; i + kUnroll <= count && pairs.keys[i + kUnroll - 1] == key; i += kUnroll) {
    Pack<S, V> values[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      values[u] = load_pack<V>(from + pairs.values[i + u] * step.source);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) add_pack(sum, values[u], alpha);
  }
  for (; i < count && pairs.keys[i] == key; ++i)
    add_pack(sum, load_pack<V>(from + pairs.values[i] * step.source), alpha);
  store_pack<V>(to, sum);
}

/// Views the lanes of slices as packs of `elements`, if their strides and alignment allow it;
/// returns whether they do.
bool pack_lanes(LoopNest<2>& nest, const SliceSteps& step, int elements) {
  const int inner = nest.ndim - 1;
  bool fits = nest.strides[inner][0] == 1 && nest.strides[inner][1] == 1 &&
              nest.sizes[inner] % elements == 0 && step.out % elements == 0 &&
              step.source % elements == 0;
  for (int d = 0; d < inner; ++d)
    fits = fits && nest.strides[d][0] % elements == 0 && nest.strides[d][1] % elements == 0;
  if (!fits) return false;
  nest.sizes[inner] /= elements;
  nest.numel /= elements;
  nest.strides[inner] = {elements, elements};
  return true;
}

template <int V, class T, class S>
void add_slices_packed(const Stream& stream, const LoopNest<2>& nest, const Destinations& d,
                       const SliceSteps& step, T* out, const S* source, T alpha) {
  for_each_loop(nest, [&](const StridedLoop<2>& lanes) {
    const std::int64_t most = kMaxLoopElements / lanes.numel;  // slices per launch
    for (std::int64_t first = 0; first < d.count; first += most) {
      const std::int64_t threads = std::min(most, d.count - first) * lanes.numel;
      launch({"add_slices", stream, blocks_for(threads, kScatterThreads), kScatterThreads},
             add_slices<V, T, S>, lanes, Divisor(lanes.numel), d.sorted, first, d.count, d.limit,
             step, out, source, alpha);
    }
  });
}

/// `lanes_out` and `lanes_source`: one slice of each.
template <class T, class S>
void add_slices_of(const Stream& stream, const View& lanes_out, const View& lanes_source,
                   const Destinations& d, const SliceSteps& step, T alpha) {
  LoopNest<2> nest({&lanes_out, &lanes_source});
  T* const out = lanes_out.as<T>();
  const S* const source = lanes_source.as<S>();
  constexpr int kPack = pack_size<T, S>();
  if constexpr (sizeof(T) > 1)  // bytes are too rare to deserve kernels for packs
    if (is_aligned(out, kPack) && is_aligned(source, kPack) && pack_lanes(nest, step, kPack))
      return add_slices_packed<kPack, T, S>(stream, nest, d, step, out, source, alpha);
  add_slices_packed<1, T, S>(stream, nest, d, step, out, source, alpha);
}

/// A view of the one element at `v.data`.
View one_element(const View& v) {
  View one = v;
  one.ndim = 0;
  one.numel = 1;
  return one;
}

}  // namespace

void scatter(const Stream& stream, const char* op, const View& out, const View& index,
             const View& source, int dim) {
  if (index.numel == 0) return;
  const IndexCheck check(stream, op, out.sizes[dim], index);
  const Lanes lanes(out, index, source, dim);
  if (lanes.walkable())
    return dispatch_words(itemsize(out.dtype),
                          [&]<class Word>() { lanes.walk<Word, Assign>(stream, check); });
  const Destinations d = element_destinations(stream, out, index, source, dim, check);
  dispatch_words(itemsize(out.dtype), [&]<class Word>() {
    launch({"assign_last", stream, blocks_for(d.count, kScatterThreads), kScatterThreads},
           assign_last<Word>, d.sorted, d.count, d.limit, out.as<Word>(),
           static_cast<const Word*>(source.as<Word>()));
  });
}

void scatter_add(const Stream& stream, const char* op, const View& out, const View& index,
                 const View& source, int dim) {
  if (index.numel == 0) return;
  const IndexCheck check(stream, op, out.sizes[dim], index);
  const Lanes lanes(out, index, source, dim);
  const auto add = [&]<class T>() {
    if constexpr (std::is_integral_v<T> && sizeof(T) > 2) {
      add_integers<T>(stream, out, index, source, dim, 1, check);
    } else if (lanes.walkable()) {
      lanes.walk<T, AddTo>(stream, check);
    } else {
      const Destinations d = element_destinations(stream, out, index, source, dim, check);
      add_slices_of<T, T>(stream, one_element(out), one_element(source), d, {1, 1}, T(1));
    }
  };
  dispatch_added(out.dtype, op, add);
}

void scatter_reduce(const Stream& stream, const char* op, Scattered how, const View& out,
                    const View& index, const View& source, int dim) {
  if (index.numel == 0) return;
  const IndexCheck check(stream, op, out.sizes[dim], index);
  const Lanes lanes(out, index, source, dim);
  const auto join = [&]<class T, class Store>() {
    if (lanes.walkable()) return lanes.walk<T, Store>(stream, check);
    const Destinations d = element_destinations(stream, out, index, source, dim, check);
    launch({"join_elements", stream, blocks_for(d.count, kScatterThreads), kScatterThreads},
           join_elements<T, Store>, d.sorted, d.count, d.limit, out.as<T>(),
           static_cast<const T*>(source.as<T>()));
  };
  dispatch_added(out.dtype, op, [&]<class T>() {
    switch (how) {
      case Scattered::prod:
        return join.template operator()<T, MultiplyBy>();
      case Scattered::max:
        return join.template operator()<T, RaiseTo>();
      case Scattered::min:
        return join.template operator()<T, LowerTo>();
    }
  });
}

void index_add(const Stream& stream, const char* op, const View& out, const View& index,
               const View& source, int dim, Scalar alpha) {
  if (source.numel == 0) return;
  const IndexCheck check(stream, op, out.sizes[dim], index);
  const auto add = [&]<class T, class S>() {
    const T a = alpha.cast<T>();
    if constexpr (std::is_integral_v<T> && sizeof(T) > 2) {
      add_integers<T>(stream, out, broadcast_index(index, source, dim), source, dim, a, check);
    } else {
      View none = index, numbers = index;
      none.strides[0] = 0;
      numbers.strides[0] = 1;
      const Destinations d(stream, none, 1, index, numbers,
                           static_cast<std::uint64_t>(out.sizes[dim]), check);
      View slice_out = bases(out, source, dim), slice_source = source;
      for (View* v : {&slice_out, &slice_source}) {
        v->sizes[dim] = 1;
        v->numel = source.numel / source.sizes[dim];
      }
      add_slices_of<T, S>(stream, slice_out, slice_source, d,
                          {out.strides[dim], source.strides[dim]}, a);
    }
  };
  dispatch_added(out.dtype, op, [&]<class T>() {
    if constexpr (std::is_same_v<T, float>) {
      if (source.dtype == kFloat16) return add.template operator()<float, Half>();
      if (source.dtype == kBFloat16) return add.template operator()<float, BFloat16>();
    }
    add.template operator()<T, T>();
  });
}

}  // namespace ferrite::kernels::cuda
