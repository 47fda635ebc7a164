#include "ferrite/kernels/pool.h"

#include <algorithm>

namespace ferrite::kernels {

PoolAxis::Window PoolAxis::window(std::int64_t o) const {
  if (adaptive) {
    const std::int64_t first = o * input / output;
    return {first, 0, ((o + 1) * input + output - 1) / output - first};
  }
  const std::int64_t start = o * stride - padding;
  const std::int64_t skip = start < 0 ? (-start + dilation - 1) / dilation : 0;
  const std::int64_t first = start + skip * dilation;
  const std::int64_t inside = first < input ? (input - first + dilation - 1) / dilation : 0;
  return {first, skip, std::clamp<std::int64_t>(kernel - skip, 0, inside)};
}

std::int64_t PoolAxis::widest() const {
  if (!adaptive) return kernel;
  std::int64_t most = 0;
  for (std::int64_t o = 0; o < output; ++o) most = std::max(most, window(o).count);
  return most;
}

}  // namespace ferrite::kernels
