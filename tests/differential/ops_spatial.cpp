// Convolutions and poolings of one and three dimensions, sampling, norms, attention, sequences.
#include "ferrite/ops/attention.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/embedding_bag.h"
#include "ferrite/ops/grid_sample.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/pool.h"
#include "ferrite/tests/differential/ops.h"

namespace ferrite::differential {

namespace {

using In = const Tensors&;
using Args = const Json&;

/// The sizes args[name], which have N elements.
template <int N>
SizeOf<N> size(Args a, const char* name) {
  if constexpr (N == 1)
    return a[name][0].get<std::int64_t>();
  else if constexpr (N == 2)
    return Pair(a[name][0], a[name][1]);
  else
    return Triple(a[name][0], a[name][1], a[name][2]);
}

template <int N, class Options>
Options conv_options(Args a) {
  return {.stride = size<N>(a, "stride"),
          .padding = a["same"] ? PaddingOf<N>(PaddingOf<N>::same) : size<N>(a, "padding"),
          .dilation = size<N>(a, "dilation"),
          .groups = a["groups"]};
}

template <int N, class Options>
Options conv_transpose_options(Args a) {
  return {.stride = size<N>(a, "stride"),
          .padding = size<N>(a, "padding"),
          .output_padding = size<N>(a, "output_padding"),
          .groups = a["groups"],
          .dilation = size<N>(a, "dilation")};
}

void add_convolutions(Table& t) {
  t["conv1d_same"] = [](In x, Args a) {
    return Tensors{conv1d(x[0], x[1], optional_input(x, 2), conv_options<1, Conv1dFuncOptions>(a))};
  };
  t["conv2d_same"] = [](In x, Args a) {
    return Tensors{conv2d(x[0], x[1], optional_input(x, 2), conv_options<2, Conv2dFuncOptions>(a))};
  };
  t["conv3d"] = [](In x, Args a) {
    return Tensors{conv3d(x[0], x[1], optional_input(x, 2), conv_options<3, Conv3dFuncOptions>(a))};
  };
  t["conv_transpose1d"] = [](In x, Args a) {
    return Tensors{conv_transpose1d(x[0], x[1], optional_input(x, 2),
                                    conv_transpose_options<1, ConvTranspose1dFuncOptions>(a))};
  };
  t["conv_transpose3d"] = [](In x, Args a) {
    return Tensors{conv_transpose3d(x[0], x[1], optional_input(x, 2),
                                    conv_transpose_options<3, ConvTranspose3dFuncOptions>(a))};
  };
}

template <int N>
void add_pools(Table& t, auto max, auto avg, auto adaptive_max, auto adaptive_avg, auto lp,
               auto unpool) {
  const std::string d = std::to_string(N) + "d";
  t["max_pool" + d] = [max](In x, Args a) {
    return pair(max(x[0], MaxPoolOptions<N>{.kernel_size = size<N>(a, "kernel"),
                                            .stride = size<N>(a, "stride"),
                                            .padding = size<N>(a, "padding"),
                                            .dilation = size<N>(a, "dilation"),
                                            .ceil_mode = a["ceil"]}));
  };
  t["avg_pool" + d] = [avg](In x, Args a) {
    return Tensors{
        avg(x[0], AvgPoolOptions<N>{.kernel_size = size<N>(a, "kernel"),
                                    .stride = size<N>(a, "stride"),
                                    .padding = size<N>(a, "padding"),
                                    .ceil_mode = a["ceil"],
                                    .count_include_pad = a["include_pad"],
                                    .divisor_override = maybe<std::int64_t>(a, "divisor")})};
  };
  t["adaptive_max_pool" + d] = [adaptive_max](In x, Args a) {
    return pair(adaptive_max(x[0], size<N>(a, "size")));
  };
  t["adaptive_avg_pool" + d] = [adaptive_avg](In x, Args a) {
    return Tensors{adaptive_avg(x[0], size<N>(a, "size"))};
  };
  t["lp_pool" + d] = [lp](In x, Args a) {
    return Tensors{lp(x[0], a["p"], size<N>(a, "kernel"),
                      LPPoolOptions<N>{.stride = size<N>(a, "stride"), .ceil_mode = a["ceil"]})};
  };
  t["max_unpool" + d] = [unpool](In x, Args a) {
    return Tensors{unpool(
        x[0], x[1], size<N>(a, "kernel"),
        MaxUnpoolOptions<N>{.stride = size<N>(a, "stride"), .padding = size<N>(a, "padding")})};
  };
}

// Overload sets as objects.
#define FERRITE_FUNCTION(name) [](const auto&... args) { return name(args...); }

void add_samplers(Table& t) {
  t["grid_sample"] = [](In x, Args a) {
    const std::string padding = a["padding"], mode = a["mode"];
    return Tensors{
        grid_sample(x[0], x[1],
                    {.mode = mode == "nearest"   ? GridSampleMode::nearest
                             : mode == "bicubic" ? GridSampleMode::bicubic
                                                 : GridSampleMode::bilinear,
                     .padding_mode = padding == "border"       ? GridSamplePadding::border
                                     : padding == "reflection" ? GridSamplePadding::reflection
                                                               : GridSamplePadding::zeros,
                     .align_corners = a["align_corners"]})};
  };
  t["affine_grid"] = [](In x, Args a) {
    return Tensors{affine_grid(x[0], to_shape(a["size"]), a["align_corners"])};
  };
}

}  // namespace

void add_spatial(Table& t) {
  add_convolutions(t);
  add_pools<1>(t, FERRITE_FUNCTION(max_pool1d_with_indices), FERRITE_FUNCTION(avg_pool1d),
               FERRITE_FUNCTION(adaptive_max_pool1d_with_indices),
               FERRITE_FUNCTION(adaptive_avg_pool1d), FERRITE_FUNCTION(lp_pool1d),
               FERRITE_FUNCTION(max_unpool1d));
  add_pools<2>(t, FERRITE_FUNCTION(max_pool2d_with_indices), FERRITE_FUNCTION(avg_pool2d),
               FERRITE_FUNCTION(adaptive_max_pool2d_with_indices),
               FERRITE_FUNCTION(adaptive_avg_pool2d), FERRITE_FUNCTION(lp_pool2d),
               FERRITE_FUNCTION(max_unpool2d));
  add_pools<3>(t, FERRITE_FUNCTION(max_pool3d_with_indices), FERRITE_FUNCTION(avg_pool3d),
               FERRITE_FUNCTION(adaptive_max_pool3d_with_indices),
               FERRITE_FUNCTION(adaptive_avg_pool3d), FERRITE_FUNCTION(lp_pool3d),
               FERRITE_FUNCTION(max_unpool3d));
  add_samplers(t);
}

void add_sequences(Table& t) {
  t["rms_norm"] = [](In x, Args a) {
    return Tensors{
        rms_norm(x[0], to_shape(a["shape"]), optional_input(x, 1), maybe<double>(a, "eps"))};
  };
  t["instance_norm"] = [](In x, Args a) {
    const bool running = a["running"];
    const std::size_t first = running ? 3 : 1;
    const Tensor mean = running ? x[1].clone() : Tensor();
    const Tensor variance = running ? x[2].clone() : Tensor();
    Tensors out = {instance_norm(x[0], mean, variance, optional_input(x, first),
                                 optional_input(x, first + 1),
                                 {.use_input_stats = a["training"], .momentum = a["momentum"]})};
    if (running) out.push_back(mean), out.push_back(variance);
    return out;
  };
  t["local_response_norm"] = [](In x, Args a) {
    return Tensors{local_response_norm(x[0], a["size"],
                                       {.alpha = a["alpha"], .beta = a["beta"], .k = a["k"]})};
  };
  t["scaled_dot_product_attention"] = [](In x, Args a) {
    return Tensors{scaled_dot_product_attention(x[0], x[1], x[2],
                                                {.attn_mask = optional_input(x, 3),
                                                 .is_causal = a["causal"],
                                                 .scale = maybe<double>(a, "scale"),
                                                 .enable_gqa = a["gqa"]})};
  };
  t["embedding_bag"] = [](In x, Args a) {
    const std::string mode = a["mode"];
    const bool offsets = a["offsets"];
    return Tensors{embedding_bag(x[0], x[1], offsets ? x[2] : Tensor(),
                                 {.mode = mode == "sum"    ? BagMode::sum
                                          : mode == "mean" ? BagMode::mean
                                                           : BagMode::max,
                                  .per_sample_weights = optional_input(x, offsets ? 3 : 2),
                                  .include_last_offset = a["last"],
                                  .padding_idx = maybe<std::int64_t>(a, "padding_idx")})};
  };
}

}  // namespace ferrite::differential
