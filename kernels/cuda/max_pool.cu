#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/cuda/pool_maximum.cuh"
#include "ferrite/kernels/cuda/pool_sums.cuh"
#include "ferrite/kernels/cuda/pool_window.cuh"
#include "ferrite/kernels/pool.h"

namespace ferrite::kernels::cuda {

namespace {

template <class T, int V>
__global__ void __launch_bounds__(kPoolThreads)
    max_windows(Planes p, std::uint32_t items, const T* in, T* out, Codes code, Cleared cleared) {
  const std::uint32_t item = pool_item();
  cleared.clear(item, gridDim.x * kPoolThreads);
  if (item >= items) return;
  const Planes::At a = p.output<V>(item);
  const PoolAxis::Window h = p.h.window(a.row), w = p.w.window(a.column);
  const std::int64_t column_step = p.w.dilation * p.channels;
  const std::int64_t row_step = p.h.dilation * static_cast<std::int64_t>(p.w.input) * p.channels;
  const T* row =
      in + p.at_cell(a, static_cast<std::int32_t>(h.first), static_cast<std::int32_t>(w.first));
  const auto columns = static_cast<std::int32_t>(w.count);
  auto place = static_cast<std::int32_t>(h.skip * p.places + w.skip);
  Maximum<Compute<T>, V> m(place);
  for (std::int64_t i = 0; i < h.count; ++i) {
    if (columns == 3) {
      m.template see_row<3>(row, column_step, place);
    } else {
      std::int32_t j = 0;
      for (; j + 4 <= columns; j += 4)
        m.template see_row<4>(row + j * column_step, column_step, place + j);
      for (; j < columns; ++j) m.template see_row<1>(row + j * column_step, column_step, place + j);
    }
    row += row_step;
    place += p.places;
  }
  Pack<T, V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.v[v] = static_cast<T>(m.best[v]);
  const std::int64_t at = p.at_output(a, a.row, a.column);
  store_pack<V>(out + at, result);
  code.store(at, m.place);
}

/// One thread's result for a window that several threads share. The larger value wins, the first of
/// equal values, and the last NaN.
template <class S>
struct Candidate {
  S value;
  std::int32_t place;
};
struct Better {
  template <class S>
  __device__ Candidate<S> operator()(const Candidate<S>& a, const Candidate<S>& b) const {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan || b_nan) return b_nan && (!a_nan || b.place > a.place) ? b : a;
    if (a.value != b.value) return b.value > a.value ? b : a;
    return b.place < a.place ? b : a;
  }
};

/// One warp, or one block, handles a window of one channel.
template <class T, bool kBlock>
__global__ void __launch_bounds__(kPoolThreads)
    max_large_windows(Planes p, std::uint32_t windows, const T* in, T* out, Codes code,
                      Cleared cleared) {
  cleared.clear(pool_item(), gridDim.x * kPoolThreads);
  using S = Compute<T>;
  constexpr int kThreads = kBlock ? kPoolThreads : kWarp;
  const auto thread = static_cast<std::int32_t>(threadIdx.x % kThreads);
  const std::uint32_t item = pool_item() / kThreads;
  const Planes::At a = p.output<1>(min(item, windows - 1));
  const PoolAxis::Window h = p.h.window(a.row), w = p.w.window(a.column);
  const T* const cells =
      in + p.at_cell(a, static_cast<std::int32_t>(h.first), static_cast<std::int32_t>(w.first));
  const auto first_place = static_cast<std::int32_t>(h.skip * p.places + w.skip);
  Maximum<S, 1> m(first_place);
  for (CellWalk c(thread, kThreads, static_cast<std::int32_t>(w.count));
       w.count > 0 && c.row < h.count; c.next()) {
    const std::int64_t at =
        static_cast<std::int64_t>(c.row) * p.h.dilation * p.w.input + c.column * p.w.dilation;
    m.see(0, static_cast<S>(cells[at]), first_place + c.row * p.places + c.column);
  }
  Candidate<S> best{m.best[0], m.place[0]};
  if constexpr (kBlock) {
    const Candidate<S> nothing{-std::numeric_limits<S>::infinity(), first_place};
    best = block_reduce<kPoolThreads>(best, nothing, Better());
  } else {
    best = warp_reduce(best, Better());
  }
  if (thread != 0 || item >= windows) return;
  const std::int64_t at = p.at_output(a, a.row, a.column);
  out[at] = static_cast<T>(best.value);
  const std::int32_t place[1] = {best.place};
  code.store(at, place);
}

/// Each input cell sums the gradients of the windows whose maximum it is.
template <class T, int V>
__global__ void __launch_bounds__(kPoolThreads)
    max_cells(Planes p, std::uint32_t items, const T* grad_out, Codes code, const T* relu_out,
              T* grad_in, ChannelSums<T> sums) {
  using S = Compute<T>;
  if (blockIdx.x < sums.blocks()) return sums.run();
  const std::uint32_t item = item_behind(sums);
  if (item >= items) return;
  const Planes::At a = p.cell<V>(item);
  S sum[V] = {};
  gather_gradients(sum, p, a, grad_out, code, relu_out);
  Pack<T, V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.v[v] = static_cast<T>(sum[v]);
  store_pack<V>(grad_in + p.at_cell(a, a.row, a.column), result);
}

template <class T, int K>
__global__ void __launch_bounds__(kPoolThreads)
    max_halved(HalvedPlanes p, std::uint32_t items, const T* in, T* out, std::uint8_t* code,
               Cleared cleared) {
  cleared.clear(pool_item(), gridDim.x * kPoolThreads);
  using S = Compute<T>;
  constexpr int V = pack_size<T>(), kPadding = (K - 1) / 2;
  const std::uint32_t item = pool_item();
  if (item >= items) return;
  const HalvedPlanes::At a = p.split<V>(item);
  const S lowest = -std::numeric_limits<S>::infinity();
  Maximum<S, V> m(kPadding > 0 && a.row == 0 ? K : 0);
  if (kPadding > 0 && a.column == 0) m.place[0] += 1;
#pragma unroll
  for (int i = 0; i < K; ++i) {
    const std::int32_t row = 2 * a.row - kPadding + i;
    if (row < 0 || row >= p.height) continue;
    S cells[2 * V + 1];
    p.load_row<K, V>(cells, in + (a.plane * p.height + row) * p.width, a.column, lowest);
#pragma unroll
    for (int v = 0; v < V; ++v)
#pragma unroll
      for (int j = 0; j < K; ++j) m.see(v, cells[1 - kPadding + 2 * v + j], i * K + j);
  }
  const std::int64_t at = (a.plane * p.out_height + a.row) * p.out_width + a.column;
  if (p.packs) {
    Pack<T, V> result;
    Pack<std::uint8_t, V> codes;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      result.v[v] = static_cast<T>(m.best[v]);
      codes.v[v] = static_cast<std::uint8_t>(m.place[v]);
    }
    store_pack<V>(out + at, result);
    if (code != nullptr) store_pack<V>(code + at, codes);
    return;
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (a.column + v >= p.out_width) break;
    out[at + v] = static_cast<T>(m.best[v]);
    if (code != nullptr) code[at + v] = static_cast<std::uint8_t>(m.place[v]);
  }
}

