// Augmentation of a batch of images on their device: each image is padded with zeros, cropped,
// possibly mirrored, and normalized, in one pass.
#pragma once

#include "ferrite/core/generator.h"
#include "ferrite/core/host_device.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

inline constexpr int kMaxImageChannels = 32;

struct AugmentArgs {
  std::int64_t padding = 0;  ///< width of the zero padding on each side, in pixels
  bool random = true;        ///< false: the crop is centered, and nothing is mirrored
  float flip = 0;            ///< probability of mirroring left and right
  /// A value of channel c becomes value * scale[c] + shift[c], with one rounding (fused
  /// multiply-add).
  float scale[kMaxImageChannels], shift[kMaxImageChannels];
};

/// Where an image's crop starts in the padded image, in pixels, and whether the crop is mirrored.
struct ImageWindow {
  std::int64_t top, left;
  bool mirrored;
};

/// The window of image `i`, for `tops` * `lefts` possible positions. It depends only on block i of
/// the Philox stream. Positions are equally likely, up to a relative error of 2^-32 * tops (or
/// lefts).
FERRITE_HOST_DEVICE inline ImageWindow image_window(PhiloxState state, std::int64_t i,
                                                    std::int64_t tops, std::int64_t lefts,
                                                    bool random, float flip) {
  // As data::CenterCrop: halves to the even place.
  const auto middle = [](std::int64_t last) { return last / 2 + (last % 4 == 3 ? 1 : 0); };
  if (!random) return {middle(tops - 1), middle(lefts - 1), false};
  const PhiloxBlock block = philox(state.seed, state.offset + static_cast<std::uint64_t>(i));
  const auto below = [](std::uint32_t word, std::int64_t n) {
    return static_cast<std::int64_t>(std::uint64_t{word} * static_cast<std::uint64_t>(n) >> 32);
  };
  return {below(block.v[0], tops), below(block.v[1], lefts), philox_uniform(block.v[2]) < flip};
}

/// out [N, C, h, w], float32, float16 or bfloat16, contiguous or channels-last, with fewer than
/// 2^31 elements per image; images [N, C, H, W], uint8 or float32, any strides, at most
/// kMaxImageChannels channels; h <= H + 2 * padding, w <= W + 2 * padding. Uses N Philox blocks.
/// The result has the same bits on every device.
FERRITE_KERNEL(augment, const View& out, const View& images, const AugmentArgs& args,
               PhiloxState state);

}  // namespace ferrite::kernels
