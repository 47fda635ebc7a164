#include "ferrite/kernels/cuda/pool_window.cuh"
#include "ferrite/kernels/pool.h"

namespace ferrite::kernels::cuda {

namespace {

/// The factor of a window's sum.
struct Means {
  bool uniform;    // the same for all windows
  double inverse;  // the factor of all windows if `uniform`

  bool count_include_pad;

  explicit Means(const Pool2d& p)
      : uniform(p.divisor_override != 0 || (is_uniform(p, p.h) && is_uniform(p, p.w))),
        inverse(0),
        count_include_pad(p.count_include_pad) {
    if (p.divisor_override != 0)
      inverse = 1 / static_cast<double>(p.divisor_override);
    else if (uniform)
      inverse = 1 / static_cast<double>(p.h.kernel * p.w.kernel);
  }

  template <class S>
  __device__ S factor(const Planes& p, std::int32_t oh, std::int32_t ow) const {
    if (uniform) return static_cast<S>(inverse);
    return S(1) / static_cast<S>(cells(p.h, oh) * cells(p.w, ow));
  }

 private:
  /// Whether no window reaches beyond the cells that count.
  static bool is_uniform(const Pool2d& p, const PoolAxis& a) {
    const std::int64_t padding = p.count_include_pad ? a.padding : 0;
    return !a.adaptive && a.padding == padding &&
           (a.output - 1) * a.stride + a.kernel <= a.input + 2 * a.padding;
  }
  /// The number of a window's cells that count: with or without padding, but never the cells that
  /// ceil_mode adds beyond the padding.
  __device__ std::int64_t cells(const Axis& a, std::int32_t o) const {
    if (!count_include_pad || a.adaptive) return a.window(o).count;
    const std::int32_t start = o * a.stride - a.padding;
    return min(start + a.kernel, a.input + a.padding) - start;
  }
};

/// The sum over a window's row of K adjacent cells. All are loaded before the first addition.
template <int K, int V, class S, class T>
__device__ __forceinline__ void add_row(S (&sum)[V], const T* cells, std::int64_t step) {
  Pack<T, V> some[K];
#pragma unroll
  for (int k = 0; k < K; ++k) some[k] = load_pack<V>(cells + k * step);
#pragma unroll
  for (int k = 0; k < K; ++k)
#pragma unroll
    for (int v = 0; v < V; ++v) sum[v] += static_cast<S>(some[k].v[v]);
}

template <class T, int V>
__global__ void __launch_bounds__(kPoolThreads)
    mean_windows(Planes p, Means means, std::uint32_t items, const T* in, T* out) {
  using S = Compute<T>;
  const std::uint32_t item = pool_item();
  if (item >= items) return;
  const Planes::At a = p.output<V>(item);
  const PoolAxis::Window h = p.h.window(a.row), w = p.w.window(a.column);
  const std::int64_t row_step = static_cast<std::int64_t>(p.w.input) * p.channels;
  const T* row =
      in + p.at_cell(a, static_cast<std::int32_t>(h.first), static_cast<std::int32_t>(w.first));
  const auto columns = static_cast<std::int32_t>(w.count);
  S sum[V] = {};
  for (std::int64_t i = 0; i < h.count; ++i, row += row_step) {
    S in_row[V] = {};
    if (columns == 3) {
      add_row<3, V>(in_row, row, p.channels);
    } else {
      std::int32_t j = 0;
      for (; j + 4 <= columns; j += 4) add_row<4, V>(in_row, row + j * p.channels, p.channels);
      for (; j < columns; ++j) add_row<1, V>(in_row, row + j * p.channels, p.channels);
    }
#pragma unroll
    for (int v = 0; v < V; ++v) sum[v] += in_row[v];
  }
  const S factor = means.factor<S>(p, a.row, a.column);
  Pack<T, V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.v[v] = static_cast<T>(sum[v] * factor);
  store_pack<V>(out + p.at_output(a, a.row, a.column), result);
}

/// One warp, or one block, handles a window of one channel.
template <class T, bool kBlock>
__global__ void __launch_bounds__(kPoolThreads)
    mean_large_windows(Planes p, Means means, std::uint32_t windows, const T* in, T* out) {
  using S = Compute<T>;
  constexpr int kThreads = kBlock ? kPoolThreads : kWarp;
  const auto thread = static_cast<std::int32_t>(threadIdx.x % kThreads);
  const std::uint32_t item = pool_item() / kThreads;
  const Planes::At a = p.output<1>(min(item, windows - 1));
  const PoolAxis::Window h = p.h.window(a.row), w = p.w.window(a.column);
  const T* const cells =
      in + p.at_cell(a, static_cast<std::int32_t>(h.first), static_cast<std::int32_t>(w.first));
  S sum = 0;
  if (w.count > 0)
    for (CellWalk c(thread, kThreads, static_cast<std::int32_t>(w.count)); c.row < h.count;
         c.next())
      sum += static_cast<S>(cells[static_cast<std::int64_t>(c.row) * p.w.input + c.column]);
  if constexpr (kBlock)
    sum = block_reduce<kPoolThreads>(sum, S(0), Add());
  else
    sum = warp_reduce(sum, Add());
  if (thread == 0 && item < windows)
    out[p.at_output(a, a.row, a.column)] =
        static_cast<T>(sum * means.factor<S>(p, a.row, a.column));
}

/// Each input cell sums the gradients of the windows that contain it.
template <class T, int V>
__global__ void __launch_bounds__(kPoolThreads)
    mean_cells(Planes p, Means means, std::uint32_t items, const T* grad_out, T* grad_in) {
  using S = Compute<T>;
  const std::uint32_t item = pool_item();
  if (item >= items) return;
  const Planes::At a = p.cell<V>(item);
  const Axis::Holders rows = p.h.holders(a.row), columns = p.w.holders(a.column);
  S sum[V] = {};
  for (std::int32_t oh = rows.first; oh <= rows.last; ++oh)
    for (std::int32_t ow = columns.first; ow <= columns.last; ++ow) {
      const Pack<T, V> g = load_pack<V>(grad_out + p.at_output(a, oh, ow));
      const S factor = means.factor<S>(p, oh, ow);
#pragma unroll
      for (int v = 0; v < V; ++v) sum[v] += static_cast<S>(g.v[v]) * factor;
    }
  Pack<T, V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.v[v] = static_cast<T>(sum[v]);
  store_pack<V>(grad_in + p.at_cell(a, a.row, a.column), result);
}

/// 2 x 2 windows.
template <class T>
__global__ void __launch_bounds__(kPoolThreads)
    mean_halved(HalvedPlanes p, Compute<T> factor, std::uint32_t items, const T* in, T* out) {
  using S = Compute<T>;
  constexpr int V = pack_size<T>();
  const std::uint32_t item = pool_item();
  if (item >= items) return;
  const HalvedPlanes::At a = p.split<V>(item);
  S sum[V] = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::int32_t row = 2 * a.row + i;
    if (row >= p.height) continue;
    S cells[2 * V + 1];
    p.load_row<2, V>(cells, in + (a.plane * p.height + row) * p.width, a.column, S(0));
#pragma unroll
    for (int v = 0; v < V; ++v) sum[v] += cells[1 + 2 * v] + cells[2 + 2 * v];
  }
  const std::int64_t at = (a.plane * p.out_height + a.row) * p.out_width + a.column;
  Pack<T, V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.v[v] = static_cast<T>(sum[v] * factor);
  if (p.packs) return store_pack<V>(out + at, result);
#pragma unroll
  for (int v = 0; v < V; ++v)
    if (a.column + v < p.out_width) out[at + v] = result.v[v];
}

template <class T>
__global__ void __launch_bounds__(kPoolThreads)
    mean_halved_cells(HalvedPlanes p, Compute<T> factor, std::uint32_t items, const T* grad_out,
                      T* grad_in) {
  using S = Compute<T>;
  constexpr int V = pack_size<T>(), kHalf = V / 2;
  const std::uint32_t item = pool_item();
  if (item >= items) return;
  const HalvedPlanes::At a = p.split<V>(item);
  const std::int32_t row = a.row / 2, column = a.column / 2;
  const std::int64_t at = (a.plane * p.out_height + row) * p.out_width + column;
  Pack<T, kHalf> g = {};
  if (row < p.out_height) {
    if (p.packs) {
      if (column < p.out_width) g = load_pack<kHalf>(grad_out + at);
    } else {
#pragma unroll
      for (int q = 0; q < kHalf; ++q)
        if (column + q < p.out_width) g.v[q] = grad_out[at + q];
    }
  }
  Pack<T, V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.v[v] = static_cast<T>(static_cast<S>(g.v[v / 2]) * factor);
  store_pack<V>(grad_in + (a.plane * p.height + a.row) * p.width + a.column, result);
}

}  // namespace

