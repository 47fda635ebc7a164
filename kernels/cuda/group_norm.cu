// Group norm of NCHW images: rows of layer norm for the statistics, then all channels of all images
// as the channels of one image, each with parameters of its own.
#include "ferrite/kernels/cuda/batch_norm_map.cuh"
#include "ferrite/kernels/cuda/block.cuh"
#include "ferrite/kernels/cuda/channel_map.cuh"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kGroupNormThreads = 128;

/// The channels of all images, and where a channel's group and parameters are.
struct ImageChannels {
  std::int64_t count = 0;  // of all images
  std::int64_t of_image = 0, of_group = 0;

  explicit ImageChannels(const GroupLayout& layout)
      : count(layout.images * layout.all_channels()),
        of_image(layout.all_channels()),
        of_group(layout.channels) {}
  ChannelLayout layout(std::int64_t pixels) const {
    return {.outer = 1, .channels = count, .inner = pixels};
  }
};

/// The affine step of each channel, from its group's statistics. `shifts` is optional.
template <class S>
__global__ void spread(ImageChannels channels, const S* mean, const S* rstd, const S* weight,
                       const S* bias, S* means, S* scales, S* shifts) {
  const std::int64_t i = thread_in_grid<kGroupNormThreads>();
  if (i >= channels.count) return;
  const std::int64_t group = i / channels.of_group, c = i % channels.of_image;
  means[i] = mean[group];
  scales[i] = weight != nullptr ? rstd[group] * weight[c] : rstd[group];
  if (shifts != nullptr) shifts[i] = bias != nullptr ? bias[c] : S(0);
}

/// dx = scale * dy - shift - slope * (x - mean) of a group's channels, from their sums of dy and
/// of dy * xhat; a warp has a group of `values` values.
template <class S>
__global__ void __launch_bounds__(kGroupNormThreads)
    gradient_terms(ImageChannels channels, double values, const S* rstd, const S* weight,
                   const S* sum_dy, const S* sum_dy_xhat, S* scales, S* shifts, S* slopes) {
  const std::int64_t group = thread_in_grid<kGroupNormThreads>() / kWarp,
                     begin = group * channels.of_group;
  if (begin >= channels.count) return;
  const std::int64_t first = begin % channels.of_image;  // of the parameters
  double dy = 0, dy_xhat = 0;
  for (std::int64_t j = threadIdx.x % kWarp; j < channels.of_group; j += kWarp) {
    const double w = weight != nullptr ? static_cast<double>(weight[first + j]) : 1;
    dy += w * static_cast<double>(sum_dy[begin + j]);
    dy_xhat += w * static_cast<double>(sum_dy_xhat[begin + j]);
  }
  const double inverse = static_cast<double>(rstd[group]);
  const S shift = static_cast<S>(warp_reduce(dy, Add()) * inverse / values);
  const S slope = static_cast<S>(warp_reduce(dy_xhat, Add()) * inverse / values * inverse);
  for (std::int64_t j = threadIdx.x % kWarp; j < channels.of_group; j += kWarp) {
    scales[begin + j] = weight != nullptr ? rstd[group] * weight[first + j] : rstd[group];
    shifts[begin + j] = shift;
    slopes[begin + j] = slope;
  }
}

/// The gradients of weight and bias, both optional.
template <class S>
__global__ void sum_images(ImageChannels channels, const S* sum_dy, const S* sum_dy_xhat,
                           S* grad_weight, S* grad_bias) {
  const std::int64_t c = thread_in_grid<kGroupNormThreads>();
  if (c >= channels.of_image) return;
  double dy = 0, dy_xhat = 0;
  for (std::int64_t i = c; i < channels.count; i += channels.of_image) {
    dy += static_cast<double>(sum_dy[i]);
    dy_xhat += static_cast<double>(sum_dy_xhat[i]);
  }
  if (grad_weight != nullptr) grad_weight[c] = static_cast<S>(dy_xhat);
  if (grad_bias != nullptr) grad_bias[c] = static_cast<S>(dy);
}

template <class T>
struct GroupGradient {
  using Scalar = Compute<T>;
  static constexpr int kUnroll = 2;
  const T *dy, *in;
  T* dx;
  const Scalar *mean, *scale, *shift, *slope;

  template <int V>
  struct Loaded {
    Pack<T, V> dy, in;
  };
  template <int W>
  struct Params {
    Scalar mean[W], scale[W], shift[W], slope[W];
  };
  template <int W>
  __device__ Params<W> params(const ChannelsAt<W>& channels) const {
    Params<W> p{};
    channels.get(p.mean, mean);
    channels.get(p.scale, scale);
    channels.get(p.shift, shift);
    channels.get(p.slope, slope);
    return p;
  }
  template <int V>
  __device__ Loaded<V> load(std::int64_t at) const {
    return {load_pack<V>(dy + at), load_pack<V>(in + at)};
  }
  template <int V, int W>
  __device__ void finish(std::int64_t at, const Loaded<V>& loaded, const Params<W>& p) const {
    Pack<T, V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int w = v % W;
      const Scalar d = static_cast<Scalar>(loaded.in.v[v]) - p.mean[w];
      result.v[v] = static_cast<T>(static_cast<Scalar>(loaded.dy.v[v]) * p.scale[w] - p.shift[w] -
                                   d * p.slope[w]);
    }
    store_pack<V>(dx + at, result);
  }
};

