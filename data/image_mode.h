// What an image file is turned into, and how large it may be.
#pragma once

#include <cstdint>

namespace ferrite::data {

/// `unchanged` keeps the file's channels: 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha; a
/// palette becomes RGB (RGBA where it has transparency). `gray` and `rgb` drop alpha; colours
/// become gray by ITU-R 601 luma, as in Pillow.
enum class ImageMode : std::uint8_t { unchanged, gray, rgb };

/// The pixels that an image may have where its reader is given no other limit, as in Pillow: a
/// small file can claim very many. Reading takes memory for at most two decoded images, a
/// progressive JPEG's 2 bytes of each coefficient besides, and time that goes with the limit.
inline constexpr std::int64_t kMaxImagePixels = 178'956'970;

}  // namespace ferrite::data
