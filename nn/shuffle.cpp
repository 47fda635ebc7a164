#include "ferrite/nn/shuffle.h"

#include <fmt/format.h>

#include "ferrite/nn/repr.h"

namespace ferrite::nn {

namespace {

std::int64_t checked_factor(std::int64_t factor, const char* layer) {
  FERRITE_CHECK(factor > 0, ValueError, layer, "expected a number above 0, got {}", factor);
  return factor;
}

}  // namespace

PixelShuffle::PixelShuffle(std::int64_t upscale_factor)
    : factor_(checked_factor(upscale_factor, "PixelShuffle")) {}

Tensor PixelShuffle::forward(const Tensor& input) { return pixel_shuffle(input, factor_); }

std::string PixelShuffle::extra_repr() const { return fmt::format("upscale_factor={}", factor_); }

PixelUnshuffle::PixelUnshuffle(std::int64_t downscale_factor)
    : factor_(checked_factor(downscale_factor, "PixelUnshuffle")) {}

Tensor PixelUnshuffle::forward(const Tensor& input) { return pixel_unshuffle(input, factor_); }

std::string PixelUnshuffle::extra_repr() const {
  return fmt::format("downscale_factor={}", factor_);
}

ChannelShuffle::ChannelShuffle(std::int64_t groups)
    : groups_(checked_factor(groups, "ChannelShuffle")) {}

Tensor ChannelShuffle::forward(const Tensor& input) { return channel_shuffle(input, groups_); }

std::string ChannelShuffle::extra_repr() const { return fmt::format("groups={}", groups_); }

namespace {

std::string repr(Pair kernel_size, const FoldOptions& o) {
  return fmt::format("kernel_size={}, dilation={}, padding={}, stride={}", repr_short(kernel_size),
                     repr_short(o.dilation), repr_short(o.padding), repr_short(o.stride));
}

}  // namespace

std::string Unfold::extra_repr() const { return repr(kernel_size_, options_); }
std::string Fold::extra_repr() const {
  return fmt::format("output_size={}, {}", repr_short(output_size_), repr(kernel_size_, options_));
}

}  // namespace ferrite::nn
