// Concatenation.
#pragma once

#include <vector>

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// What lies densely in memory as `rows` rows of `bytes` each.
struct ConcatPart {
  const void* data;
  std::int64_t bytes;
};

/// Row r of `out` (dense) = row r of all parts, one after another: a cat in which a row is what
/// lies in and behind the concatenated dimension. All parts in one pass.
FERRITE_KERNEL(concat, void* out, std::int64_t rows, const std::vector<ConcatPart>& parts);

}  // namespace ferrite::kernels
