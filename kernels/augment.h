// Augmenting batches of images where they are: a window of each image with zeros around it,
// mirrored or not, normalized, in one pass.
#pragma once

#include "ferrite/core/generator.h"
#include "ferrite/core/host_device.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

inline constexpr int kMaxImageChannels = 32;

struct AugmentArgs {
  std::int64_t padding = 0;  ///< zeros on each side
  bool random = true;        ///< else the window in the middle, and nothing mirrored
  float flip = 0;            ///< probability of mirroring left and right
  /// A value of channel c becomes value * scale[c] + shift[c], fused.
  float scale[kMaxImageChannels], shift[kMaxImageChannels];
};

/// Where an image's window starts in the padded image, and whether it is mirrored.
struct ImageWindow {
  std::int64_t top, left;
  bool mirrored;
};

/// Of image `i`, for windows that have `tops` times `lefts` places: from block i of the Philox
/// stream alone. Places are as likely as each other to within 2^-32 * tops (lefts).
FERRITE_HOST_DEVICE inline ImageWindow image_window(PhiloxState state, std::int64_t i,
                                                    std::int64_t tops, std::int64_t lefts,
                                                    bool random, float flip) {
  if (!random) return {(tops - 1) / 2, (lefts - 1) / 2, false};
  const PhiloxBlock block = philox(state.seed, state.offset + static_cast<std::uint64_t>(i));
  const auto below = [](std::uint32_t word, std::int64_t n) {
    return static_cast<std::int64_t>(std::uint64_t{word} * static_cast<std::uint64_t>(n) >> 32);
  };
  return {below(block.v[0], tops), below(block.v[1], lefts), philox_uniform(block.v[2]) < flip};
}

/// out [N, C, h, w], float32, float16 or bfloat16, contiguous or channels-last, fewer than 2^31
/// elements an image; images [N, C, H, W], uint8 or float32, any strides, at most kMaxImageChannels
/// channels; h <= H + 2 * padding, w <= W + 2 * padding. Uses N Philox blocks. The same bits on
/// every device.
FERRITE_KERNEL(augment, const View& out, const View& images, const AugmentArgs& args,
               PhiloxState state);

}  // namespace ferrite::kernels
