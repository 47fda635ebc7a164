#include "ferrite/nn/conv.h"

#include <array>
#include <cmath>
#include <tuple>

#include "ferrite/nn/init.h"
#include "ferrite/nn/repr.h"

namespace ferrite::nn {

namespace {

constexpr const char* kConv[] = {"Conv1d", "Conv2d", "Conv3d"};
constexpr const char* kTransposed[] = {"ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"};

/// The weight [first, second / groups, *kernel_size].
template <class Sizes>
Tensor make_weight(const char* layer, std::int64_t first, std::int64_t second, std::int64_t groups,
                   const Sizes& kernel_size) {
  FERRITE_CHECK(
      groups > 0 && first > 0 && second > 0 && first % groups == 0 && second % groups == 0,
      ValueError, layer, "{} and {} channels must be positive multiples of {} groups", first,
      second, groups);
  Shape shape{first, second / groups};
  for (const std::int64_t size : ops::sizes_of(kernel_size)) {
    FERRITE_CHECK(size > 0, ValueError, layer, "expected a kernel_size above 0, got {}",
                  repr_sizes(kernel_size));
    shape.push_back(size);
  }
  return empty(shape);
}

void reset(const Tensor& weight, const Tensor& bias) {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  const double bound = 1 / std::sqrt(static_cast<double>(init::calculate_fans(weight).in));
  init::uniform_(bias, -bound, bound);
}

/// The part of extra_repr() that all convolutions share; defaults are omitted.
template <class Sizes>
std::string describe(std::int64_t in, std::int64_t out, const Tensor& weight, const Sizes& stride,
                     const std::string& padding, const Sizes& dilation, const Sizes& output_padding,
                     std::int64_t groups, bool bias) {
  Shape kernel = weight.shape();
  kernel.erase(0);
  kernel.erase(0);
  std::string text =
      fmt::format("{}, {}, kernel_size={}, stride={}", in, out, repr(kernel), repr_sizes(stride));
  if (padding != repr_sizes(Sizes(0))) text += ", padding=" + padding;
  if (dilation != Sizes(1)) text += ", dilation=" + repr_sizes(dilation);
  if (output_padding != Sizes(0)) text += ", output_padding=" + repr_sizes(output_padding);
  if (groups != 1) text += fmt::format(", groups={}", groups);
  if (!bias) text += ", bias=False";
  return text;
}

}  // namespace

template <int N>
ConvNd<N>::ConvNd(std::int64_t in_channels, std::int64_t out_channels, SizeOf<N> kernel_size,
                  const ConvOptions<N>& options)
    : weight(make_weight(kConv[N - 1], out_channels, in_channels, options.groups, kernel_size)),
      options_(options) {
  FERRITE_CHECK(!options.padding.is_same || options.stride == SizeOf<N>(1), ValueError,
                kConv[N - 1], "the padding \"same\" needs a stride of 1, got {}",
                repr_sizes(options.stride));
  if (options.bias) bias = empty({out_channels});
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  reset_parameters();
}

template <int N>
void ConvNd<N>::reset_parameters() {
  reset(weight, bias);
}

template <int N>
Tensor ConvNd<N>::padded(const Tensor& input) const {
  if (options_.padding_mode == PadMode::constant) return input;
  const auto sizes = ops::sizes_of(options_.padding.size),
             dilation = ops::sizes_of(options_.dilation);
  std::vector<std::int64_t> amounts;
  for (int d = N; d-- > 0;) {
    const auto i = static_cast<std::size_t>(d);
    std::int64_t before = sizes[i], after = sizes[i];
    if (options_.padding.is_same) {
      const std::int64_t both = dilation[i] * (weight.size(2 + d) - 1);
      before = both / 2, after = both - before;
    }
    amounts.insert(amounts.end(), {before, after});
  }
  return pad(input, amounts, options_.padding_mode);
}

template <int N>
Tensor ConvNd<N>::forward(const Tensor& input) {
  const Tensor x = padded(input);
  if constexpr (N == 1)
    return conv1d(x, weight, bias, op_options());
  else if constexpr (N == 2)
    return conv2d(x, weight, bias, op_options());
  else
    return conv3d(x, weight, bias, op_options());
}

template <int N>
std::optional<std::int64_t> ConvNd<N>::multiply_adds(std::span<const Tensor>,
                                                     std::span<const Tensor> outputs) const {
  return outputs[0].numel() * (weight.numel() / weight.size(0));
}

template <int N>
std::string ConvNd<N>::extra_repr() const {
  const ConvOptions<N>& o = options_;
  std::string text = describe(weight.size(1) * o.groups, weight.size(0), weight, o.stride,
                              o.padding.is_same ? "same" : repr_sizes(o.padding.size), o.dilation,
                              SizeOf<N>(0), o.groups, bias.defined());
  if (o.padding_mode != PadMode::constant)
    text += fmt::format(", padding_mode={}", o.padding_mode.name());
  return text;
}

template class ConvNd<1>;
template class ConvNd<2>;
template class ConvNd<3>;

// ---- Transposed

template <int N>
ConvTransposeNd<N>::ConvTransposeNd(std::int64_t in_channels, std::int64_t out_channels,
                                    SizeOf<N> kernel_size, const ConvTransposeOptions<N>& options)
    : weight(
          make_weight(kTransposed[N - 1], in_channels, out_channels, options.groups, kernel_size)),
      options_(options) {
  if (options.bias) bias = empty({out_channels});
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  reset_parameters();
}

template <int N>
void ConvTransposeNd<N>::reset_parameters() {
  reset(weight, bias);
}

template <int N>
Tensor ConvTransposeNd<N>::forward(const Tensor& input, const Shape& output_size) {
  const char* const layer = kTransposed[N - 1];
  FERRITE_CHECK(input.defined() && (input.dim() == N + 1 || input.dim() == N + 2), ShapeError,
                layer, "expected an input of {} or {} dimensions, got {}", N + 1, N + 2,
                input.defined() ? input.describe() : "an undefined tensor");
  FERRITE_CHECK(output_size.size() == N || output_size.size() == input.dim(), ValueError, layer,
                "expected an output_size of {} or {} numbers, got {}", N, input.dim(), output_size);
  const auto stride = ops::sizes_of(options_.stride), padding = ops::sizes_of(options_.padding),
             dilation = ops::sizes_of(options_.dilation);
  Shape least, most;
  std::array<std::int64_t, N> more;
  bool fits = true;
  for (int d = 0; d < N; ++d) {
    const auto i = static_cast<std::size_t>(d);
    least.push_back((input.size(d - N) - 1) * stride[i] - 2 * padding[i] +
                    dilation[i] * (weight.size(d - N) - 1) + 1);
    most.push_back(least[d] + stride[i] - 1);
    more[i] = output_size[output_size.size() - N + d] - least[d];
    fits = fits && more[i] >= 0 && more[i] < stride[i];
  }
  FERRITE_CHECK(fits, ValueError, layer,
                "expected an output_size from {} to {} for an input {}, got {}", least, most,
                input.shape(), output_size);
  return run(input, std::make_from_tuple<SizeOf<N>>(more));
}

template <int N>
Tensor ConvTransposeNd<N>::run(const Tensor& input, SizeOf<N> output_padding) const {
  const auto call = [&](auto function, auto o) {
    o.stride = options_.stride;
    o.padding = options_.padding;
    o.output_padding = output_padding;
    o.groups = options_.groups;
    o.dilation = options_.dilation;
    return function(o);
  };
  if constexpr (N == 1)
    return call([&](const auto& o) { return conv_transpose1d(input, weight, bias, o); },
                ConvTranspose1dFuncOptions());
  else if constexpr (N == 2)
    return call([&](const auto& o) { return conv_transpose2d(input, weight, bias, o); },
                ConvTranspose2dFuncOptions());
  else
    return call([&](const auto& o) { return conv_transpose3d(input, weight, bias, o); },
                ConvTranspose3dFuncOptions());
}

template <int N>
std::optional<std::int64_t> ConvTransposeNd<N>::multiply_adds(std::span<const Tensor> inputs,
                                                              std::span<const Tensor>) const {
  return inputs[0].numel() * (weight.numel() / weight.size(0));
}

template <int N>
std::string ConvTransposeNd<N>::extra_repr() const {
  const ConvTransposeOptions<N>& o = options_;
  return describe(weight.size(0), weight.size(1) * o.groups, weight, o.stride,
                  repr_sizes(o.padding), o.dilation, o.output_padding, o.groups, bias.defined());
}

template class ConvTransposeNd<1>;
template class ConvTransposeNd<2>;
template class ConvTransposeNd<3>;

}  // namespace ferrite::nn