template <class T, int K>
__global__ void __launch_bounds__(kPoolThreads)
    max_halved_cells(HalvedPlanes p, std::uint32_t items, const T* grad_out,
                     const std::uint8_t* code, const T* relu_out, T* grad_in, ChannelSums<T> sums) {
  using S = Compute<T>;
  constexpr int V = pack_size<T>(), kHalf = V / 2, kPadding = (K - 1) / 2;
  if (blockIdx.x < sums.blocks()) return sums.run();
  const std::uint32_t item = item_behind(sums);
  if (item >= items) return;
  const HalvedPlanes::At a = p.split<V>(item);
  const std::int32_t column = a.column / 2;
  const std::int32_t last = min((a.row + kPadding) / 2, p.out_height - 1);
  S sum[V] = {};
  for (std::int32_t oh = (a.row + kPadding - K + 2) / 2; oh <= last; ++oh) {
    const std::int64_t at = (a.plane * p.out_height + oh) * p.out_width + column;
    const std::int32_t first_place = (a.row + kPadding - 2 * oh) * K;
    // The gradients of the windows from `column` on that contain these cells: half a pack, and one
    // more for K == 3.
    S g[kHalf + kPadding];
    std::int32_t chosen[kHalf + kPadding];
    if (p.packs && column < p.out_width) {
      const Pack<T, kHalf> gs = load_pack<kHalf>(grad_out + at);
      const Pack<std::uint8_t, kHalf> codes = load_pack<kHalf>(code + at);
#pragma unroll
      for (int q = 0; q < kHalf; ++q) {
        g[q] = static_cast<S>(gs.v[q]);
        chosen[q] = codes.v[q] - first_place;
      }
      if (relu_out != nullptr) {
        const Pack<T, kHalf> maxima = load_pack<kHalf>(relu_out + at);
#pragma unroll
        for (int q = 0; q < kHalf; ++q) g[q] = pass(g[q], maxima.v[q]);
      }
    }
#pragma unroll
    for (int q = 0; q < kHalf + kPadding; ++q) {
      if (p.packs && q < kHalf && column < p.out_width) continue;
      const bool inside = column + q < p.out_width;
      g[q] = inside ? static_cast<S>(grad_out[at + q]) : S(0);
      if (inside && relu_out != nullptr) g[q] = pass(g[q], relu_out[at + q]);
      chosen[q] = inside ? code[at + q] - first_place : -1;
    }
#pragma unroll
    for (int q = 0; q < kHalf + kPadding; ++q)
#pragma unroll
      for (int j = 0; j < K; ++j) {
        const int cell = 2 * q - kPadding + j;
        if (cell >= 0 && cell < V && chosen[q] == j) sum[cell] += g[q];
      }
  }
  Pack<T, V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.v[v] = static_cast<T>(sum[v]);
  store_pack<V>(grad_in + (a.plane * p.height + a.row) * p.width + a.column, result);
}

