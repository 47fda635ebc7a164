#include <algorithm>

#include "ferrite/core/error.h"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/divisor.cuh"
#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/cuda/pack.cuh"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/resize.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kResizeThreads = 256;
/// The number of images that a thread handles if it does not handle a pack of channels; they share
/// the index arithmetic.
constexpr int kImages = 4;
/// If a cell has at least this many results on average, the threads of a warp share it.
constexpr std::int64_t kSharedResults = 64;

/// Images as [image, row, column, channel]; NCHW is treated as NHWC with one image per plane.
struct Images {
  ResizeAxis h, w;
  std::int64_t channels;
  std::uint32_t count;
  Divisor packs, columns, rows;  // of item indices

  /// The position of a thread's elements.
  struct At {
    std::uint32_t image;
    std::int32_t row, column;
    std::int64_t channel;
  };
  template <int V, int P>
  __device__ At split(std::uint32_t item) const {
    At a;
    a.channel = static_cast<std::int64_t>(packs.split(item)) * V;
    a.column = static_cast<std::int32_t>(columns.split(item));
    a.row = static_cast<std::int32_t>(rows.split(item));
    a.image = item * P;
    return a;
  }
  __device__ std::int64_t cell(const At& a, std::int32_t row, std::int32_t column) const {
    return at(a, row, column, h.input, w.input);
  }
  __device__ std::int64_t result(const At& a, std::int32_t row, std::int32_t column) const {
    return at(a, row, column, h.output, w.output);
  }
  /// From one image to the next.
  __device__ std::int64_t cells() const { return h.input * (w.input * channels); }
  __device__ std::int64_t results() const { return h.output * (w.output * channels); }

 private:
  __device__ std::int64_t at(const At& a, std::int32_t row, std::int32_t column,
                             std::int32_t height, std::int32_t width) const {
    return ((static_cast<std::int64_t>(a.image) * height + row) * width + column) * channels +
           a.channel;
  }
};

template <class C>
__device__ __forceinline__ C mix(C a, C b, C weight) {
  return weight == 0 ? a : (1 - weight) * a + weight * b;
}

template <class T, ResizeFilter kFilter, int V, int P>
__global__ void __launch_bounds__(kResizeThreads)
    resize_kernel(const __grid_constant__ Images g, std::uint32_t items, const T* in, T* out) {
  using C = Compute<T>;
  const std::uint32_t item = blockIdx.x * kResizeThreads + threadIdx.x;
  if (item >= items) return;
  const Images::At a = g.split<V, P>(item);
  const ResizeAxis::Source h = g.h.source<kFilter>(a.row), w = g.w.source<kFilter>(a.column);
  const std::int64_t corners[4] = {g.cell(a, h.first, w.first), g.cell(a, h.first, w.second),
                                   g.cell(a, h.second, w.first), g.cell(a, h.second, w.second)};
  constexpr int kCorners = kFilter == ResizeFilter::nearest ? 1 : 4;
  Pack<T, V> cells[P][kCorners]{};
#pragma unroll
  for (int p = 0; p < P; ++p)
#pragma unroll
    for (int k = 0; k < kCorners; ++k)
      if (a.image + p < g.count) cells[p][k] = load_pack<V>(in + p * g.cells() + corners[k]);
  const std::int64_t to = g.result(a, a.row, a.column);
#pragma unroll
  for (int p = 0; p < P; ++p) {
    Pack<T, V> result = cells[p][0];
    if constexpr (kCorners == 4) {
      const C right = static_cast<C>(w.weight), down = static_cast<C>(h.weight);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const auto cell = [&](int k) { return static_cast<C>(cells[p][k].v[v]); };
        result.v[v] =
            static_cast<T>(mix(mix(cell(0), cell(1), right), mix(cell(2), cell(3), right), down));
      }
    }
    if (a.image + p < g.count) store_pack<V>(out + p * g.results() + to, result);
  }
}

