// Layers by PyTorch's names: activations, products, convolutions, poolings, norms, paddings,
// tables.
#include "ferrite/tests/differential/ops_modules.h"

#include "ferrite/nn/weight_norm.h"

namespace ferrite::differential {

template <>
FERRITE_OPTIONS(nn::LinearOptions, bias);
template <>
FERRITE_OPTIONS(nn::FlattenOptions, start_dim, end_dim);
template <>
FERRITE_OPTIONS(nn::EmbeddingOptions, padding_idx, max_norm, norm_type, scale_grad_by_freq);
template <>
FERRITE_OPTIONS(nn::EmbeddingBagLayerOptions, max_norm, norm_type, scale_grad_by_freq, mode,
                include_last_offset, padding_idx);
template <>
FERRITE_OPTIONS(nn::InplaceOptions, inplace);
template <>
FERRITE_OPTIONS(nn::LeakyReLUOptions, negative_slope, inplace);
template <int N>
FERRITE_OPTIONS(nn::ConvOptions<N>, stride, padding, dilation, groups, bias, padding_mode);
template <int N>
FERRITE_OPTIONS(nn::ConvTransposeOptions<N>, stride, padding, output_padding, groups, bias,
                dilation);
template <int N>
FERRITE_OPTIONS(MaxPoolOptions<N>, stride, padding, dilation, ceil_mode);
template <int N>
FERRITE_OPTIONS(AvgPoolOptions<N>, stride, padding, ceil_mode, count_include_pad, divisor_override);
template <int N>
FERRITE_OPTIONS(LPPoolOptions<N>, stride, ceil_mode);
template <int N>
FERRITE_OPTIONS(MaxUnpoolOptions<N>, stride, padding, output_size);
template <int N>
FERRITE_OPTIONS(FractionalMaxPoolOptions<N>, output_size, output_ratio, random_samples);
template <>
FERRITE_OPTIONS(nn::BatchNormOptions, eps, momentum, affine, track_running_stats, bias);
template <>
FERRITE_OPTIONS(nn::InstanceNormOptions, eps, momentum, affine, track_running_stats, bias);
template <>
FERRITE_OPTIONS(nn::LayerNormOptions, eps, elementwise_affine, bias);
template <>
FERRITE_OPTIONS(nn::RMSNormOptions, eps, elementwise_affine);
template <>
FERRITE_OPTIONS(nn::GroupNormOptions, eps, affine, bias);
template <>
FERRITE_OPTIONS(LocalResponseNormOptions, alpha, beta, k);
template <>
FERRITE_OPTIONS(InterpolateOptions, size, scale_factor, mode, align_corners,
                recompute_scale_factor);
template <>
FERRITE_OPTIONS(FoldOptions, dilation, padding, stride);

namespace {

std::int64_t whole(Json& a, const char* name) { return take<std::int64_t>(a, name); }
double number(Json& a, const char* name, double otherwise) { return take(a, name, otherwise); }
bool flag(Json& a, const char* name, bool otherwise = false) { return take(a, name, otherwise); }

void add_activations(Table& t) {
  FERRITE_MODULE(t, Identity, );
  FERRITE_MODULE(t, Sigmoid, );
  FERRITE_MODULE(t, Tanh, );
  FERRITE_MODULE(t, Softsign, );
  FERRITE_MODULE(t, Tanhshrink, );
  FERRITE_MODULE(t, LogSigmoid, );
  FERRITE_MODULE(t, Softmax2d, );
  FERRITE_MODULE(t, ReLU, options<nn::InplaceOptions>(a));
  FERRITE_MODULE(t, ReLU6, options<nn::InplaceOptions>(a));
  FERRITE_MODULE(t, SiLU, options<nn::InplaceOptions>(a));
  FERRITE_MODULE(t, SELU, options<nn::InplaceOptions>(a));
  FERRITE_MODULE(t, Mish, options<nn::InplaceOptions>(a));
  FERRITE_MODULE(t, Hardsigmoid, options<nn::InplaceOptions>(a));
  FERRITE_MODULE(t, Hardswish, options<nn::InplaceOptions>(a));
  FERRITE_MODULE(t, LeakyReLU, options<nn::LeakyReLUOptions>(a));
  FERRITE_MODULE(t, GELU, take(a, "approximate", Choice(GeluApproximation::none)));
  FERRITE_MODULE(t, ELU, number(a, "alpha", 1), flag(a, "inplace"));
  FERRITE_MODULE(t, CELU, number(a, "alpha", 1), flag(a, "inplace"));
  FERRITE_MODULE(t, Hardtanh, number(a, "min_val", -1), number(a, "max_val", 1),
                 flag(a, "inplace"));
  FERRITE_MODULE(t, Hardshrink, number(a, "lambd", 0.5));
  FERRITE_MODULE(t, Softshrink, number(a, "lambd", 0.5));
  FERRITE_MODULE(t, Threshold, take<double>(a, "threshold"), take<double>(a, "value"),
                 flag(a, "inplace"));
  FERRITE_MODULE(t, Softplus, number(a, "beta", 1), number(a, "threshold", 20));
  FERRITE_MODULE(t, RReLU, number(a, "lower", 1.0 / 8), number(a, "upper", 1.0 / 3),
                 flag(a, "inplace"));
  FERRITE_MODULE(t, PReLU, take<std::int64_t>(a, "num_parameters", 1), number(a, "init", 0.25));
  FERRITE_MODULE(t, Softmax, take<int>(a, "dim"));
  FERRITE_MODULE(t, LogSoftmax, take<int>(a, "dim"));
  FERRITE_MODULE(t, Softmin, take<int>(a, "dim"));
  FERRITE_MODULE(t, GLU, take(a, "dim", -1));
  FERRITE_MODULES(t, Dropout, number(a, "p", 0.5), flag(a, "inplace"));
  FERRITE_MODULE(t, Dropout, number(a, "p", 0.5), flag(a, "inplace"));
  FERRITE_MODULE(t, AlphaDropout, number(a, "p", 0.5), flag(a, "inplace"));
  FERRITE_MODULE(t, FeatureAlphaDropout, number(a, "p", 0.5), flag(a, "inplace"));
}

void add_products(Table& t) {
  FERRITE_MODULE(t, Linear, whole(a, "in_features"), whole(a, "out_features"),
                 options<nn::LinearOptions>(a));
  FERRITE_MODULE(t, Bilinear, whole(a, "in1_features"), whole(a, "in2_features"),
                 whole(a, "out_features"), options<nn::LinearOptions>(a));
  FERRITE_MODULE(t, Embedding, whole(a, "num_embeddings"), whole(a, "embedding_dim"),
                 options<nn::EmbeddingOptions>(a));
  FERRITE_MODULE(t, EmbeddingBag, whole(a, "num_embeddings"), whole(a, "embedding_dim"),
                 options<nn::EmbeddingBagLayerOptions>(a));
  FERRITE_MODULE(t, CosineSimilarity, take(a, "dim", 1), number(a, "eps", 1e-8));
  FERRITE_MODULE(t, PairwiseDistance, number(a, "p", 2), number(a, "eps", 1e-6),
                 flag(a, "keepdim"));
  FERRITE_MODULES(t, Conv, whole(a, "in_channels"), whole(a, "out_channels"),
                  take<SizeOf<N>>(a, "kernel_size"), options<nn::ConvOptions<N>>(a));
  FERRITE_MODULES(t, ConvTranspose, whole(a, "in_channels"), whole(a, "out_channels"),
                  take<SizeOf<N>>(a, "kernel_size"), options<nn::ConvTransposeOptions<N>>(a));
}

/// Of max poolings, which may give the indices, too.
constexpr auto kMaxPool = [](auto& m, const StateDict&, const Tensors& x, const Json& a) {
  Tensors out;
  if (a["call"].value("return_indices", false))
    append(out, m.forward_with_indices(x[0]));
  else
    append(out, m(x[0]));
  return out;
};

template <int N, class Max, class AdaptiveMax, class AdaptiveAvg>
void add_max_pools(Table& t) {
  const std::string d = std::to_string(N) + "d";
  t["nn.MaxPool" + d] = module_op<Max>(
      [](Json& a) { return Max(take<SizeOf<N>>(a, "kernel_size"), options<MaxPoolOptions<N>>(a)); },
      kMaxPool);
  t["nn.AdaptiveMaxPool" + d] = module_op<AdaptiveMax>(
      [](Json& a) { return AdaptiveMax(take<SizeOf<N>>(a, "output_size")); }, kMaxPool);
  t["nn.AdaptiveAvgPool" + d] = module_op<AdaptiveAvg>(
      [](Json& a) { return AdaptiveAvg(take<SizeOf<N>>(a, "output_size")); });
}

template <int N, class M>
Op fractional() {
  return module_op<M>(
      [](Json& a) {
        return M(take<SizeOf<N>>(a, "kernel_size"), options<FractionalMaxPoolOptions<N>>(a));
      },
      kMaxPool);
}

void add_pools(Table& t) {
  add_max_pools<1, nn::MaxPool1d, nn::AdaptiveMaxPool1d, nn::AdaptiveAvgPool1d>(t);
  add_max_pools<2, nn::MaxPool2d, nn::AdaptiveMaxPool2d, nn::AdaptiveAvgPool2d>(t);
  add_max_pools<3, nn::MaxPool3d, nn::AdaptiveMaxPool3d, nn::AdaptiveAvgPool3d>(t);
  FERRITE_MODULES(t, AvgPool, take<SizeOf<N>>(a, "kernel_size"), options<AvgPoolOptions<N>>(a));
  FERRITE_MODULES(t, LPPool, take<double>(a, "norm_type"), take<SizeOf<N>>(a, "kernel_size"),
                  options<LPPoolOptions<N>>(a));
  FERRITE_MODULES(t, MaxUnpool, take<SizeOf<N>>(a, "kernel_size"), options<MaxUnpoolOptions<N>>(a));
  t["nn.FractionalMaxPool2d"] = fractional<2, nn::FractionalMaxPool2d>();
  t["nn.FractionalMaxPool3d"] = fractional<3, nn::FractionalMaxPool3d>();
}

void add_norms(Table& t) {
  FERRITE_MODULES(t, BatchNorm, whole(a, "num_features"), options<nn::BatchNormOptions>(a));
  FERRITE_MODULES(t, InstanceNorm, whole(a, "num_features"), options<nn::InstanceNormOptions>(a));
  FERRITE_MODULE(t, LayerNorm, take<Shape>(a, "normalized_shape"),
                 options<nn::LayerNormOptions>(a));
  FERRITE_MODULE(t, RMSNorm, take<Shape>(a, "normalized_shape"), options<nn::RMSNormOptions>(a));
  FERRITE_MODULE(t, GroupNorm, whole(a, "num_groups"), whole(a, "num_channels"),
                 options<nn::GroupNormOptions>(a));
  FERRITE_MODULE(t, LocalResponseNorm, whole(a, "size"), options<LocalResponseNormOptions>(a));
}

/// One number, or two for each dimension.
template <class M>
typename M::Amounts amounts(Json& a) {
  const Json value = a.at("padding");
  a.erase("padding");
  if (value.is_array()) return value.get<typename M::Amounts>();
  typename M::Amounts all{};
  all.fill(value.get<std::int64_t>());
  return all;
}

#define FERRITE_PADS(Class)                                \
  FERRITE_MODULE(t, Class##1d, amounts<nn::Class##1d>(a)); \
  FERRITE_MODULE(t, Class##2d, amounts<nn::Class##2d>(a)); \
  FERRITE_MODULE(t, Class##3d, amounts<nn::Class##3d>(a))

void add_paddings(Table& t) {
  FERRITE_PADS(ZeroPad);
  FERRITE_PADS(ReflectionPad);
  FERRITE_PADS(ReplicationPad);
  FERRITE_PADS(CircularPad);
  FERRITE_MODULE(t, ConstantPad1d, amounts<nn::ConstantPad1d>(a), take<double>(a, "value"));
  FERRITE_MODULE(t, ConstantPad2d, amounts<nn::ConstantPad2d>(a), take<double>(a, "value"));
  FERRITE_MODULE(t, ConstantPad3d, amounts<nn::ConstantPad3d>(a), take<double>(a, "value"));
  FERRITE_MODULE(t, Flatten, options<nn::FlattenOptions>(a));
  FERRITE_MODULE(t, Unflatten, take<int>(a, "dim"), take<Shape>(a, "unflattened_size"));
  FERRITE_MODULE(t, PixelShuffle, whole(a, "upscale_factor"));
  FERRITE_MODULE(t, PixelUnshuffle, whole(a, "downscale_factor"));
  FERRITE_MODULE(t, ChannelShuffle, whole(a, "groups"));
  FERRITE_MODULE(t, Unfold, take<Pair>(a, "kernel_size"), options<FoldOptions>(a));
  FERRITE_MODULE(t, Fold, take<Pair>(a, "output_size"), take<Pair>(a, "kernel_size"),
                 options<FoldOptions>(a));
  FERRITE_MODULE(t, Upsample, options<InterpolateOptions>(a));
  FERRITE_MODULE(t, UpsamplingNearest2d, options<InterpolateOptions>(a));
  FERRITE_MODULE(t, UpsamplingBilinear2d, options<InterpolateOptions>(a));
}

/// Layers whose weight is computed.
void add_computed(Table& t) {
  t["nn.utils.weight_norm"] = module_op<nn::Linear>([](Json& a) {
    const auto dim = take<std::optional<std::int64_t>>(a, "dim");
    return nn::utils::weight_norm(nn::Linear(whole(a, "in_features"), whole(a, "out_features")),
                                  "weight",
                                  dim ? std::optional(static_cast<int>(*dim)) : std::nullopt);
  });
  t["nn.utils.spectral_norm"] = module_op<nn::Conv2d>([](Json& a) {
    const auto iterations = static_cast<int>(whole(a, "n_power_iterations"));
    return nn::utils::spectral_norm(
        nn::Conv2d(whole(a, "in_channels"), whole(a, "out_channels"), take<Pair>(a, "kernel_size")),
        {.n_power_iterations = iterations});
  });
}

}  // namespace

void add_modules(Table& t) {
  add_activations(t);
  add_products(t);
  add_pools(t);
  add_norms(t);
  add_paddings(t);
  add_computed(t);
}

}  // namespace ferrite::differential
