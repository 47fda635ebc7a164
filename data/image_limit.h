// The size limit shared by the image readers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ferrite/data/file.h"

namespace ferrite::data {

/// IoError if an image of `width` x `height` has more than `max_pixels`. Each is below 2^32.
inline void check_pixels(std::size_t width, std::size_t height, std::int64_t max_pixels,
                         const Where& where, std::uint64_t offset) {
  where.check(max_pixels > 0 && width * height <= static_cast<std::size_t>(max_pixels), offset,
              "the image has {} x {} pixels, more than the limit of {}; where it is trusted set "
              "max_pixels to {} or more",
              width, height, max_pixels, width * height);
}

}  // namespace ferrite::data
