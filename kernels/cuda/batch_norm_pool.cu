#include "ferrite/kernels/cuda/batch_norm_map.cuh"
#include "ferrite/kernels/cuda/pool_maximum.cuh"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cuda {

namespace {

/// Results or cells of each thread, of the same channels as a rule.
constexpr std::uint32_t kItems = 4;
constexpr int kBlocks = 2;  // minimum per multiprocessor: 128 registers per thread

/// The parameters of f for a pack of channels, kept from one item to the next.
template <class F, int V>
struct ParamsAt {
  const F& f;
  bool aligned;  // all can be read in packs
  std::int64_t channel = -1;
  typename F::template Params<V> params = {};

  __device__ void move(std::int64_t to) {
    if (to == channel) return;
    channel = to;
    ChannelsAt<V> channels;
    channels.consecutive = aligned;
#pragma unroll
    for (int v = 0; v < V; ++v) channels.at[v] = static_cast<std::uint32_t>(to + v);
    params = f.params(channels);
  }
};

/// Windows of V channels: the maxima of normalised cells, and those cells as they were.
template <class T, int V>
struct NormalizedMaximum {
  using S = Compute<T>;
  using Params = typename Apply<T>::template Params<V>;
  Maximum<S, V> maximum;
  Pack<T, V> picked = {};

  template <int K>
  __device__ void see_row(const T* cells, std::int64_t step, std::int32_t at, const Params& p) {
    Pack<T, V> some[K];
#pragma unroll
    for (int k = 0; k < K; ++k) some[k] = load_pack<V>(cells + k * step);
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const S d = static_cast<S>(some[k].v[v]) - p.mean[v];
        const T y = static_cast<T>(relu(affine(d, p.scale[v], p.shift[v])));
        if (maximum.see(v, static_cast<S>(y), at + k)) picked.v[v] = some[k].v[v];
      }
  }
};

template <class T, int V>
__global__ void __launch_bounds__(kPoolThreads, kBlocks)
    normalized_windows(Planes p, std::uint32_t items, Apply<T> f, bool aligned, T* picked,
                       Codes code) {
  ParamsAt<Apply<T>, V> at_channel{f, aligned};
  const std::int64_t column_step = p.w.dilation * p.channels;
  const std::int64_t row_step = p.h.dilation * static_cast<std::int64_t>(p.w.input) * p.channels;
  const std::uint32_t first = blockIdx.x * kItems * kPoolThreads + threadIdx.x;
#pragma unroll 1
  for (std::uint32_t i = 0; i < kItems; ++i) {
    const std::uint32_t item = first + i * kPoolThreads;
    if (item >= items) return;
    const Planes::At a = p.output<V>(item);
    at_channel.move(a.channel);
    const PoolAxis::Window h = p.h.window(a.row), w = p.w.window(a.column);
    const T* row =
        f.in + p.at_cell(a, static_cast<std::int32_t>(h.first), static_cast<std::int32_t>(w.first));
    const auto columns = static_cast<std::int32_t>(w.count);
    auto place = static_cast<std::int32_t>(h.skip * p.places + w.skip);
    NormalizedMaximum<T, V> m{Maximum<Compute<T>, V>(place)};
    for (std::int64_t r = 0; r < h.count; ++r) {
      std::int32_t j = 0;
      for (; j + 3 <= columns; j += 3)
        m.template see_row<3>(row + j * column_step, column_step, place + j, at_channel.params);
      for (; j < columns; ++j)
        m.template see_row<1>(row + j * column_step, column_step, place + j, at_channel.params);
      row += row_step;
      place += p.places;
    }
    Pack<T, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) result.v[v] = static_cast<T>(m.maximum.best[v]);
    const std::int64_t at = p.at_output(a, a.row, a.column);
    store_pack<V>(f.out + at, result);
    if (picked != nullptr) store_pack<V>(picked + at, m.picked);
    code.store(at, m.maximum.place);
  }
}

