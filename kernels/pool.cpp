#include "ferrite/kernels/pool.h"

#include <algorithm>

#include "ferrite/kernels/cpu/pool.h"
#include "ferrite/kernels/cuda/pool.h"
#include "ferrite/kernels/launch.h"

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

void max_pool2d(const Stream& stream, const Pool2d& pool, const View& out, const View& code,
                const View& in) {
  launch(
      stream, "max_pool2d", [=] { cpu::max_pool2d(pool, out, code, in); },
      [&] { cuda::max_pool2d(stream, pool, out, code, in); });
}
void max_pool2d_backward(const Stream& stream, const Pool2d& pool, const View& grad_in,
                         const View& grad_out, const View& code) {
  launch(
      stream, "max_pool2d", [=] { cpu::max_pool2d_backward(pool, grad_in, grad_out, code); },
      [&] { cuda::max_pool2d_backward(stream, pool, grad_in, grad_out, code); });
}
void max_pool2d_gather(const Stream& stream, const Pool2d& pool, const View& out, const View& in,
                       const View& code) {
  launch(
      stream, "max_pool2d", [=] { cpu::max_pool2d_gather(pool, out, in, code); },
      [&] { cuda::max_pool2d_gather(stream, pool, out, in, code); });
}
void max_pool2d_indices(const Stream& stream, const Pool2d& pool, const View& indices,
                        const View& code) {
  launch(
      stream, "max_pool2d", [=] { cpu::max_pool2d_indices(pool, indices, code); },
      [&] { cuda::max_pool2d_indices(stream, pool, indices, code); });
}
void avg_pool2d(const Stream& stream, const Pool2d& pool, const View& out, const View& in) {
  launch(
      stream, "avg_pool2d", [=] { cpu::avg_pool2d(pool, out, in); },
      [&] { cuda::avg_pool2d(stream, pool, out, in); });
}
void avg_pool2d_backward(const Stream& stream, const Pool2d& pool, const View& grad_in,
                         const View& grad_out) {
  launch(
      stream, "avg_pool2d", [=] { cpu::avg_pool2d_backward(pool, grad_in, grad_out); },
      [&] { cuda::avg_pool2d_backward(stream, pool, grad_in, grad_out); });
}

}  // namespace ferrite::kernels
