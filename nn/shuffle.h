// Layers that move elements between channels and places: PixelShuffle, PixelUnshuffle,
// ChannelShuffle, Unfold, Fold.
#pragma once

#include "ferrite/nn/module.h"
#include "ferrite/ops/arrange.h"

namespace ferrite::nn {

/// [*, C r^2, H, W] to [*, C, H r, W r], for an upscale factor r (Shi et al. 2016). ShapeError for
/// others.
class PixelShuffle : public Cloneable<PixelShuffle> {
 public:
  explicit PixelShuffle(std::int64_t upscale_factor);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  std::int64_t factor_;
};

/// The inverse of PixelShuffle.
class PixelUnshuffle : public Cloneable<PixelUnshuffle> {
 public:
  explicit PixelUnshuffle(std::int64_t downscale_factor);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  std::int64_t factor_;
};

/// channel_shuffle() of ops/arrange.h.
class ChannelShuffle : public Cloneable<ChannelShuffle> {
 public:
  explicit ChannelShuffle(std::int64_t groups);
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;

 private:
  std::int64_t groups_;
};

/// unfold() and fold() of ops/arrange.h.
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
/// Sums windows back into an image: fold() as a module.
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