/// f.dy is the gradient of the windows.
template <class T, int V>
__global__ void __launch_bounds__(kPoolThreads, kBlocks)
    normalized_cells(Planes p, std::uint32_t items, BackwardApply<T> f, bool aligned, Codes code) {
  ParamsAt<BackwardApply<T>, V> at_channel{f, aligned};
  const std::uint32_t first = blockIdx.x * kItems * kPoolThreads + threadIdx.x;
#pragma unroll 1
  for (std::uint32_t i = 0; i < kItems; ++i) {
    const std::uint32_t item = first + i * kPoolThreads;
    if (item >= items) return;
    const Planes::At a = p.cell<V>(item);
    at_channel.move(a.channel);
    const std::int64_t at = p.at_cell(a, a.row, a.column);
    typename BackwardApply<T>::template Loaded<V> loaded{};
    loaded.in = load_pack<V>(f.in + at);
    Compute<T> sum[V] = {};
    gather_gradients(sum, p, a, f.dy, code);
#pragma unroll
    for (int v = 0; v < V; ++v) loaded.dy.v[v] = static_cast<T>(sum[v]);
    f.template finish<V>(at, loaded, at_channel.params);
  }
}

/// run(the pack size, the planes, blocks for `items` packs).
template <class T, class Run>
void for_packs(const Pool2d& p, bool aligned, Run&& run) {
  constexpr int V = pack_size<T>();
  const std::int64_t channels = p.channels_last ? p.channels : 1;
  if (aligned && channels % V == 0)
    run.template operator()<V>(Planes(p, V));
  else
    run.template operator()<1>(Planes(p, 1));
}
unsigned blocks_of(std::uint32_t items) { return blocks_for(items, kItems * kPoolThreads); }

}  // namespace

void batch_norm_max_pool(const Stream& stream, const Pool2d& p, const View& out, const View& picked,
                         const View& code, const View& in, const View& mean, const View& invstd,
                         const View& weight, const View& bias) {
  dispatch_floating(in.dtype, "batch_norm", [&]<class T>() {
    constexpr int V = pack_size<T>();
    const Apply<T> f =
        apply_of<T>(out, in, mean, invstd, weight, bias, View(), NormActivation::relu);
    const Codes codes(code);
    T* const kept = picked.as<T>();
    const bool fits =
        is_aligned(f.in, V) && is_aligned(f.out, V) && is_aligned(kept, V) && codes.is_aligned(V);
    for_packs<T>(p, fits, [&]<int W>(const Planes& planes) {
      for_each_image_group(p, outputs_of(p) * planes.packs.value(),
                           [&](std::int64_t to, std::int64_t from, std::uint32_t items) {
                             Apply<T> some = f;
                             some.in += from;
                             some.out += to;
                             Codes chosen = codes;
                             chosen.advance(to);
                             launch({"batch_norm_max_pool", stream, blocks_of(items), kPoolThreads},
                                    normalized_windows<T, W>, planes, items, some,
                                    params_aligned(f.mean, f.invstd, f.weight, f.bias),
                                    kept != nullptr ? kept + to : nullptr, chosen);
                           });
    });
  });
}

void batch_norm_max_pool_backward(const Stream& stream, const Pool2d& p, const View& dx,
                                  const View& grad_out, const View& code, const View& in,
                                  const View& mean, const View& invstd, const View& weight,
                                  const View& bias, const View& sum_dy, const View& sum_dy_xhat) {
  dispatch_floating(in.dtype, "batch_norm", [&]<class T>() {
    constexpr int V = pack_size<T>();
    const BackwardApply<T> f = backward_apply_of<T>(
        dx, grad_out, in, mean, invstd, weight, sum_dy, sum_dy_xhat, View(), p.batch * inputs_of(p),
        {.from = ReluMask::From::input, .weight = weight, .bias = bias, .out = View()});
    const Codes codes(code);
    const bool fits =
        is_aligned(f.in, V) && is_aligned(f.dy, V) && is_aligned(f.dx, V) && codes.is_aligned(V);
    for_packs<T>(p, fits, [&]<int W>(const Planes& planes) {
      for_each_image_group(
          p, inputs_of(p) * planes.packs.value(),
          [&](std::int64_t from, std::int64_t to, std::uint32_t items) {
            BackwardApply<T> some = f;
            some.in += to;
            some.dx += to;
            some.dy += from;
            Codes chosen = codes;
            chosen.advance(from);
            launch({"batch_norm_max_pool_backward", stream, blocks_of(items), kPoolThreads},
                   normalized_cells<T, W>, planes, items, some,
                   params_aligned(f.mean, f.invstd, f.weight, f.bias, f.sum_dy, f.sum_dy_xhat),
                   chosen);
          });
    });
  });
}

}  // namespace ferrite::kernels::cuda