/// One value for each channel of each image.
template <class S>
View channel_view(S* data, const ImageChannels& channels) {
  View view;
  view.data = data;
  view.numel = channels.count;
  view.ndim = 1;
  view.dtype = dtype_of<S>;
  view.sizes[0] = channels.count;
  view.strides[0] = 1;
  return view;
}

}  // namespace

void group_norm(const Stream& stream, const GroupLayout& layout, const View& out, const View& mean,
                const View& rstd, const View& in, const View& weight, const View& bias,
                double eps) {
  const ImageChannels channels(layout);
  if (channels.count == 0) return;
  layer_norm(stream, layout.images * layout.groups, layout.channels * layout.pixels, View(), mean,
             rstd, in, View(), View(), eps);
  dispatch_floating(in.dtype, "group_norm", [&]<class T>() {
    using S = Compute<T>;
    constexpr int kPack = pack_size<T>();
    const std::int64_t step = (channels.count + kPack - 1) / kPack * kPack;
    const Workspace params(stream, sizeof(S) * static_cast<std::size_t>(3 * step));
    S *const means = params.as<S>(), *const scales = means + step, *const shifts = scales + step;
    launch({"group_norm_spread", stream, blocks_for(channels.count, kGroupNormThreads),
            kGroupNormThreads},
           spread<S>, channels, mean.as<S>(), rstd.as<S>(), weight.as<S>(), bias.as<S>(), means,
           scales, shifts);
    const Apply<T> f{.in = in.as<T>(),
                     .residual = nullptr,
                     .out = out.as<T>(),
                     .mean = means,
                     .invstd = scales,
                     .weight = nullptr,
                     .bias = shifts,
                     .relu = false};
    map_channels<Apply<T>, kPack>(stream, "group_norm", f, channels.layout(layout.pixels),
                                  sizeof(T), is_aligned(f.in, kPack) && is_aligned(f.out, kPack),
                                  params_aligned(means, scales, shifts));
  });
}

void group_norm_backward(const Stream& stream, const GroupLayout& layout, const View& grad_in,
                         const View& grad_weight, const View& grad_bias, const View& grad_out,
                         const View& in, const View& mean, const View& rstd, const View& weight) {
  const ImageChannels channels(layout);
  dispatch_floating(in.dtype, "group_norm", [&]<class T>() {
    using S = Compute<T>;
    constexpr int kPack = pack_size<T>();
    const std::int64_t step = (channels.count + kPack - 1) / kPack * kPack;
    const Workspace memory(stream, sizeof(S) * static_cast<std::size_t>(6 * step));
    S *const means = memory.as<S>(), *const scales = means + step, *const shifts = scales + step,
             *const slopes = shifts + step, *const sum_dy = slopes + step,
             *const sum_dy_xhat = sum_dy + step;
    const unsigned blocks = blocks_for(channels.count, kGroupNormThreads);
    if (channels.count > 0) {
      launch({"group_norm_spread", stream, blocks, kGroupNormThreads}, spread<S>, channels,
             mean.as<S>(), rstd.as<S>(), nullptr, nullptr, means, scales, nullptr);
      batch_norm_backward_reduce(
          stream, channels.layout(layout.pixels), channel_view(sum_dy, channels),
          channel_view(sum_dy_xhat, channels), grad_out, in, channel_view(means, channels),
          channel_view(scales, channels), ReluMask{}, View(), View());
    }
    if (grad_weight.data || grad_bias.data)
      launch({"group_norm_sums", stream, blocks_for(channels.of_image, kGroupNormThreads),
              kGroupNormThreads},
             sum_images<S>, channels, sum_dy, sum_dy_xhat, grad_weight.as<S>(), grad_bias.as<S>());
    if (channels.count == 0 || !grad_in.data) return;
    launch(
        {"group_norm_terms", stream,
         blocks_for(layout.images * layout.groups, kGroupNormThreads / kWarp), kGroupNormThreads},
        gradient_terms<S>, channels, static_cast<double>(layout.channels * layout.pixels),
        rstd.as<S>(), weight.as<S>(), sum_dy, sum_dy_xhat, scales, shifts, slopes);
    const GroupGradient<T> f{.dy = grad_out.as<T>(),
                             .in = in.as<T>(),
                             .dx = grad_in.as<T>(),
                             .mean = means,
                             .scale = scales,
                             .shift = shifts,
                             .slope = slopes};
    map_channels<GroupGradient<T>, kPack>(
        stream, "group_norm_backward", f, channels.layout(layout.pixels), sizeof(T),
        is_aligned(f.dy, kPack) && is_aligned(f.in, kPack) && is_aligned(f.dx, kPack),
        params_aligned(means, scales, shifts, slopes));
  });
}

}  // namespace ferrite::kernels::cuda
