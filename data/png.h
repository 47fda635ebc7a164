// PNG images as uint8 tensors [channels, height, width].
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ferrite/core/tensor.h"
#include "ferrite/data/file.h"
#include "ferrite/data/image_mode.h"

namespace ferrite::data {

/// Reads any PNG (1 to 16 bits, interlaced or not) as uint8 [C, H, W]; 16 bits are scaled to 8,
/// fewer are expanded; gamma and colour profiles are ignored. Images of more than `max_pixels`, and
/// sizes that the file cannot contain, are rejected before memory is allocated for them. Throws
/// IoError.
Tensor read_png(const std::filesystem::path& path, ImageMode mode = ImageMode::unchanged,
                std::int64_t max_pixels = kMaxImagePixels);
/// The same from memory; `name` is used in messages.
Tensor parse_png(Bytes bytes, std::string_view name, ImageMode mode = ImageMode::unchanged,
                 std::int64_t max_pixels = kMaxImagePixels);

/// Writes a host uint8 tensor [H, W] or [C, H, W] with 1 to 4 channels (gray, gray and alpha, RGB,
/// RGBA). Replaces `path` atomically. ShapeError, DTypeError, DeviceError, IoError.
void write_png(const Tensor& image, const std::filesystem::path& path);
/// The bytes of such a file.
std::string encode_png(const Tensor& image);

/// Tiles uint8 images [N, C, H, W] into one [C, H', W'], `columns` per row, `padding` black pixels
/// between them.
Tensor image_grid(const Tensor& images, int columns = 8, int padding = 2);

}  // namespace ferrite::data
