// A few results for each channel of a ChannelMatrix, in two stages whose order depends only on
// sizes. In the first, blocks store a partial result for each piece of a column (reduce_columns) or
// channel (reduce_runs); in the second, merge_partials() merges them in double.
//
// A reduction R over operands of equal layout defines what is summed:
//   R::Scalar           the type of the computation
//   R::kResults         the number of results of a channel
//   R::kUnroll          packs that a thread has in flight, a divisor of kTileUnroll
//   R::Loaded<V>        V adjacent elements of each operand; load<V>(at, row) reads them
//   R::Params<W>        parameters of W channels; params(ChannelsAt<W>) reads them
//   R::State<W>         W running results, which consist of Scalars: clear() first,
//                       settle() after the last add(), merge(later State), result(k, w)
//                       for k below kResults
//   add(state, params, loaded[N])    adds N packs, to one channel where W is 1
#pragma once

#include <algorithm>
#include <cstring>

#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/channel_matrix.cuh"
#include "ferrite/kernels/cuda/last_block.cuh"
#include "ferrite/kernels/cuda/workspace.h"

namespace ferrite::kernels::cuda {

/// The partial results, [kResults, pieces, columns], and the mapping from channels to them.
template <class S>
struct Partials {
  S* data = nullptr;
  std::int64_t pieces = 0, columns = 0;
  Divisor per_channel{1};     // of a piece
  Divisor group{1};           // adjacent columns of one channel
  std::int64_t image = 0;     // columns
  double full = 0, last = 0;  // values in a partial result of any piece, and of the last one

  __host__ __device__ std::int64_t count() const { return pieces * per_channel.value(); }
  /// The partial result `q` of `channel`.
  struct Place {
    std::int64_t at;
    double values;
  };
  __device__ Place place(std::int64_t q, std::int64_t channel) const {
    auto piece = static_cast<std::uint32_t>(q);
    std::uint32_t joined = per_channel.split(piece);
    const std::uint32_t inside = group.split(joined);
    return {piece * columns + joined * image + channel * group.value() + inside,
            piece + 1 == pieces ? last : full};
  }
  __device__ double get(int k, const Place& place) const {
    return static_cast<double>(data[k * pieces * columns + place.at]);
  }
};

/// What becomes of K plain sums of each channel.
template <class S, int K>
struct SumsTo {
  S* sum[K] = {};            // null: not needed
  const S* factor[K] = {};   // of the sum; null: 1
  S* first_again = nullptr;  // where the first sum goes, too

  bool is_empty() const {
    return first_again == nullptr && std::ranges::all_of(sum, [](const S* to) { return !to; });
  }
  __device__ void put(int k, std::int64_t channel, double value) const {
    if (factor[k] != nullptr) value *= static_cast<double>(factor[k][channel]);
    if (sum[k] != nullptr) sum[k][channel] = static_cast<S>(value);
    if (k == 0 && first_again != nullptr) first_again[channel] = static_cast<S>(value);
  }
};
/// Where the first stage of plain sums is to merge its partial results itself, and what it needs
/// for that.
template <class S, int K = 2>
struct Merged {
  SumsTo<S, K> to;
  std::int32_t* counters = nullptr;  // zeros, before and after
  std::int64_t counters_size = 0;
  double* groups = nullptr;  // set by reduce_columns() if it does merge: [K, groups, columns]
};
/// Pieces of which one block adds up the partial results.
inline constexpr unsigned kMergeGroup = 32;

/// The State of K plain sums.
template <class S, int W, int K = 2>
struct SumsState {
  S sum[K][W];

  __device__ void clear() {
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int w = 0; w < W; ++w) sum[k][w] = 0;
  }
  __device__ void settle() {}
  __device__ void merge(const SumsState& b) {
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int w = 0; w < W; ++w) sum[k][w] += b.sum[k][w];
  }
  __device__ S result(int k, int w) const { return sum[k][w]; }
};

