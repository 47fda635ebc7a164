// Images from files: data/png.h and data/jpeg.h by content.
#pragma once

#include "data/jpeg.h"
#include "data/png.h"

namespace ferrite::data {

/// Reads a PNG or JPEG file, told by content, as uint8 [C, H, W]. Throws IoError.
Tensor read_image(const std::filesystem::path& path, ImageMode mode = ImageMode::unchanged);

}  // namespace ferrite::data
