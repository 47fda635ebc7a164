// PNG files of the usual kind, decoded without libpng, whose rows and checks cost more than the
// decompression.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ferrite/core/tensor.h"
#include "ferrite/data/file.h"

namespace ferrite::data {

/// Pixels, interleaved: row y begins at byte y * stride + 1 of `rows`, which is uint8.
struct PlainPng {
  std::uint32_t width = 0, height = 0;
  int channels = 0;
  std::size_t stride = 0;
  Tensor rows;
};

/// A sound PNG of 8 bits, gray or RGB, with alpha or without, not interlaced, and without chunks
/// that would change its pixels or are seldom seen. Nothing where the file is another: libpng then
/// reads it, or says what is wrong with it, as where it has more than `max_pixels`. The signature
/// is not looked at.
std::optional<PlainPng> decode_plain_png(Bytes bytes, std::int64_t max_pixels);

}  // namespace ferrite::data