/// Each input cell sums the gradients of its results.
template <class T, ResizeFilter kFilter, int V, int P>
__global__ void __launch_bounds__(kResizeThreads)
    resize_backward_kernel(const __grid_constant__ Images g, std::uint32_t items, const T* grad_out,
                           T* grad_in) {
  using C = Compute<T>;
  const std::uint32_t item = blockIdx.x * kResizeThreads + threadIdx.x;
  if (item >= items) return;
  const Images::At a = g.split<V, P>(item);
  const ResizeAxis::Results rows = g.h.results<kFilter>(a.row);
  const ResizeAxis::Results columns = g.w.results<kFilter>(a.column);
  C sums[P][V] = {};
  for (std::int32_t i = rows.begin; i < rows.end; ++i) {
    const C down = static_cast<C>(g.h.share<kFilter>(a.row, i));
    if (down == 0) continue;
    for (std::int32_t j = columns.begin; j < columns.end; ++j) {
      const C share = down * static_cast<C>(g.w.share<kFilter>(a.column, j));
      if (share == 0) continue;
      const T* const from = grad_out + g.result(a, i, j);
#pragma unroll
      for (int p = 0; p < P; ++p) {
        if (a.image + p >= g.count) continue;
        const Pack<T, V> some = load_pack<V>(from + p * g.results());
#pragma unroll
        for (int v = 0; v < V; ++v) sums[p][v] += share * static_cast<C>(some.v[v]);
      }
    }
  }
  const std::int64_t to = g.cell(a, a.row, a.column);
#pragma unroll
  for (int p = 0; p < P; ++p) {
    Pack<T, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) result.v[v] = static_cast<T>(sums[p][v]);
    if (a.image + p < g.count) store_pack<V>(grad_in + p * g.cells() + to, result);
  }
}

/// The same for cells of many results: one warp per cell.
template <class T, ResizeFilter kFilter>
__global__ void __launch_bounds__(kResizeThreads)
    resize_backward_shared(const __grid_constant__ Images g, std::uint32_t items, const T* grad_out,
                           T* grad_in) {
  using C = Compute<T>;
  const std::uint32_t item = (blockIdx.x * kResizeThreads + threadIdx.x) / kWarp;
  const Images::At a = g.split<1, 1>(min(item, items - 1));
  const ResizeAxis::Results rows = g.h.results<kFilter>(a.row);
  const ResizeAxis::Results columns = g.w.results<kFilter>(a.column);
  const auto lane = static_cast<std::int32_t>(threadIdx.x % kWarp);
  C sum = 0;
  for (std::int32_t i = rows.begin; i < rows.end; ++i) {
    const C down = static_cast<C>(g.h.share<kFilter>(a.row, i));
    if (down == 0) continue;
    for (std::int32_t j = columns.begin + lane; j < columns.end; j += kWarp) {
      const C share = down * static_cast<C>(g.w.share<kFilter>(a.column, j));
      if (share != 0) sum += share * static_cast<C>(grad_out[g.result(a, i, j)]);
    }
  }
  sum = warp_reduce(sum, Add());
  if (lane == 0 && item < items) grad_in[g.cell(a, a.row, a.column)] = static_cast<T>(sum);
}

/// Calls f(first image, images, items) for groups of images such that a launch has fewer than
/// `most` items: `rows` x `columns` x packs for each group of `together` images.
template <class F>
void for_each_launch(const Resize2d& r, const Images& images, std::int64_t together,
                     std::int64_t most, F&& f) {
  const std::int64_t count = r.channels_last ? r.batch : r.batch * r.channels;
  const std::int64_t items = static_cast<std::int64_t>(images.rows.value()) *
                             images.columns.value() * images.packs.value();
  FERRITE_CHECK(items <= most, ShapeError, "interpolate",
                "expects images of at most {} elements, got {}", most, items);
  const std::int64_t step = most / items * together;
  for (std::int64_t first = 0; first < count; first += step) {
    const std::int64_t some = std::min(step, count - first);
    f(first, static_cast<std::uint32_t>(some),
      static_cast<std::uint32_t>((some + together - 1) / together * items));
  }
}

Images images_of(const Resize2d& r, int pack, std::int32_t rows, std::int32_t columns) {
  const std::int64_t channels = r.channels_last ? r.channels : 1;
  return {.h = r.h,
          .w = r.w,
          .channels = channels,
          .count = 0,
          .packs = Divisor(static_cast<std::uint32_t>(channels / pack)),
          .columns = Divisor(static_cast<std::uint32_t>(columns)),
          .rows = Divisor(static_cast<std::uint32_t>(rows))};
}

template <class F>
void dispatch_filter(ResizeFilter filter, F&& f) {
  if (filter == ResizeFilter::nearest)
    f.template operator()<ResizeFilter::nearest>();
  else
    f.template operator()<ResizeFilter::linear>();
}

// ---- Along one dimension

using Taps = ResizeLine::Taps;

/// The window of each element that a line makes, and its weights, `width` of them.
template <class C>
struct Table {
  Taps* taps;
  C* weights;
  std::int32_t width;
};

template <class C>
__global__ void __launch_bounds__(kResizeThreads)
    resize_table(const __grid_constant__ ResizeLine line, const __grid_constant__ Table<C> table) {
  const auto o = static_cast<std::int32_t>(blockIdx.x * kResizeThreads + threadIdx.x);
  if (o < line.axis.output)
    table.taps[o] = line.taps(o, table.weights + std::int64_t{o} * table.width);
}

