// Poolings of one, two and three dimensions. Inputs, options and errors are those of the functions
// in ops/pool.h and ops/fractional_pool.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "ferrite/nn/module.h"
#include "ferrite/ops/fractional_pool.h"
#include "ferrite/ops/pool.h"

namespace ferrite::nn {

using ferrite::AvgPool1dOptions;
using ferrite::AvgPool2dOptions;
using ferrite::AvgPool3dOptions;
using ferrite::FractionalMaxPool2dOptions;
using ferrite::FractionalMaxPool3dOptions;
using ferrite::LPPool1dOptions;
using ferrite::LPPool2dOptions;
using ferrite::LPPool3dOptions;
using ferrite::MaxPool1dOptions;
using ferrite::MaxPool2dOptions;
using ferrite::MaxPool3dOptions;
using ferrite::MaxUnpool1dOptions;
using ferrite::MaxUnpool2dOptions;
using ferrite::MaxUnpool3dOptions;

// ---- The common bases in N dimensions

/// `MaxPool2d(3, {.stride = 2, .padding = 1})`, or the same arguments in PyTorch's order.
template <int N>
class MaxPoolNd : public Module {
 public:
  explicit MaxPoolNd(SizeOf<N> kernel_size, const MaxPoolOptions<N>& options = {});
  MaxPoolNd(SizeOf<N> kernel_size, SizeOf<N> stride, SizeOf<N> padding = 0)
      : MaxPoolNd(kernel_size, {.stride = stride, .padding = padding}) {}
  // MaxPool2d({3, 2}), which could be a copy of MaxPool2d(3, 2) as well.
  template <int M>
  requires(M == 2 && N == 2) explicit MaxPoolNd(const std::int64_t (&kernel_size)[M])
      : MaxPoolNd(Pair(kernel_size[0], kernel_size[1])) {}
  Tensor forward(const Tensor& input) override;
  /// PyTorch's return_indices: also the positions of the maxima, for MaxUnpool.
  std::pair<Tensor, Tensor> forward_with_indices(const Tensor& input);
  const MaxPoolOptions<N>& options() const { return options_; }
  std::string extra_repr() const override;

 private:
  MaxPoolOptions<N> options_;
};

/// The common base of AvgPool1d to AvgPool3d.
template <int N>
class AvgPoolNd : public Module {
 public:
  explicit AvgPoolNd(SizeOf<N> kernel_size, const AvgPoolOptions<N>& options = {});
  AvgPoolNd(SizeOf<N> kernel_size, SizeOf<N> stride, SizeOf<N> padding = 0)
      : AvgPoolNd(kernel_size, {.stride = stride, .padding = padding}) {}
  // AvgPool2d({3, 2}), which could be a copy of AvgPool2d(3, 2) as well.
  template <int M>
  requires(M == 2 && N == 2) explicit AvgPoolNd(const std::int64_t (&kernel_size)[M])
      : AvgPoolNd(Pair(kernel_size[0], kernel_size[1])) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  AvgPoolOptions<N> options_;
};

/// Whether an adaptive pooling takes the mean or the maximum.
enum class AdaptivePool : std::uint8_t { avg, max };

/// The size of an adaptive pooling's result, one for all dimensions or one for each. None,
/// std::nullopt, keeps the size of the input: `AdaptiveAvgPool2d({None, 3})`.
template <int N>
struct AdaptiveSize {
  using Size = std::optional<std::int64_t>;  ///< of one dimension
  AdaptiveSize(std::int64_t all) { sizes.fill(all); }
  AdaptiveSize(std::nullopt_t) {}
  AdaptiveSize(const SizeOf<N>& each) requires(N > 1) {
    std::ranges::copy(ops::sizes_of(each), sizes.begin());
  }
  AdaptiveSize(Size height, Size width) requires(N == 2) : sizes{height, width} {}
  AdaptiveSize(Size depth, Size height, Size width) requires(N == 3)
      : sizes{depth, height, width} {}

