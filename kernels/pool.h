// Pooling over planes. Tensors are dense, all NCHW or all NHWC as `Pool2d::channels_last` says.
#pragma once

#include <algorithm>

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// The windows along one dimension.
struct PoolAxis {
  /// Input cells [first, first + dilation * count) in steps of `dilation` that lie inside.
  struct Window {
    std::int64_t first;  ///< the first input cell inside
    std::int64_t skip;   ///< kernel cells before it, in the padding
    std::int64_t count;  ///< cells inside
  };
  Window window(std::int64_t o) const;
  /// The number of cells of the largest window.
  std::int64_t widest() const;

  std::int64_t input = 0, output = 0;
  std::int64_t kernel = 0, stride = 1, padding = 0, dilation = 1;
  bool adaptive = false;  ///< windows follow from the two sizes; the line above is ignored
};

inline PoolAxis::Window PoolAxis::window(std::int64_t o) const {
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

inline std::int64_t PoolAxis::widest() const {
  if (!adaptive) return kernel;
  std::int64_t most = 0;
  for (std::int64_t o = 0; o < output; ++o) most = std::max(most, window(o).count);
  return most;
}

struct Pool2d {
  std::int64_t batch = 0, channels = 0;
  PoolAxis h, w;
  bool channels_last = false;

  // For means: the divisor of a window's sum. 0: no override.
  bool count_include_pad = true;
  std::int64_t divisor_override = 0;

  /// The dtype of what max_pool2d() keeps for its gradient: the position of the maximum in its
  /// window, row-major over h.widest() x w.widest(), in one byte if that suffices.
  DType code_dtype() const { return h.widest() * w.widest() <= 256 ? kUInt8 : kInt32; }
};

/// The pooling's input, or its gradient, as [N, C, H, W].
inline View input_planes(const Pool2d& p, View v) {
  const std::int64_t h = p.h.input, w = p.w.input, c = p.channels;
  const std::int64_t sizes[] = {p.batch, c, h, w};
  const std::int64_t planes[] = {c * h * w, h * w, w, 1}, last[] = {c * h * w, 1, w * c, c};
  v.ndim = 4;
  for (int d = 0; d < 4; ++d)
    v.sizes[d] = sizes[d], v.strides[d] = p.channels_last ? last[d] : planes[d];
  return v;
}

/// `code` (dtype code_dtype()) is optional: a View without data means that it is not wanted.
/// `cleared`, int32, is set to zeros if it has data.
FERRITE_KERNEL(max_pool2d, const Pool2d& pool, const View& out, const View& code, const View& in,
               const View& cleared);
/// Writes every element of grad_in: the sum of the gradients of the windows whose maximum it is. If
/// `relu_out` has data, it is the pooling's result, the pooling's input is that of a ReLU, and
/// grad_in becomes the gradient of the ReLU's input: windows whose maximum is 0 pass nothing.
/// If channel_sums [channels], of grad_in's dtype, has data, it receives the sums of grad_in over
/// each channel: the gradient of a bias before the ReLU. `counters`, int32
/// [channels], is what max_pool2d() cleared: zeros, before and after. Without it, the sums take a
/// kernel of their own. The CPU does not use it.
FERRITE_KERNEL_OF("max_pool2d", max_pool2d_backward, const Pool2d& pool, const View& grad_in,
                  const View& grad_out, const View& code, const View& relu_out,
                  const View& channel_sums, const View& counters);
/// out = the elements of `in` at the positions in `code`.
FERRITE_KERNEL_OF("max_pool2d", max_pool2d_gather, const Pool2d& pool, const View& out,
                  const View& in, const View& code);
/// Converts codes to int64 indices h * W + w into the plane.
FERRITE_KERNEL_OF("max_pool2d", max_pool2d_indices, const Pool2d& pool, const View& indices,
                  const View& code);

FERRITE_KERNEL(avg_pool2d, const Pool2d& pool, const View& out, const View& in);
/// Writes every element of grad_in.
FERRITE_KERNEL_OF("avg_pool2d", avg_pool2d_backward, const Pool2d& pool, const View& grad_in,
                  const View& grad_out);

}  // namespace ferrite::kernels