/// The first of `n` windows that `reached` is true of; if it is true of one, so it is of all after.
template <class F>
__device__ std::int32_t first_of(const Taps* taps, std::int32_t n, F reached) {
  std::int32_t low = 0, high = n;
  while (low < high) {
    const std::int32_t middle = low + (high - low) / 2;
    if (reached(taps[middle]))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// For each cell the results that it has a part in, and its weights there.
template <class C>
__global__ void __launch_bounds__(kResizeThreads)
    resize_transpose_table(std::int32_t cells, std::int32_t results,
                           const __grid_constant__ Table<C> from,
                           const __grid_constant__ Table<C> to) {
  const auto i = static_cast<std::int32_t>(blockIdx.x * kResizeThreads + threadIdx.x);
  if (i >= cells) return;
  const std::int32_t begin =
      first_of(from.taps, results, [&](const Taps& t) { return t.first + t.count > i; });
  const std::int32_t end = first_of(from.taps, results, [&](const Taps& t) { return t.first > i; });
  const std::int32_t count = min(end - begin, to.width);
  to.taps[i] = {begin, count};
  for (std::int32_t k = 0; k < count; ++k)
    to.weights[std::int64_t{i} * to.width + k] =
        from.weights[std::int64_t{begin + k} * from.width + i - from.taps[begin + k].first];
}

/// Its memory: the windows and weights of results, then, if needed, those of cells.
template <class C>
class TableOf {
 public:
  TableOf(const Stream& stream, const ResizeLine& line)
      : results_(bytes(line.axis.output, line.most_cells())),
        memory_(stream,
                results_ + (line.transposed ? bytes(line.axis.input, line.most_results()) : 0)) {
    const ResizeAxis& a = line.axis;
    table_ = place(0, a.output, line.most_cells());
    launch({"interpolate_table", stream, blocks_for(a.output, kResizeThreads), kResizeThreads},
           resize_table<C>, line, table_);
    if (!line.transposed) return;
    const Table<C> shares = place(results_, a.input, line.most_results());
    launch({"interpolate_table", stream, blocks_for(a.input, kResizeThreads), kResizeThreads},
           resize_transpose_table<C>, a.input, a.output, table_, shares);
    table_ = shares;
  }
  const Table<C>& get() const { return table_; }

 private:
  static std::size_t bytes(std::int32_t size, std::int32_t width) {
    return static_cast<std::size_t>(size) *
           (sizeof(Taps) + static_cast<std::size_t>(width) * sizeof(C));
  }
  Table<C> place(std::size_t offset, std::int32_t size, std::int32_t width) const {
    auto* const taps = reinterpret_cast<Taps*>(memory_.as<unsigned char>() + offset);
    return {taps, reinterpret_cast<C*>(taps + size), width};
  }

  std::size_t results_;
  Workspace memory_;
  Table<C> table_;
};

/// [count, from, inner] to [count, to, inner].
struct Lines {
  std::int64_t from, to, inner;
  std::uint32_t count;
  Divisor packs, elements;  // of item indices
};

template <class In, class Out, int V, int P>
__global__ void __launch_bounds__(kResizeThreads)
    resize_line_kernel(const __grid_constant__ Lines g,
                       const __grid_constant__ Table<Compute<In>> table, std::uint32_t items,
                       const In* in, Out* out) {
  using C = Compute<In>;
  std::uint32_t item = blockIdx.x * kResizeThreads + threadIdx.x;
  if (item >= items) return;
  const std::int64_t at = static_cast<std::int64_t>(g.packs.split(item)) * V;
  const std::int64_t element = g.elements.split(item);
  const std::uint32_t line = item * P;
  const Taps taps = table.taps[element];
  const C* const weights = table.weights + element * table.width;
  const In* from = in + (line * g.from + taps.first) * g.inner + at;
  // A sum of one element begins with -0, which leaves -0 as it is.
  C sums[P][V];
#pragma unroll
  for (int p = 0; p < P; ++p)
#pragma unroll
    for (int v = 0; v < V; ++v) sums[p][v] = taps.count == 1 ? C(-0.0) : C(0);
  for (std::int32_t k = 0; k < taps.count; ++k, from += g.inner) {
    const C weight = weights[k];
    if (weight == 0) continue;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (line + p >= g.count) continue;
      const Pack<In, V> some = load_pack<V>(from + p * g.from * g.inner);
#pragma unroll
      for (int v = 0; v < V; ++v) sums[p][v] += weight * static_cast<C>(some.v[v]);
    }
  }
  Out* const to = out + (line * g.to + element) * g.inner + at;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    Pack<Out, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) result.v[v] = static_cast<Out>(sums[p][v]);
    if (line + p < g.count) store_pack<V>(to + p * g.to * g.inner, result);
  }
}

}  // namespace