  std::array<Size, N> sizes;  ///< the outermost dimension first
};

/// The common base of the adaptive poolings in N dimensions.
template <AdaptivePool kind, int N>
class AdaptivePoolNd : public Module {
 public:
  explicit AdaptivePoolNd(AdaptiveSize<N> output_size) : output_size_(output_size) {}
  /// `{1}`, too, is one number.
  explicit AdaptivePoolNd(std::int64_t output_size) requires(N == 1) : output_size_(output_size) {}
  Tensor forward(const Tensor& input) override;
  /// PyTorch's return_indices.
  std::pair<Tensor, Tensor> forward_with_indices(const Tensor& input) requires(kind ==
                                                                               AdaptivePool::max);
  std::string extra_repr() const override;

 private:
  SizeOf<N> output_size(const Tensor& input) const;

  AdaptiveSize<N> output_size_;
};

/// The common base of LPPool1d to LPPool3d.
template <int N>
class LPPoolNd : public Module {
 public:
  LPPoolNd(double norm_type, SizeOf<N> kernel_size, const LPPoolOptions<N>& options = {})
      : norm_type_(norm_type), kernel_size_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  double norm_type_;
  SizeOf<N> kernel_size_;
  LPPoolOptions<N> options_;
};

/// `unpool(x, indices)`, with the indices of MaxPool's forward_with_indices(); `unpool(x, indices,
/// output_size)`, such as Pair(5, 5), where several input sizes give the pooled one.
template <int N>
class MaxUnpoolNd : public Module {
 public:
  explicit MaxUnpoolNd(SizeOf<N> kernel_size, const MaxUnpoolOptions<N>& options = {})
      : kernel_size_(kernel_size), options_(options) {}
  using Module::forward;
  Tensor forward(const Tensor& input, const Tensor& indices) {
    return forward(input, indices, options_.output_size);
  }
  Tensor forward(const Tensor& input, const Tensor& indices, OptionalSizeOf<N> output_size);
  std::string extra_repr() const override;

 private:
  SizeOf<N> kernel_size_;
  MaxUnpoolOptions<N> options_;
};

/// The common base of FractionalMaxPool2d and FractionalMaxPool3d.
template <int N>
class FractionalMaxPoolNd : public Module {
 public:
  FractionalMaxPoolNd(SizeOf<N> kernel_size, const FractionalMaxPoolOptions<N>& options)
      : kernel_size_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& input) override { return forward_with_indices(input).first; }
  /// PyTorch's return_indices.
  std::pair<Tensor, Tensor> forward_with_indices(const Tensor& input);

 private:
  SizeOf<N> kernel_size_;
  FractionalMaxPoolOptions<N> options_;
};

// ---- The layers

/// The maximum of each window of [N, C, L] or [C, L]. The stride is the kernel's size unless it is
/// given; the padding is at most half the kernel's size and is never the maximum.
class MaxPool1d : public Cloneable<MaxPool1d, MaxPoolNd<1>> {
 public:
  using Cloneable::Cloneable;
};

/// The mean of each window of [N, C, L] or [C, L]. The stride is the kernel's size unless it is
/// given. Padding counts as zeros, or not at all with count_include_pad = false.
class AvgPool1d : public Cloneable<AvgPool1d, AvgPoolNd<1>> {
 public:
  using Cloneable::Cloneable;
};

/// The means of windows that are chosen so that the result has a given size: [N, C, L] gives [N, C,
/// L'], and [C, L] gives [C, L']. The argument is one number, L'.
class AdaptiveAvgPool1d
    : public Cloneable<AdaptiveAvgPool1d, AdaptivePoolNd<AdaptivePool::avg, 1>> {
 public:
  using Cloneable::Cloneable;
};

