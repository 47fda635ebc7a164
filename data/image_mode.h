// Target format of image files, and their maximum size.
#pragma once

#include <cstdint>

namespace ferrite::data {

/// `unchanged` keeps the file's channels: 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha; a
/// palette becomes RGB (RGBA if it has transparency). `gray` and `rgb` drop alpha; colours become
/// gray by ITU-R 601 luma, as in torchvision: that which a JPEG stores.
enum class ImageMode : std::uint8_t { unchanged, gray, rgb };

/// The default limit on an image's pixels, as in Pillow: a small file can claim a huge image.
/// Reading takes memory for at most two decoded images, plus 2 bytes per coefficient for a
/// progressive JPEG, and time proportional to the limit.
inline constexpr std::int64_t kMaxImagePixels = 178'956'970;

}  // namespace ferrite::data