/// The input cell that a result's code refers to, row-major in its plane.
struct Chosen {
  Planes planes;
  Divisor places;

  explicit Chosen(const Pool2d& p)
      : planes(p, 1), places(static_cast<std::uint32_t>(planes.places)) {}
  __device__ void cell(const Planes::At& a, std::int32_t code, std::int32_t& row,
                       std::int32_t& column) const {
    auto in_row = static_cast<std::uint32_t>(code);
    const auto in_column = static_cast<std::int32_t>(places.split(in_row));
    const PoolAxis::Window h = planes.h.window(a.row), w = planes.w.window(a.column);
    row = static_cast<std::int32_t>(h.first + (in_row - h.skip) * planes.h.dilation);
    column = static_cast<std::int32_t>(w.first + (in_column - w.skip) * planes.w.dilation);
  }
};

template <class Word>
__global__ void __launch_bounds__(kPoolThreads)
    gather_chosen(Chosen chosen, std::uint32_t items, Codes code, const Word* in, Word* out) {
  const std::uint32_t item = pool_item();
  if (item >= items) return;
  const Planes::At a = chosen.planes.output<1>(item);
  std::int32_t row, column;
  chosen.cell(a, code.load<1>(item).v[0], row, column);
  out[item] = in[chosen.planes.at_cell(a, row, column)];
}

__global__ void __launch_bounds__(kPoolThreads)
    index_chosen(Chosen chosen, std::uint32_t items, Codes code, std::int64_t* out) {
  const std::uint32_t item = pool_item();
  if (item >= items) return;
  const Planes::At a = chosen.planes.output<1>(item);
  std::int32_t row, column;
  chosen.cell(a, code.load<1>(item).v[0], row, column);
  out[item] = static_cast<std::int64_t>(row) * chosen.planes.w.input + column;
}

template <class T, int K>
void launch_halved(const Stream& stream, const Pool2d& p, T* out, Codes code, const T* in,
                   const Cleared& cleared) {
  constexpr int V = pack_size<T>();
  const bool packs = p.w.output % V == 0 && is_aligned(out, V) && code.is_aligned(V);
  const HalvedPlanes planes(p, p.w.output, p.h.output, V, packs);
  for_each_group(p, p.h.output * planes.groups.value(), [&](std::int64_t first, auto items) {
    launch({"max_pool2d", stream, pool_blocks(items), kPoolThreads}, max_halved<T, K>, planes,
           items, in + first * inputs_of(p), out + first * outputs_of(p),
           code.narrow ? code.narrow + first * outputs_of(p) : nullptr, cleared);
  });
}

template <class T, int K>
void launch_halved_backward(const Stream& stream, const Pool2d& p, T* grad_in, const T* grad_out,
                            Codes code, const T* relu_out, SumsOf<T>& sums) {
  constexpr int V = pack_size<T>();
  const bool packs = p.w.output % (V / 2) == 0 && is_aligned(grad_out, V / 2) &&
                     is_aligned(relu_out, V / 2) && code.is_aligned(V / 2);
  const HalvedPlanes planes(p, p.w.input, p.h.input, V, packs);
  for_each_group(p, p.h.input * planes.groups.value(), [&](std::int64_t first, auto items) {
    const ChannelSums<T> some = sums.take();
    launch({"max_pool2d_backward", stream, some.blocks() + pool_blocks(items), kPoolThreads},
           max_halved_cells<T, K>, planes, items, grad_out + first * outputs_of(p),
           code.narrow + first * outputs_of(p),
           relu_out != nullptr ? relu_out + first * outputs_of(p) : nullptr,
           grad_in + first * inputs_of(p), some);
  });
}

}  // namespace