/// The maxima of windows that are chosen so that the result has a given size: [N, C, L] gives [N,
/// C, L'], and [C, L] gives [C, L']. The argument is one number, L'. forward_with_indices() also
/// gives the positions.
class AdaptiveMaxPool1d
    : public Cloneable<AdaptiveMaxPool1d, AdaptivePoolNd<AdaptivePool::max, 1>> {
 public:
  using Cloneable::Cloneable;
};

/// The p-norm of each window of [N, C, L] or [C, L], (sum of x^p)^(1/p), with p as the first
/// argument: `LPPool1d(2, 3)` has p = 2 and a kernel of size 3. The stride is the kernel's size
/// unless it is given. ValueError if p is 0.
class LPPool1d : public Cloneable<LPPool1d, LPPoolNd<1>> {
 public:
  using Cloneable::Cloneable;
};

/// A partial inverse of MaxPool1d: the values of [N, C, L] or [C, L] at the positions that
/// forward_with_indices() gave, and zeros elsewhere. The size is (in - 1) stride - 2 padding +
/// kernel in each dimension, or the given output_size. IndexError for a position out of range.
class MaxUnpool1d : public Cloneable<MaxUnpool1d, MaxUnpoolNd<1>> {
 public:
  using Cloneable::Cloneable;
};

/// The maximum of each window of [N, C, H, W] or [C, H, W]. The stride is the kernel's size unless
/// it is given; the padding is at most half the kernel's size and is never the maximum.
///
///   nn::MaxPool2d pool(3, {.stride = 2, .padding = 1});
///   Tensor y = pool(randn({8, 64, 112, 112}));  // [8, 64, 56, 56]
class MaxPool2d : public Cloneable<MaxPool2d, MaxPoolNd<2>> {
 public:
  using Cloneable::Cloneable;
};

/// The mean of each window of [N, C, H, W] or [C, H, W]. The stride is the kernel's size unless it
/// is given. Padding counts as zeros, or not at all with count_include_pad = false.
///
///   nn::AvgPool2d pool(2);
///   Tensor y = pool(randn({8, 6, 28, 28}));  // [8, 6, 14, 14]
class AvgPool2d : public Cloneable<AvgPool2d, AvgPoolNd<2>> {
 public:
  using Cloneable::Cloneable;
};

/// The means of windows that are chosen so that the result has a given size: [N, C, H, W] gives [N,
/// C, H', W'], and [C, H, W] gives [C, H', W']. The argument is H' and W', or one number for both.
///
///   nn::AdaptiveAvgPool2d pool(1);
///   Tensor y = pool(randn({8, 512, 7, 7}));  // [8, 512, 1, 1]
class AdaptiveAvgPool2d
    : public Cloneable<AdaptiveAvgPool2d, AdaptivePoolNd<AdaptivePool::avg, 2>> {
 public:
  using Cloneable::Cloneable;
};

/// The maxima of windows that are chosen so that the result has a given size: [N, C, H, W] gives
/// [N, C, H', W'], and [C, H, W] gives [C, H', W']. The argument is H' and W', or one number for
/// both. forward_with_indices() also gives the positions.
class AdaptiveMaxPool2d
    : public Cloneable<AdaptiveMaxPool2d, AdaptivePoolNd<AdaptivePool::max, 2>> {
 public:
  using Cloneable::Cloneable;
};

/// The p-norm of each window of [N, C, H, W] or [C, H, W], (sum of x^p)^(1/p), with p as the first
/// argument: `LPPool2d(2, 3)` has p = 2 and a kernel of size 3. The stride is the kernel's size
/// unless it is given. ValueError if p is 0.
class LPPool2d : public Cloneable<LPPool2d, LPPoolNd<2>> {
 public:
  using Cloneable::Cloneable;
};

