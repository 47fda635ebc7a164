// What an image file is turned into.
#pragma once

#include <cstdint>

namespace ferrite::data {

/// `unchanged` keeps the file's channels: 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha; a
/// palette becomes RGB (RGBA where it has transparency). `gray` and `rgb` drop alpha; colours
/// become gray by ITU-R 601 luma, as in Pillow.
enum class ImageMode : std::uint8_t { unchanged, gray, rgb };

}  // namespace ferrite::data