namespace detail {

/// Adds U packs, at `at(u)` in `row(u)`, of which only the first few may exist.
template <int V, int U, class R, class State, class Params, class Where>
__device__ __forceinline__ void add_some(const R& r, State& state, const Params& params, int some,
                                         const Where& where) {
  using Loaded = typename R::template Loaded<V>;
  Loaded loaded[U];
#pragma unroll
  for (int u = 0; u < U; ++u)
    if (u < some) loaded[u] = where(u);
  if (some >= U) {
    r.template add<V>(state, params, loaded);
    return;
  }
#pragma unroll
  for (int u = 0; u < U; ++u) {
    if (u < some) {
      const Loaded one[1] = {loaded[u]};
      r.template add<V>(state, params, one);
    }
  }
}

/// Adds up `rows` rows of K doubles or floats a column, of which a block has `n` columns, up to
/// kTileThreads: from(k, row, column) is what a thread adds; put(k, column, sum) receives the sums.
/// The order depends on `rows` and `n` alone.
template <int K, class From, class Put>
__device__ void sum_rows(std::int64_t rows, unsigned n, const From& from, const Put& put) {
  FERRITE_SHARED(shared, double[K][kTileThreads]);
  const unsigned slices = kTileThreads / n, slice = threadIdx.x / n, column = threadIdx.x % n;
  double sums[K] = {};
  if (slice < slices)
    for (std::int64_t row = slice; row < rows; row += slices)
#pragma unroll
      for (int k = 0; k < K; ++k) sums[k] += from(k, row, column);
  __syncthreads();  // an earlier call's reads
#pragma unroll
  for (int k = 0; k < K; ++k) shared[k][threadIdx.x] = sums[k];
  __syncthreads();
  if (slice != 0) return;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    double sum = 0;
    for (unsigned other = 0; other < slices; ++other) sum += shared[k][other * n + column];
    put(k, column, sum);
  }
}

/// The second stage inside the first: the last block of each group of pieces adds up the group's
/// partial results, and the last of these blocks the groups'.
template <class S, int K>
__device__ void merge_in_place(const Tiles& tiles, unsigned across, unsigned piece, int pack,
                               const S* partial, const Merged<S, K>& merged) {
  const std::int64_t columns = tiles.packs * pack,
                     first = std::int64_t{across} * tiles.width * pack;
  const auto n = static_cast<unsigned>(min(columns - first, std::int64_t{tiles.width} * pack));
  const unsigned group = piece / kMergeGroup, groups = (tiles.down + kMergeGroup - 1) / kMergeGroup;
  const unsigned begin = group * kMergeGroup, some = min(tiles.down - begin, kMergeGroup);
  std::int32_t* const counters = merged.counters + across * (groups + 1);
  if (!is_last(counters + group, some)) return;
  sum_rows<K>(
      some, n,
      [&](int k, std::int64_t row, unsigned column) {
        return static_cast<double>(
            partial[(std::int64_t{k} * tiles.down + begin + row) * columns + first + column]);
      },
      [&](int k, unsigned column, double sum) {
        merged.groups[(std::int64_t{k} * groups + group) * columns + first + column] = sum;
      });
  if (!is_last(counters + groups, groups)) return;
  sum_rows<K>(
      groups, n,
      [&](int k, std::int64_t row, unsigned column) {
        return merged.groups[(std::int64_t{k} * groups + row) * columns + first + column];
      },
      [&](int k, unsigned column, double sum) { merged.to.put(k, first + column, sum); });
}

