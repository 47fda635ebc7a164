// Conv1d, Conv2d, Conv3d and ConvTranspose1d, ConvTranspose2d, ConvTranspose3d.
#pragma once

#include <cstdint>

#include "ferrite/nn/module.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/rearrange.h"

namespace ferrite::nn {

/// In N dimensions.
template <int N>
struct ConvOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  SizeOf<N> stride = 1;
  PaddingOf<N> padding = 0;
  SizeOf<N> dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  /// What the padding holds: zeros (constant), or values of the input, as pad() defines them; or
  /// "zeros", "reflect", "replicate", "circular".
  Choice<PadMode> padding_mode = PadMode::constant;
};
using Conv1dOptions = ConvOptions<1>;
using Conv2dOptions = ConvOptions<2>;
using Conv3dOptions = ConvOptions<3>;

/// The common base of the convolutions in N dimensions, of [N, in_channels, *] to [N, out_channels,
/// *], as the functions of ops/conv.h: `Conv2d(1, 6, 5, {.padding = 2})`. Weights and biases are
/// initialised uniformly within +-1 / sqrt(fan_in). ValueError unless `groups` divides both numbers
/// of channels.
template <int N>
class ConvNd : public Module {
 public:
  ConvNd(std::int64_t in_channels, std::int64_t out_channels, SizeOf<N> kernel_size,
         const ConvOptions<N>& options = {});
  /// In PyTorch's order: `Conv2d(1, 8, 3, 1, 1)` has a stride and a padding of 1.
  ConvNd(std::int64_t in_channels, std::int64_t out_channels, SizeOf<N> kernel_size,
         SizeOf<N> stride, PaddingOf<N> padding = 0, SizeOf<N> dilation = 1,
         std::int64_t groups = 1, bool bias = true,
         Choice<PadMode> padding_mode = PadMode::constant)
      : ConvNd(in_channels, out_channels, kernel_size,
               {.stride = stride,
                .padding = padding,
                .dilation = dilation,
                .groups = groups,
                .bias = bias,
                .padding_mode = padding_mode}) {}
  /// Draws new weights.
  void reset_parameters();
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const override;
  const ConvOptions<N>& options() const { return options_; }
  /// The options of the function, which takes padded() instead of the input.
  auto op_options() const;
  /// The input with the padding that is not zeros; itself if there is none.
  Tensor padded(const Tensor& input) const;

  Tensor weight;  ///< [out_channels, in_channels / groups, *kernel_size]
  Tensor bias;    ///< [out_channels]; undefined without bias

 private:
  ConvOptions<N> options_;
};

/// The options of conv1d(), conv2d() or conv3d(), by the number of dimensions.
template <int N>
using ConvFuncOptions =
    std::conditional_t<N == 1, Conv1dFuncOptions,
                       std::conditional_t<N == 2, Conv2dFuncOptions, Conv3dFuncOptions>>;

template <int N>
auto ConvNd<N>::op_options() const {
  ConvFuncOptions<N> o;
  o.stride = options_.stride;
  if (options_.padding_mode == PadMode::constant) o.padding = options_.padding;
  o.dilation = options_.dilation;
  o.groups = options_.groups;
  return o;
}

extern template class ConvNd<1>;
extern template class ConvNd<2>;
extern template class ConvNd<3>;

/// Convolution of lines: an input [N, in_channels, L] or [in_channels, L] gives [N, out_channels,
/// L'] or the same without N, of a size that the options decide. In each dimension the size is
/// (in + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down. The weight is
/// [out_channels, in_channels / groups, K]. The options and their defaults are those of
/// Conv1dOptions. ShapeError for inputs of another rank or number of channels.
///
///   nn::Conv1d conv(16, 33, 3, {.stride = 2});
///   Tensor y = conv(randn({20, 16, 50}));  // [20, 33, 24]
class Conv1d : public Cloneable<Conv1d, ConvNd<1>> {
 public:
  using Cloneable::Cloneable;
};

/// Convolution of images: an input [N, in_channels, H, W] or [in_channels, H, W] gives [N,
/// out_channels, H', W'] or the same without N, of a size that the options decide. In each
/// dimension the size is (in + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down.
/// The weight is [out_channels, in_channels / groups, KH, KW]. The options and their defaults are
/// those of Conv2dOptions. ShapeError for inputs of another rank or number of channels.
///
///   nn::Conv2d conv(3, 16, 3, {.padding = 1});
///   Tensor y = conv(randn({8, 3, 32, 32}));  // [8, 16, 32, 32]
class Conv2d : public Cloneable<Conv2d, ConvNd<2>> {
 public:
  using Cloneable::Cloneable;
};

/// Convolution of volumes: an input [N, in_channels, D, H, W] or [in_channels, D, H, W] gives [N,
/// out_channels, D', H', W'] or the same without N, of a size that the options decide. In each
/// dimension the size is (in + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down.
/// The weight is [out_channels, in_channels / groups, KD, KH, KW]. The options and their defaults
/// are those of Conv3dOptions. ShapeError for inputs of another rank or number of channels.
///
///   nn::Conv3d conv(1, 8, 3, {.padding = 1});
///   Tensor y = conv(randn({2, 1, 16, 32, 32}));  // [2, 8, 16, 32, 32]
class Conv3d : public Cloneable<Conv3d, ConvNd<3>> {
 public:
  using Cloneable::Cloneable;
};