void avg_pool2d(const Stream& stream, const Pool2d& p, const View& out, const View& in) {
  dispatch_floating(in.dtype, "avg_pool2d", [&]<class T>() {
    constexpr int V = pack_size<T>();
    T* const y = out.as<T>();
    const T* const x = in.as<T>();
    const Means means(p);
    const auto name = "avg_pool2d";
    if (is_halved(p, 2) && means.uniform && p.w.input % V == 0 && is_aligned(x, V)) {
      const HalvedPlanes planes(p, p.w.output, p.h.output, V,
                                p.w.output % V == 0 && is_aligned(y, V));
      return for_each_image_group(
          p, p.h.output * planes.groups.value(),
          [&](std::int64_t to, std::int64_t from, std::uint32_t items) {
            launch({name, stream, pool_blocks(items), kPoolThreads}, mean_halved<T>, planes,
                   static_cast<Compute<T>>(means.inverse), items, x + from, y + to);
          });
    }
    const auto run = [&](auto kernel, int pack, int sharing) {
      const Planes planes(p, pack);
      for_each_image_group(p, outputs_of(p) * planes.packs.value() * sharing,
                           [&](std::int64_t to, std::int64_t from, std::uint32_t items) {
                             launch({name, stream, pool_blocks(items), kPoolThreads}, kernel,
                                    planes, means, items / static_cast<unsigned>(sharing), x + from,
                                    y + to);
                           });
    };
    const std::int64_t channels = p.channels_last ? p.channels : 1;
    const int sharing = threads_sharing(p);
    if (sharing == kPoolThreads)
      run(mean_large_windows<T, true>, 1, sharing);
    else if (sharing == kWarp)
      run(mean_large_windows<T, false>, 1, sharing);
    else if (channels % V == 0 && is_aligned(x, V) && is_aligned(y, V))
      run(mean_windows<T, V>, V, 1);
    else
      run(mean_windows<T, 1>, 1, 1);
  });
}