template <class R, int V>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    reduce_columns(R r, Tiles tiles, ChannelOf channel, typename R::Scalar* partial,
                   Merged<typename R::Scalar, R::kResults> merged) {
  using S = typename R::Scalar;
  using State = typename R::template State<V>;
  constexpr int kWords = sizeof(State) / sizeof(S);
  FERRITE_SHARED(shared, S[kWords][kTileThreads]);

  const unsigned across = blockIdx.x % tiles.across, piece = blockIdx.x / tiles.across;
  const unsigned down = threadIdx.x / tiles.width;
  const std::int64_t pack =
      static_cast<std::int64_t>(across) * tiles.width + (threadIdx.x - down * tiles.width);
  const std::int64_t columns = tiles.packs * V, column = pack * V;
  State state;
  state.clear();
  if (down < tiles.height && pack < tiles.packs) {
    const auto params =
        r.params(channels_of_columns<V>(channel, static_cast<std::uint32_t>(column)));
    const std::int64_t begin = piece * tiles.rows_per_block;
    const std::int64_t end = min(begin + tiles.rows_per_block, tiles.rows);
    const std::int64_t step = tiles.height;
    for (std::int64_t row = begin + down; row < end; row += R::kUnroll * step) {
      const int some = row + (R::kUnroll - 1) * step < end
                           ? R::kUnroll
                           : static_cast<int>((end - row + step - 1) / step);
      add_some<V, R::kUnroll>(r, state, params, some, [&](int u) {
        return r.template load<V>((row + u * step) * columns + column, row + u * step);
      });
    }
    state.settle();
  }

  // Merges the upper half of the rows of threads into the lower half until one row is left.
  const auto put = [&] {
    S words[kWords];
    memcpy(words, &state, sizeof(State));
#pragma unroll
    for (int i = 0; i < kWords; ++i) shared[i][threadIdx.x] = words[i];
  };
  put();
  for (unsigned rows = tiles.height; rows > 1;) {
    const unsigned half = (rows + 1) / 2;
    __syncthreads();
    if (down + half < rows) {
      S words[kWords];
#pragma unroll
      for (int i = 0; i < kWords; ++i) words[i] = shared[i][threadIdx.x + half * tiles.width];
      State later;
      memcpy(&later, words, sizeof(State));
      state.merge(later);
      put();
    }
    rows = half;
  }
  if (down == 0 && pack < tiles.packs) {
#pragma unroll
    for (int k = 0; k < R::kResults; ++k) {
      S* const to =
          partial + (static_cast<std::int64_t>(k) * tiles.down + piece) * columns + column;
#pragma unroll
      for (int i = 0; i < V; ++i) to[i] = state.result(k, i);
    }
  }
  if (merged.groups != nullptr) merge_in_place(tiles, across, piece, V, partial, merged);
}

/// The partition of one channel's packs, and the iteration over them.
struct Runs {
  std::int64_t inner = 0;  // elements
  std::uint32_t packs = 0, packs_per_piece = 0, pieces = 0, channels = 0;
  Divisor run{1};                               // packs
  std::uint32_t step_runs = 0, step_packs = 0;  // a step of kTileThreads packs
};

template <class R, int V>
__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    reduce_runs(R r, Runs runs, typename R::Scalar* partial) {
  using State = typename R::template State<1>;
  const std::uint32_t channel = blockIdx.x % runs.channels, piece = blockIdx.x / runs.channels;
  const std::uint32_t begin = piece * runs.packs_per_piece;
  const std::uint32_t end = min(begin + runs.packs_per_piece, runs.packs);
  const auto params = r.params(ChannelsAt<1>{{channel}, false});

  State state, nothing;
  state.clear();
  nothing.clear();
  std::uint32_t outer = begin + threadIdx.x;
  std::uint32_t pack = runs.run.split(outer);
  for (std::uint32_t q = begin + threadIdx.x; q < end; q += R::kUnroll * kTileThreads) {
    const int some = static_cast<int>(
        min((end - q + kTileThreads - 1) / kTileThreads, static_cast<std::uint32_t>(R::kUnroll)));
    add_some<V, R::kUnroll>(r, state, params, some, [&](int) {
      const std::int64_t row = static_cast<std::int64_t>(outer) * runs.channels + channel;
      const std::int64_t at = row * runs.inner + static_cast<std::int64_t>(pack) * V;
      outer += runs.step_runs;
      pack += runs.step_packs;
      if (pack >= runs.run.value()) {
        pack -= runs.run.value();
        ++outer;
      }
      return r.template load<V>(at, row);
    });
  }
  state.settle();
  state = block_reduce<kTileThreads>(state, nothing, [](State a, const State& b) {
    a.merge(b);
    return a;
  });
  if (threadIdx.x != 0) return;
#pragma unroll
  for (int k = 0; k < R::kResults; ++k)
    partial[(static_cast<std::int64_t>(k) * runs.pieces + piece) * runs.channels + channel] =
        state.result(k, 0);
}

}  // namespace detail

