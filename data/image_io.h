// Images from files: selects data/png.h or data/jpeg.h by content.
#pragma once

#include "ferrite/data/jpeg.h"
#include "ferrite/data/png.h"

namespace ferrite::data {

/// Reads a PNG or JPEG file of at most `max_pixels`, detected by content, as uint8 [C, H, W].
/// Throws IoError.
Tensor read_image(const std::filesystem::path& path, ImageMode mode = ImageMode::unchanged,
                  std::int64_t max_pixels = kMaxImagePixels);

}  // namespace ferrite::data
