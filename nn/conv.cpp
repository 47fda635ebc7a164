#include "ferrite/nn/conv.h"

#include <cmath>

#include "ferrite/nn/init.h"
#include "ferrite/nn/repr.h"

namespace ferrite::nn {

namespace {

void check_channels(const char* layer, std::int64_t in, std::int64_t out, std::int64_t groups) {
  FERRITE_CHECK(
      groups > 0 && in > 0 && out > 0 && in % groups == 0 && out % groups == 0, ValueError, layer,
      "{} input and {} output channels must be positive multiples of {} groups", in, out, groups);
}

void reset(const Tensor& weight, const Tensor& bias) {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  const double bound = 1 / std::sqrt(static_cast<double>(init::calculate_fans(weight).in));
  init::uniform_(bias, -bound, bound);
}

/// The part of extra_repr() that all convolutions share; defaults are omitted.
std::string describe(std::int64_t in, std::int64_t out, const Tensor& weight, Pair stride,
                     const std::string& padding, Pair dilation, Pair output_padding,
                     std::int64_t groups, bool bias) {
  std::string text = fmt::format("{}, {}, kernel_size={}, stride={}", in, out,
                                 repr(Pair(weight.size(2), weight.size(3))), repr(stride));
  if (padding != "(0, 0)") text += ", padding=" + padding;
  if (dilation != Pair(1)) text += ", dilation=" + repr(dilation);
  if (output_padding != Pair(0)) text += ", output_padding=" + repr(output_padding);
  if (groups != 1) text += fmt::format(", groups={}", groups);
  if (!bias) text += ", bias=False";
  return text;
}

}  // namespace

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, Pair kernel_size,
               const Conv2dOptions& options)
    : options_(options) {
  check_channels("Conv2d", in_channels, out_channels, options.groups);
  weight = empty({out_channels, in_channels / options.groups, kernel_size.h, kernel_size.w});
  if (options.bias) bias = empty({out_channels});
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  reset_parameters();
}

void Conv2d::reset_parameters() { reset(weight, bias); }

Tensor Conv2d::forward(const Tensor& input) { return conv2d(input, weight, bias, op_options()); }

std::optional<std::int64_t> Conv2d::multiply_adds(std::span<const Tensor>,
                                                  std::span<const Tensor> outputs) const {
  return outputs[0].numel() * (weight.numel() / weight.size(0));
}

Conv2dFuncOptions Conv2d::op_options() const {
  return {.stride = options_.stride,
          .padding = options_.padding,
          .dilation = options_.dilation,
          .groups = options_.groups};
}

std::string Conv2d::extra_repr() const {
  return describe(weight.size(1) * options_.groups, weight.size(0), weight, options_.stride,
                  options_.padding.is_same ? "same" : repr(options_.padding.size),
                  options_.dilation, 0, options_.groups, bias.defined());
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels,
                                 Pair kernel_size, const ConvTranspose2dOptions& options)
    : options_(options) {
  check_channels("ConvTranspose2d", in_channels, out_channels, options.groups);
  weight = empty({in_channels, out_channels / options.groups, kernel_size.h, kernel_size.w});
  if (options.bias) bias = empty({out_channels});
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  reset_parameters();
}

void ConvTranspose2d::reset_parameters() { reset(weight, bias); }

Tensor ConvTranspose2d::forward(const Tensor& input) {
  return conv_transpose2d(input, weight, bias,
                          {.stride = options_.stride,
                           .padding = options_.padding,
                           .output_padding = options_.output_padding,
                           .groups = options_.groups,
                           .dilation = options_.dilation});
}

std::optional<std::int64_t> ConvTranspose2d::multiply_adds(std::span<const Tensor> inputs,
                                                           std::span<const Tensor>) const {
  return inputs[0].numel() * (weight.numel() / weight.size(0));
}

std::string ConvTranspose2d::extra_repr() const {
  return describe(weight.size(0), weight.size(1) * options_.groups, weight, options_.stride,
                  repr(options_.padding), options_.dilation, options_.output_padding,
                  options_.groups, bias.defined());
}

}  // namespace ferrite::nn
