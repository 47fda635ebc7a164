// Layers that move elements between channels and places: PixelShuffle, PixelUnshuffle,
// ChannelShuffle, Unfold, Fold.
#pragma once

#include "ferrite/nn/module.h"
#include "ferrite/ops/arrange.h"

namespace ferrite::nn {

/// [*, C r^2, H, W] to [*, C, H r, W r], for an upscale factor r: groups of r^2 channels become
/// blocks of pixels (Shi et al. 2016). ShapeError unless r^2 divides the channels, ValueError for a
/// factor below 1.
///
///   nn::PixelShuffle up(2);
///   Tensor y = up(randn({1, 12, 8, 8}));  // [1, 3, 16, 16]
class PixelShuffle : public Cloneable<PixelShuffle> {
 public:
  explicit PixelShuffle(std::int64_t upscale_factor);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  std::int64_t factor_;
};

/// The inverse of PixelShuffle: [*, C, H r, W r] to [*, C r^2, H, W]. ShapeError unless r divides
/// height and width, ValueError for a factor below 1.
class PixelUnshuffle : public Cloneable<PixelUnshuffle> {
 public:
  explicit PixelUnshuffle(std::int64_t downscale_factor);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  std::int64_t factor_;
};

/// Reorders the channels of [N, C, *], of `groups` groups: first the first ones of all groups, then
/// the second ones, and so on (Zhang et al., "ShuffleNet", 2018). ShapeError unless `groups`
/// divides C, ValueError for less than one group.
class ChannelShuffle : public Cloneable<ChannelShuffle> {
 public:
  explicit ChannelShuffle(std::int64_t groups);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  std::int64_t groups_;
};

/// unfold() as a module: the windows of [N, C, H, W] or [C, H, W] as columns, [N, C kh kw, L] or
/// [C kh kw, L], L being the number of windows. ShapeError for other ranks, and if no window fits.
///
///   nn::Unfold windows(3, {.padding = 1});
///   Tensor y = windows(randn({1, 3, 8, 8}));  // [1, 27, 64]
class Unfold : public Cloneable<Unfold> {
 public:
  explicit Unfold(Pair kernel_size, const FoldOptions& options = {})
      : kernel_size_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& input) override { return unfold(input, kernel_size_, options_); }
  std::string extra_repr() const override;

 private:
  Pair kernel_size_;
  FoldOptions options_;
};
/// fold() as a module, the other way round: adds the windows [N, C kh kw, L] or [C kh kw, L] at
/// their places in an image [N, C, *output_size] or [C, *output_size]. ShapeError unless there are
/// as many windows as fit.
class Fold : public Cloneable<Fold> {
 public:
  Fold(Pair output_size, Pair kernel_size, const FoldOptions& options = {})
      : output_size_(output_size), kernel_size_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& input) override {
    return fold(input, output_size_, kernel_size_, options_);
  }
  std::string extra_repr() const override;

 private:
  Pair output_size_, kernel_size_;
  FoldOptions options_;
};

}  // namespace ferrite::nn
