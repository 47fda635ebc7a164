// Conv2d and ConvTranspose2d.
#pragma once

#include <cstdint>

#include "ferrite/nn/module.h"
#include "ferrite/ops/conv.h"

namespace ferrite::nn {

struct Conv2dOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  Pair stride = 1;
  Padding padding = 0;
  Pair dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};

/// 2-d convolution of [N, in_channels, H, W] to [N, out_channels, H', W'], as conv2d() of
/// ops/conv.h: `Conv2d(1, 6, 5, {.padding = 2})`. Weights and biases are initialised uniformly
/// within +-1 / sqrt(fan_in). ValueError unless `groups` divides both numbers of channels.
class Conv2d : public Cloneable<Conv2d> {
 public:
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Pair kernel_size,
         const Conv2dOptions& options = {});
  /// In PyTorch's order: `Conv2d(1, 8, 3, 1, 1)` has a stride and a padding of 1.
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, Pair kernel_size, Pair stride,
         Padding padding = 0, Pair dilation = 1, std::int64_t groups = 1, bool bias = true)
      : Conv2d(in_channels, out_channels, kernel_size,
               {.stride = stride,
                .padding = padding,
                .dilation = dilation,
                .groups = groups,
                .bias = bias}) {}
  /// Draws new weights.
  void reset_parameters();
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const override;
  const Conv2dOptions& options() const { return options_; }
  /// Those of options() that the op takes.
  Conv2dFuncOptions op_options() const;

  Tensor weight;  ///< [out_channels, in_channels / groups, *kernel_size]
  Tensor bias;    ///< [out_channels]; undefined without bias

 private:
  Conv2dOptions options_;
};

struct ConvTranspose2dOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  Pair stride = 1;
  Pair padding = 0;
  Pair output_padding = 0;
  std::int64_t groups = 1;
  bool bias = true;
  Pair dilation = 1;
};

/// Transposed 2-d convolution of [N, in_channels, H, W] to [N, out_channels, H', W'], as
/// conv_transpose2d() of ops/conv.h; initialisation and errors as for Conv2d.
class ConvTranspose2d : public Cloneable<ConvTranspose2d> {
 public:
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Pair kernel_size,
                  const ConvTranspose2dOptions& options = {});
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, Pair kernel_size,
                  Pair stride, Pair padding = 0, Pair output_padding = 0, std::int64_t groups = 1,
                  bool bias = true, Pair dilation = 1)
      : ConvTranspose2d(in_channels, out_channels, kernel_size,
                        {.stride = stride,
                         .padding = padding,
                         .output_padding = output_padding,
                         .groups = groups,
                         .bias = bias,
                         .dilation = dilation}) {}
  /// Draws new weights.
  void reset_parameters();
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const override;

  Tensor weight;  ///< [in_channels, out_channels / groups, *kernel_size]
  Tensor bias;    ///< [out_channels]; undefined without bias

 private:
  ConvTranspose2dOptions options_;
};

}  // namespace ferrite::nn
