// JPEG images as uint8 tensors [channels, height, width].
#pragma once

#include <filesystem>
#include <string_view>

#include "ferrite/core/tensor.h"
#include "ferrite/data/file.h"
#include "ferrite/data/image_mode.h"

namespace ferrite::data {

/// Reads a gray or colour JPEG, baseline or progressive, as uint8 [1 or 3, H, W]. CMYK becomes RGB
/// without a colour profile, as in Pillow.
/// Truncated and corrupt files are errors, although libjpeg would fill the rest with gray. Images
/// of more than `max_pixels`, and sizes that the file cannot contain, are rejected before memory is
/// allocated for them. Each scan of a progressive file processes all pixels again: more than 100
/// scans (encoders write about 10) are rejected. Throws IoError.
Tensor read_jpeg(const std::filesystem::path& path, ImageMode mode = ImageMode::unchanged,
                 std::int64_t max_pixels = kMaxImagePixels);
/// The same from memory; `name` is used in messages.
Tensor parse_jpeg(Bytes bytes, std::string_view name, ImageMode mode = ImageMode::unchanged,
                  std::int64_t max_pixels = kMaxImagePixels);

/// Writes a host uint8 tensor [H, W], [1, H, W] or [3, H, W]; quality 1 to 100 (ValueError).
/// Replaces `path` atomically. ShapeError, DTypeError, DeviceError, IoError.
void write_jpeg(const Tensor& image, const std::filesystem::path& path, int quality = 90);

}  // namespace ferrite::data