/// The first stage by columns; then finish(Partials), which launches the second, unless the first
/// has merged.
template <class R, int V, class Finish>
void reduce_columns(const Stream& stream, const char* name, const R& r, const ChannelMatrix& m,
                    const ChannelLayout& layout, bool params_aligned, const Finish& finish,
                    Merged<typename R::Scalar, R::kResults> merged = {}) {
  using S = typename R::Scalar;
  Tiles tiles(m, kWarp);
  // Pieces are long enough for few partial results, and short enough for many blocks.
  const std::int64_t per_thread = m.rows * tiles.packs / (1024 * kTileThreads);
  tiles.cut(std::clamp<std::int64_t>(per_thread / kTileUnroll * kTileUnroll, kTileUnroll,
                                     8 * kTileUnroll));
  const std::int64_t pieces = tiles.down;
  const std::int64_t groups = blocks_for(pieces, kMergeGroup);
  const bool merges =
      layout.inner == 1 && m.joined == 1 && tiles.across * (groups + 1) <= merged.counters_size;
  // Doubles come first, for their alignment.
  const auto results_of = [&](std::int64_t rows) {
    return R::kResults * static_cast<std::size_t>(rows * m.columns);
  };
  const std::size_t group_bytes = merges ? results_of(groups) * sizeof(double) : 0;
  const Workspace memory(stream, group_bytes + results_of(pieces) * sizeof(S));
  if (merges) merged.groups = memory.as<double>();
  const Partials<S> partials{
      .data = reinterpret_cast<S*>(memory.as<char>() + group_bytes),
      .pieces = pieces,
      .columns = m.columns,
      .per_channel = Divisor(static_cast<std::uint32_t>(m.joined * layout.inner)),
      .group = Divisor(static_cast<std::uint32_t>(layout.inner)),
      .image = layout.channels * layout.inner,
      .full = static_cast<double>(tiles.rows_per_block),
      .last = static_cast<double>(m.rows - (pieces - 1) * tiles.rows_per_block)};
  launch({name, stream, tiles.blocks(), kTileThreads}, detail::reduce_columns<R, V>, r, tiles,
         channel_of(layout, m, params_aligned), partials.data, merged);
  if (!merges) finish(partials);
}

/// The same by rows.
template <class R, int V, class Finish>
void reduce_runs(const Stream& stream, const char* name, const R& r, const ChannelMatrix& m,
                 const ChannelLayout& layout, const Finish& finish) {
  using S = typename R::Scalar;
  const std::int64_t run = m.packs(), packs = layout.outer * run;
  constexpr std::int64_t kLeast = kTileUnroll * kTileThreads;
  const std::int64_t wanted =
      std::clamp(packs * layout.channels / 1024 / kLeast * kLeast, kLeast, 8 * kLeast);
  const std::int64_t pieces = (packs + wanted - 1) / wanted;
  detail::Runs runs{.inner = layout.inner,
                    .packs = static_cast<std::uint32_t>(packs),
                    .packs_per_piece = static_cast<std::uint32_t>((packs + pieces - 1) / pieces),
                    .pieces = 0,
                    .channels = static_cast<std::uint32_t>(layout.channels),
                    .run = Divisor(static_cast<std::uint32_t>(run)),
                    .step_runs = static_cast<std::uint32_t>(kTileThreads / run),
                    .step_packs = static_cast<std::uint32_t>(kTileThreads % run)};
  runs.pieces = (runs.packs + runs.packs_per_piece - 1) / runs.packs_per_piece;
  const Workspace memory(
      stream, R::kResults * sizeof(S) * runs.pieces * static_cast<std::size_t>(layout.channels));
  const Partials<S> partials{
      .data = memory.as<S>(),
      .pieces = runs.pieces,
      .columns = layout.channels,
      .image = layout.channels,
      .full = static_cast<double>(runs.packs_per_piece) * V,
      .last = static_cast<double>(runs.packs - (runs.pieces - 1) * runs.packs_per_piece) * V};
  launch({name, stream, runs.pieces * runs.channels, kTileThreads}, detail::reduce_runs<R, V>, r,
         runs, partials.data);
  finish(partials);
}