void resize2d(const Stream& stream, const Resize2d& r, const View& out, const View& in) {
  if (out.numel == 0) return;
  dispatch_floating(in.dtype, "interpolate", [&]<class T>() {
    dispatch_filter(r.filter, [&]<ResizeFilter kFilter>() {
      constexpr int V = pack_size<T>();
      const T* const x = in.as<T>();
      T* const y = out.as<T>();
      const auto run = [&](auto kernel, int pack, int together) {
        Images g = images_of(r, pack, r.h.output, r.w.output);
        const std::int64_t cells = g.channels * r.h.input * r.w.input;
        const std::int64_t results = g.channels * r.h.output * r.w.output;
        for_each_launch(
            r, g, together, INT32_MAX,
            [&](std::int64_t first, std::uint32_t count, std::uint32_t items) {
              g.count = count;
              launch({"interpolate", stream, blocks_for(items, kResizeThreads), kResizeThreads},
                     kernel, g, items, x + first * cells, y + first * results);
            });
      };
      if (r.channels_last && r.channels % V == 0 && is_aligned(x, V) && is_aligned(y, V))
        run(resize_kernel<T, kFilter, V, 1>, V, 1);
      else
        run(resize_kernel<T, kFilter, 1, kImages>, 1, kImages);
    });
  });
}

void resize2d_backward(const Stream& stream, const Resize2d& r, const View& grad_in,
                       const View& grad_out) {
  if (grad_in.numel == 0) return;
  dispatch_floating(grad_in.dtype, "interpolate", [&]<class T>() {
    dispatch_filter(r.filter, [&]<ResizeFilter kFilter>() {
      constexpr int V = pack_size<T>();
      T* const dx = grad_in.as<T>();
      const T* const dy = grad_out.as<T>();
      const auto run = [&](auto kernel, int pack, int together, int threads) {
        Images g = images_of(r, pack, r.h.input, r.w.input);
        const std::int64_t cells = g.channels * r.h.input * r.w.input;
        const std::int64_t results = g.channels * r.h.output * r.w.output;
        for_each_launch(
            r, g, together, INT32_MAX / threads,
            [&](std::int64_t first, std::uint32_t count, std::uint32_t items) {
              g.count = count;
              launch({"interpolate_backward", stream,
                      blocks_for(std::int64_t{items} * threads, kResizeThreads), kResizeThreads},
                     kernel, g, items, dy + first * results, dx + first * cells);
            });
      };
      const std::int64_t cells = std::int64_t{r.h.input} * r.w.input;
      if (!r.channels_last && std::int64_t{r.h.output} * r.w.output >= kSharedResults * cells)
        run(resize_backward_shared<T, kFilter>, 1, 1, kWarp);
      else if (r.channels_last && r.channels % V == 0 && is_aligned(dx, V) && is_aligned(dy, V))
        run(resize_backward_kernel<T, kFilter, V, 1>, V, 1, 1);
      else
        run(resize_backward_kernel<T, kFilter, 1, kImages>, 1, kImages, 1);
    });
  });
}

void resize_line(const Stream& stream, const ResizeLine& line, const View& out, const View& in) {
  if (out.numel == 0) return;
  dispatch_line(in.dtype, out.dtype, [&]<class In, class Out>() {
    constexpr int V = pack_size<In, Out>();
    const In* const x = in.as<In>();
    Out* const y = out.as<Out>();
    const TableOf<Compute<In>> table(stream, line);
    Lines g{.from = line.from(),
            .to = line.to(),
            .inner = line.inner,
            .count = 0,
            .packs = {},
            .elements = {}};
    const auto run = [&](auto kernel, int pack, int together) {
      const std::int64_t packs = g.inner / pack, items = packs * g.to;
      FERRITE_CHECK(items <= INT32_MAX, ShapeError, "interpolate",
                    "expects results of at most {} elements behind the batch, got {}", INT32_MAX,
                    items);
      g.packs = Divisor(static_cast<std::uint32_t>(packs));
      g.elements = Divisor(static_cast<std::uint32_t>(g.to));
      const std::int64_t step = std::min<std::int64_t>(INT32_MAX / items * together, INT32_MAX);
      for (std::int64_t first = 0; first < line.outer; first += step) {
        g.count = static_cast<std::uint32_t>(std::min(step, line.outer - first));
        const auto all = static_cast<std::uint32_t>((g.count + together - 1) / together * items);
        launch({"interpolate", stream, blocks_for(all, kResizeThreads), kResizeThreads}, kernel, g,
               table.get(), all, x + first * g.from * g.inner, y + first * g.to * g.inner);
      }
    };
    if (line.inner % V == 0 && is_aligned(x, V) && is_aligned(y, V))
      run(resize_line_kernel<In, Out, V, 1>, V, 1);
    else
      run(resize_line_kernel<In, Out, 1, kImages>, 1, kImages);
  });
}

}  // namespace ferrite::kernels::cuda
