// A decoder for common PNG files without libpng, whose row handling and checks cost more than the
// decompression.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ferrite/core/tensor.h"
#include "ferrite/data/file.h"

namespace ferrite::data {

/// Interleaved pixels: row y begins at byte y * stride + 1 of `rows`, which is uint8.
struct PlainPng {
  std::uint32_t width = 0, height = 0;
  int channels = 0;
  std::size_t stride = 0;
  Tensor rows;
};

/// Decodes a valid 8-bit PNG, gray or RGB, with or without alpha, not interlaced, without rare
/// chunks or chunks that change its pixels. Returns nothing for any other file, including one of
/// more than `max_pixels`; libpng then reads it, or reports the error. The signature is not
/// checked.
std::optional<PlainPng> decode_plain_png(Bytes bytes, std::int64_t max_pixels);

}  // namespace ferrite::data