/// The options of the transposed convolutions in N dimensions.
template <int N>
struct ConvTransposeOptions {
  [[no_unique_address]] ops::NamedFieldsOnly named_fields_only = {};
  SizeOf<N> stride = 1;
  SizeOf<N> padding = 0;
  SizeOf<N> output_padding = 0;  ///< added to one side of the result's size
  std::int64_t groups = 1;
  bool bias = true;
  SizeOf<N> dilation = 1;
};
using ConvTranspose1dOptions = ConvTransposeOptions<1>;
using ConvTranspose2dOptions = ConvTransposeOptions<2>;
using ConvTranspose3dOptions = ConvTransposeOptions<3>;

/// The common base of the transposed convolutions of [N, in_channels, *] to [N, out_channels, *],
/// as the functions of ops/conv.h; initialisation and errors as for ConvNd.
template <int N>
class ConvTransposeNd : public Module {
 public:
  ConvTransposeNd(std::int64_t in_channels, std::int64_t out_channels, SizeOf<N> kernel_size,
                  const ConvTransposeOptions<N>& options = {});
  ConvTransposeNd(std::int64_t in_channels, std::int64_t out_channels, SizeOf<N> kernel_size,
                  SizeOf<N> stride, SizeOf<N> padding = 0, SizeOf<N> output_padding = 0,
                  std::int64_t groups = 1, bool bias = true, SizeOf<N> dilation = 1)
      : ConvTransposeNd(in_channels, out_channels, kernel_size,
                        {.stride = stride,
                         .padding = padding,
                         .output_padding = output_padding,
                         .groups = groups,
                         .bias = bias,
                         .dilation = dilation}) {}
  /// Draws new weights.
  void reset_parameters();
  Tensor forward(const Tensor& input) override { return run(input, options_.output_padding); }
  /// With a result of this size, the last N dimensions or the whole shape, instead of that which
  /// output_padding gives. A stride above 1 allows several; ValueError for others.
  Tensor forward(const Tensor& input, const Shape& output_size);
  std::string extra_repr() const override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const override;

  Tensor weight;  ///< [in_channels, out_channels / groups, *kernel_size]
  Tensor bias;    ///< [out_channels]; undefined without bias

 private:
  Tensor run(const Tensor& input, SizeOf<N> output_padding) const;

  ConvTransposeOptions<N> options_;
};

extern template class ConvTransposeNd<1>;
extern template class ConvTransposeNd<2>;
extern template class ConvTransposeNd<3>;

/// Transposed convolution of lines, the gradient of a convolution by its input: an input [N,
/// in_channels, L] or [in_channels, L] gives [N, out_channels, L'] or the same without N. In each
/// dimension the size is (in - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1.
/// The weight is [in_channels, out_channels / groups, K]. ShapeError for inputs of another rank or
/// number of channels.
///
///   nn::ConvTranspose1d up(16, 8, 4, {.stride = 2, .padding = 1});
///   Tensor y = up(randn({2, 16, 50}));  // [2, 8, 100]
class ConvTranspose1d : public Cloneable<ConvTranspose1d, ConvTransposeNd<1>> {
 public:
  using Cloneable::Cloneable;
};

/// Transposed convolution of images, the gradient of a convolution by its input: an input [N,
/// in_channels, H, W] or [in_channels, H, W] gives [N, out_channels, H', W'] or the same without N.
/// In each dimension the size is (in - 1) stride - 2 padding + dilation (kernel - 1) +
/// output_padding + 1. The weight is [in_channels, out_channels / groups, KH, KW]. ShapeError for
/// inputs of another rank or number of channels.
///
///   nn::ConvTranspose2d up(16, 8, 4, {.stride = 2, .padding = 1});
///   Tensor y = up(randn({2, 16, 8, 8}));                // [2, 8, 16, 16]
///   Tensor z = up(randn({2, 16, 8, 8}), Shape{17, 16});  // [2, 8, 17, 16]
class ConvTranspose2d : public Cloneable<ConvTranspose2d, ConvTransposeNd<2>> {
 public:
  using Cloneable::Cloneable;
};

/// Transposed convolution of volumes, the gradient of a convolution by its input: an input [N,
/// in_channels, D, H, W] or [in_channels, D, H, W] gives [N, out_channels, D', H', W'] or the same
/// without N. In each dimension the size is (in - 1) stride - 2 padding + dilation (kernel - 1) +
/// output_padding + 1. The weight is [in_channels, out_channels / groups, KD, KH, KW]. ShapeError
/// for inputs of another rank or number of channels.
///
///   nn::ConvTranspose3d up(16, 8, 4, {.stride = 2, .padding = 1});
///   Tensor y = up(randn({2, 16, 4, 8, 8}));  // [2, 8, 8, 16, 16]
class ConvTranspose3d : public Cloneable<ConvTranspose3d, ConvTransposeNd<3>> {
 public:
  using Cloneable::Cloneable;
};

}  // namespace ferrite::nn
