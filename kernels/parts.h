// Many arrays in one pass: what devices send one another is mostly many small tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "ferrite/core/dtype.h"
#include "ferrite/core/forward.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

struct CopyPart {
  void* to;
  const void* from;
  std::int64_t bytes;
};

/// Each `to` = its `from`: dense runs that do not overlap, at any addresses that `stream` reaches.
FERRITE_KERNEL(copy_parts, const std::vector<CopyPart>& parts);

/// out = inputs[first] + ... + inputs[first + count - 1], of `numel` elements each, lying densely.
struct SumPart {
  void* out;
  std::int64_t numel;
  std::int32_t first, count;  ///< count is 1 to 65
};

/// Each sum in one pass, always added in the order of its inputs; 16-bit types are added in float32
/// and rounded once, integers wrap around. An input may be the result itself. For all but bool.
FERRITE_KERNEL_FUNCTION(sum_parts, DType dtype, const std::vector<SumPart>& parts,
                        const std::vector<const void*>& inputs);

}  // namespace ferrite::kernels
