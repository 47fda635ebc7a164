// Joining tensors.
#pragma once

#include <vector>

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// What lies densely in memory as `rows` rows of `bytes` each.
struct JoinPart {
  const void* data;
  std::int64_t bytes;
};

/// Row r of `out` (dense) = row r of all parts, one after another: a cat in which a row is what
/// lies in and behind the joined dimension. All parts in one pass.
FERRITE_KERNEL(join, void* out, std::int64_t rows, const std::vector<JoinPart>& parts);

}  // namespace ferrite::kernels