void max_pool2d(const Stream& stream, const Pool2d& p, const View& out, const View& code,
                const View& in, const View& zeros) {
  const Cleared cleared(zeros);
  dispatch_floating(in.dtype, "max_pool2d", [&]<class T>() {
    constexpr int V = pack_size<T>();
    T* const y = out.as<T>();
    const T* const x = in.as<T>();
    const Codes codes(code);
    const bool whole_rows = p.w.input % V == 0 && is_aligned(x, V);
    if (whole_rows && is_halved(p, 2)) return launch_halved<T, 2>(stream, p, y, codes, x, cleared);
    if (whole_rows && is_halved(p, 3)) return launch_halved<T, 3>(stream, p, y, codes, x, cleared);

    const auto run = [&](auto kernel, int pack, int threads_a_window) {
      const Planes planes(p, pack);
      for_each_image_group(p, outputs_of(p) * planes.packs.value() * threads_a_window,
                           [&](std::int64_t to, std::int64_t from, std::uint32_t items) {
                             Codes some = codes;
                             some.advance(to);
                             launch({"max_pool2d", stream, pool_blocks(items), kPoolThreads},
                                    kernel, planes, items / static_cast<unsigned>(threads_a_window),
                                    x + from, y + to, some, cleared);
                           });
    };
    const std::int64_t channels = p.channels_last ? p.channels : 1;
    const int sharing = threads_sharing(p);
    if (sharing == kPoolThreads)
      run(max_large_windows<T, true>, 1, sharing);
    else if (sharing == kWarp)
      run(max_large_windows<T, false>, 1, sharing);
    else if (channels % V == 0 && is_aligned(x, V) && is_aligned(y, V) && codes.is_aligned(V))
      run(max_windows<T, V>, V, 1);
    else
      run(max_windows<T, 1>, 1, 1);
  });
}

void max_pool2d_backward(const Stream& stream, const Pool2d& p, const View& grad_in,
                         const View& grad_out, const View& code, const View& relu_out,
                         const View& channel_sums, const View& counters) {
  dispatch_floating(grad_in.dtype, "max_pool2d", [&]<class T>() {
    constexpr int V = pack_size<T>();
    T* const dx = grad_in.as<T>();
    const T* const dy = grad_out.as<T>();
    const T* const maxima = relu_out.as<T>();
    const Codes codes(code);
    SumsOf<T> sums(stream, p, grad_out, relu_out, channel_sums, counters);
    const bool whole_rows = p.w.input % V == 0 && is_aligned(dx, V);
    const bool separate = channel_sums.data && !sums.computes();

    const auto run = [&](auto kernel, int pack) {
      const Planes planes(p, pack);
      for_each_image_group(p, inputs_of(p) * planes.packs.value(),
                           [&](std::int64_t from, std::int64_t to, std::uint32_t items) {
                             Codes some = codes;
                             some.advance(from);
                             const ChannelSums<T> first = sums.take();
                             launch({"max_pool2d_backward", stream,
                                     first.blocks() + pool_blocks(items), kPoolThreads},
                                    kernel, planes, items, dy + from, some,
                                    maxima != nullptr ? maxima + from : nullptr, dx + to, first);
                           });
    };
    const std::int64_t channels = p.channels_last ? p.channels : 1;
    if (whole_rows && is_halved(p, 2))
      launch_halved_backward<T, 2>(stream, p, dx, dy, codes, maxima, sums);
    else if (whole_rows && is_halved(p, 3))
      launch_halved_backward<T, 3>(stream, p, dx, dy, codes, maxima, sums);
    else if (channels % V == 0 && is_aligned(dx, V) && is_aligned(dy, V) && is_aligned(maxima, V) &&
             codes.is_aligned(V))
      run(max_cells<T, V>, V);
    else
      run(max_cells<T, 1>, 1);
    if (separate) channel_sum(stream, channel_sums, input_planes(p, grad_in));
  });
}

void max_pool2d_gather(const Stream& stream, const Pool2d& p, const View& out, const View& in,
                       const View& code) {
  const auto gather = [&]<class Word>() {
    const Chosen chosen(p);
    for_each_image_group(p, outputs_of(p) * chosen.planes.channels,
                         [&](std::int64_t to, std::int64_t from, std::uint32_t items) {
                           Codes codes(code);
                           codes.advance(to);
                           launch({"max_pool2d_gather", stream, pool_blocks(items), kPoolThreads},
                                  gather_chosen<Word>, chosen, items, codes, in.as<Word>() + from,
                                  out.as<Word>() + to);
                         });
  };
  switch (itemsize(out.dtype)) {
    case 2:
      return gather.template operator()<std::uint16_t>();
    case 4:
      return gather.template operator()<std::uint32_t>();
    default:
      return gather.template operator()<std::uint64_t>();
  }
}

void max_pool2d_indices(const Stream& stream, const Pool2d& p, const View& indices,
                        const View& code) {
  const Chosen chosen(p);
  for_each_image_group(p, outputs_of(p) * chosen.planes.channels,
                       [&](std::int64_t to, std::int64_t, std::uint32_t items) {
                         Codes codes(code);
                         codes.advance(to);
                         launch({"max_pool2d_indices", stream, pool_blocks(items), kPoolThreads},
                                index_chosen, chosen, items, codes,
                                indices.as<std::int64_t>() + to);
                       });
}

}  // namespace ferrite::kernels::cuda
