// Concatenation.
#pragma once

#include <vector>

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// A dense operand: rows of `bytes` bytes each.
struct ConcatPart {
  const void* data;
  std::int64_t bytes;
};

/// Row r of `out` (dense) is the concatenation of row r of all parts; `rows` is the product of the
/// dimensions before the concatenated one. Copies all parts in one pass.
FERRITE_KERNEL(concat, void* out, std::int64_t rows, const std::vector<ConcatPart>& parts);

}  // namespace ferrite::kernels
