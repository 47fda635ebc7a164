// Resizing of planes by nearest neighbour or bilinear interpolation, and the gradients. Tensors are
// dense, all NCHW or all NHWC as `Resize2d::channels_last` says.
#pragma once

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// How values between pixels are made.
enum class InterpolateMode : std::uint8_t { nearest, bilinear };

/// The mapping from results to input cells along one dimension, computed by the same functions on
/// the host and on devices.
struct ResizeAxis {
  ResizeAxis() = default;
  /// Result o lies at position (o + shift) * scale - shift of the input; `shift` is 0 or 0.5.
  ResizeAxis(std::int32_t input, std::int32_t output, double scale, double shift)
      : input(input),
        output(output),
        scale(scale),
        shift(shift),
        inverse(scale > 0 ? 1 / scale : 0) {}

  /// A result is (1 - weight) * cell[first] + weight * cell[second]. `second` is the cell after the
  /// first one; at the edge it equals `first`, and the weight is 0. Cells of weight 0 are not read,
  /// so that a NaN or infinity there has no effect.
  struct Source {
    std::int32_t first;   ///< the first cell
    std::int32_t second;  ///< the cell after the first, or the first at the edge
    double weight;        ///< the weight of the second cell
  };
  /// Where a result comes from.
  template <InterpolateMode mode>
  FERRITE_HOST_DEVICE Source source(std::int32_t o) const {
    if constexpr (mode == InterpolateMode::nearest) {
      // In float32, as in PyTorch, because the rounding decides which of two cells is nearer.
      const auto at = static_cast<std::int32_t>(static_cast<float>(o) * static_cast<float>(scale));
      const std::int32_t first = at < input ? at : input - 1;  ///< the first cell
      return {first, first, 0};
    } else {
      const double at = (o + shift) * scale - shift;
      if (at <= 0) return {0, 0, 0};
      /// The first cell.
      const auto first = static_cast<std::int32_t>(at);
      if (first >= input - 1) return {input - 1, input - 1, 0};
      return {first, first + 1, at - first};
    }
  }

  /// The results [begin, end) to which cell i can contribute.
  struct Results {
    std::int32_t begin;  ///< the first result
    std::int32_t end;    ///< the result behind the last
  };
  /// Where a result comes from along an axis.
  template <InterpolateMode mode>
  FERRITE_HOST_DEVICE Results results(std::int32_t i) const {
    return {beyond<mode>(mode == InterpolateMode::nearest ? i : i - 1), beyond<mode>(i + 1)};
  }
  /// The weight of cell i in result o.
  template <InterpolateMode mode>
  FERRITE_HOST_DEVICE double share(std::int32_t i, std::int32_t o) const {
    const Source s = source<mode>(o);
    return i == s.first ? 1 - s.weight : i == s.second ? s.weight : 0;
  }

  std::int32_t input = 0;   ///< the number of cells of the input
  std::int32_t output = 0;  ///< the number of results
  double scale = 1;         ///< cells of the input for each result
  double shift = 0;         ///< 0.5 if positions are those of the cells' centres, else 0
  double inverse = 1;       ///< 1 / scale, or 0 if scale is 0

 private:
  /// The first result whose `first` is cell i or a later one.
  template <InterpolateMode mode>
  FERRITE_HOST_DEVICE std::int32_t beyond(std::int32_t i) const {
    if (i <= 0) return 0;
    // An estimate, which the loops then correct for rounding.
    const double about = inverse > 0 ? (i + shift) * inverse - shift : output;
    std::int32_t o = about >= output ? output : about > 0 ? static_cast<std::int32_t>(about) : 0;
    while (o > 0 && source<mode>(o - 1).first >= i) --o;
    while (o < output && source<mode>(o).first < i) ++o;
    return o;
  }
};

/// The sizes of a resize, and its method.
struct Resize2d {
  std::int64_t batch = 0;                           ///< the number of images
  std::int64_t channels = 0;                        ///< the number of channels
  ResizeAxis h;                                     ///< the mapping along the height
  ResizeAxis w;                                     ///< the mapping along the width
  InterpolateMode mode = InterpolateMode::nearest;  ///< how values between pixels are made
  bool channels_last = false;                       ///< whether the memory is NHWC, not NCHW
};

/// Resizes `in` to `out`, of one floating dtype. Values are computed in the Compute type and
/// rounded once; positions in float64.
FERRITE_KERNEL_OF("interpolate", resize2d, const Resize2d& resize, const View& out, const View& in);
/// Writes every element of grad_in: the sum of the gradients of the results that the cell
/// contributes to, in order.
FERRITE_KERNEL_OF("interpolate", resize2d_backward, const Resize2d& resize, const View& grad_in,
                  const View& grad_out);

}  // namespace ferrite::kernels