void avg_pool2d_backward(const Stream& stream, const Pool2d& p, const View& grad_in,
                         const View& grad_out) {
  dispatch_floating(grad_in.dtype, "avg_pool2d", [&]<class T>() {
    constexpr int V = pack_size<T>();
    T* const dx = grad_in.as<T>();
    const T* const dy = grad_out.as<T>();
    const Means means(p);
    const auto name = "avg_pool2d_backward";
    if (is_halved(p, 2) && means.uniform && p.w.input % V == 0 && is_aligned(dx, V)) {
      const HalvedPlanes planes(p, p.w.input, p.h.input, V,
                                p.w.output % (V / 2) == 0 && is_aligned(dy, V / 2));
      return for_each_image_group(
          p, p.h.input * planes.groups.value(),
          [&](std::int64_t from, std::int64_t to, std::uint32_t items) {
            launch({name, stream, pool_blocks(items), kPoolThreads}, mean_halved_cells<T>, planes,
                   static_cast<Compute<T>>(means.inverse), items, dy + from, dx + to);
          });
    }
    const auto run = [&](auto kernel, int pack) {
      const Planes planes(p, pack);
      for_each_image_group(p, inputs_of(p) * planes.packs.value(),
                           [&](std::int64_t from, std::int64_t to, std::uint32_t items) {
                             launch({name, stream, pool_blocks(items), kPoolThreads}, kernel,
                                    planes, means, items, dy + from, dx + to);
                           });
    };
    const std::int64_t channels = p.channels_last ? p.channels : 1;
    if (channels % V == 0 && is_aligned(dx, V) && is_aligned(dy, V))
      run(mean_cells<T, V>, V);
    else
      run(mean_cells<T, 1>, 1);
  });
}

}  // namespace ferrite::kernels::cuda
