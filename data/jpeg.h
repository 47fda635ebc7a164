// JPEG images as uint8 tensors [channels, height, width].
#pragma once

#include <filesystem>
#include <string_view>

#include "core/tensor.h"
#include "data/file.h"
#include "data/image_mode.h"

namespace ferrite::data {

/// Reads a gray or colour JPEG, baseline or progressive, as uint8 [1 or 3, H, W]. CMYK is refused.
/// Truncated and corrupt files are errors, although libjpeg would fill the rest with gray; sizes
/// that the file cannot hold are refused before anything is allocated for them. Throws IoError.
Tensor read_jpeg(const std::filesystem::path& path, ImageMode mode = ImageMode::unchanged);
/// The same from memory; `name` is for messages.
Tensor parse_jpeg(Bytes bytes, std::string_view name, ImageMode mode = ImageMode::unchanged);

/// Writes a host uint8 tensor [H, W], [1, H, W] or [3, H, W]; quality 1 to 100 (ValueError).
/// Replaces `path` atomically. ShapeError, DTypeError, DeviceError, IoError.
void write_jpeg(const Tensor& image, const std::filesystem::path& path, int quality = 90);

}  // namespace ferrite::data