/// The first stage in the form that suits the layout, with the second where `merged` and the layout
/// allow it; an empty input has no partial results.
template <class R, int V, class Finish>
void reduce_channels(const Stream& stream, const char* name, const R& r,
                     const ChannelLayout& layout, bool aligned, bool params_aligned,
                     const Finish& finish,
                     const Merged<typename R::Scalar, R::kResults>& merged = {}) {
  if (layout.channels == 0) return;
  if (layout.count() == 0) return finish(Partials<typename R::Scalar>());
  const ChannelMatrix m = channel_matrix(layout, R::kItemsize, V, aligned, 8);
  check_channels(name, layout, m);
  if (m.by_rows)
    return m.pack == V ? reduce_runs<R, V>(stream, name, r, m, layout, finish)
                       : reduce_runs<R, 1>(stream, name, r, m, layout, finish);
  return m.pack == V
             ? reduce_columns<R, V>(stream, name, r, m, layout, params_aligned, finish, merged)
             : reduce_columns<R, 1>(stream, name, r, m, layout, params_aligned, finish, merged);
}

// ---- The second stage

inline constexpr int kMergeThreads = 256;

/// How many channels a block of the second stage handles: a power of 2.
inline unsigned merged_channels(std::int64_t partials) {
  unsigned channels = 1;
  while (channels < kWarp && static_cast<std::int64_t>(channels) * 2 * partials <= kMergeThreads)
    channels *= 2;
  return channels;
}

/// Sums over the threads of a block whose indices are equal modulo `channels`; each of them
/// receives the result.
__device__ inline double sum_slices(double value, unsigned channels) {
  FERRITE_SHARED(shared, double[kMergeThreads]);
  __syncthreads();  // an earlier call's reads
  shared[threadIdx.x] = value;
  for (unsigned half = kMergeThreads / 2; half >= channels; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  __syncthreads();
  return shared[threadIdx.x % channels];
}

namespace detail {

template <class S, int K>
__global__ void __launch_bounds__(kMergeThreads)
    merge_sums(Partials<S> partials, std::int64_t channels, unsigned together, SumsTo<S, K> to) {
  const std::int64_t channel =
      static_cast<std::int64_t>(blockIdx.x) * together + threadIdx.x % together;
  const unsigned slice = threadIdx.x / together, slices = kMergeThreads / together;
  const std::int64_t n = channel < channels ? partials.count() : 0;
  double sums[K] = {};
  for (std::int64_t q = slice; q < n; q += slices) {
    const auto place = partials.place(q, channel);
#pragma unroll
    for (int k = 0; k < K; ++k) sums[k] += partials.get(k, place);
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const double sum = sum_slices(sums[k], together);
    if (slice == 0 && channel < channels) to.put(k, channel, sum);
  }
}

}  // namespace detail

/// The second stage of plain sums.
template <class S, int K>
void merge_sums(const Stream& stream, const char* name, const Partials<S>& partials,
                std::int64_t channels, const SumsTo<S, K>& to) {
  if (to.is_empty()) return;
  const unsigned together = merged_channels(partials.count());
  launch({name, stream, blocks_for(channels, together), kMergeThreads}, detail::merge_sums<S, K>,
         partials, channels, together, to);
}

}  // namespace ferrite::kernels::cuda