/// A partial inverse of MaxPool2d: the values of [N, C, H, W] or [C, H, W] at the positions that
/// forward_with_indices() gave, and zeros elsewhere. The size is (in - 1) stride - 2 padding +
/// kernel in each dimension, or the given output_size. IndexError for a position out of range.
///
///   auto [y, indices] = pool.forward_with_indices(x);
///   Tensor back = nn::MaxUnpool2d(2)(y, indices);
class MaxUnpool2d : public Cloneable<MaxUnpool2d, MaxUnpoolNd<2>> {
 public:
  using Cloneable::Cloneable;
};

/// The maximum of each window of [N, C, D, H, W] or [C, D, H, W]. The stride is the kernel's size
/// unless it is given; the padding is at most half the kernel's size and is never the maximum.
class MaxPool3d : public Cloneable<MaxPool3d, MaxPoolNd<3>> {
 public:
  using Cloneable::Cloneable;
};

/// The mean of each window of [N, C, D, H, W] or [C, D, H, W]. The stride is the kernel's size
/// unless it is given. Padding counts as zeros, or not at all with count_include_pad = false.
class AvgPool3d : public Cloneable<AvgPool3d, AvgPoolNd<3>> {
 public:
  using Cloneable::Cloneable;
};

/// The means of windows that are chosen so that the result has a given size: [N, C, D, H, W] gives
/// [N, C, D', H', W'], and [C, D, H, W] gives [C, D', H', W']. The argument is D', H' and W', or
/// one number for all.
class AdaptiveAvgPool3d
    : public Cloneable<AdaptiveAvgPool3d, AdaptivePoolNd<AdaptivePool::avg, 3>> {
 public:
  using Cloneable::Cloneable;
};

/// The maxima of windows that are chosen so that the result has a given size: [N, C, D, H, W] gives
/// [N, C, D', H', W'], and [C, D, H, W] gives [C, D', H', W']. The argument is D', H' and W', or
/// one number for all. forward_with_indices() also gives the positions.
class AdaptiveMaxPool3d
    : public Cloneable<AdaptiveMaxPool3d, AdaptivePoolNd<AdaptivePool::max, 3>> {
 public:
  using Cloneable::Cloneable;
};

/// The p-norm of each window of [N, C, D, H, W] or [C, D, H, W], (sum of x^p)^(1/p), with p as the
/// first argument: `LPPool3d(2, 3)` has p = 2 and a kernel of size 3. The stride is the kernel's
/// size unless it is given. ValueError if p is 0.
class LPPool3d : public Cloneable<LPPool3d, LPPoolNd<3>> {
 public:
  using Cloneable::Cloneable;
};

/// A partial inverse of MaxPool3d: the values of [N, C, D, H, W] or [C, D, H, W] at the positions
/// that forward_with_indices() gave, and zeros elsewhere. The size is (in - 1) stride - 2 padding +
/// kernel in each dimension, or the given output_size. IndexError for a position out of range.
class MaxUnpool3d : public Cloneable<MaxUnpool3d, MaxUnpoolNd<3>> {
 public:
  using Cloneable::Cloneable;
};

/// The maxima of windows at random places of [N, C, H, W] or [C, H, W]. The options give the
/// result's size or its ratio to the input's, between 0 and 1 (ValueError unless one of both is
/// given): `FractionalMaxPool2d(2, {.output_ratio = {0.7, 0.7}})`.
class FractionalMaxPool2d : public Cloneable<FractionalMaxPool2d, FractionalMaxPoolNd<2>> {
 public:
  using Cloneable::Cloneable;
};

/// The maxima of windows at random places of [N, C, D, H, W] or [C, D, H, W]. The options give the
/// result's size or its ratio to the input's, between 0 and 1 (ValueError unless one of both is
/// given): `FractionalMaxPool3d(2, {.output_ratio = {0.7, 0.7, 0.7}})`.
class FractionalMaxPool3d : public Cloneable<FractionalMaxPool3d, FractionalMaxPoolNd<3>> {
 public:
  using Cloneable::Cloneable;
};

}  // namespace ferrite::nn
