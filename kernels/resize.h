// Planes of another size: nearest cells or bilinear interpolation, and the gradients. Tensors are
// dense, all NCHW or all NHWC as `Resize2d::channels_last` says.
#pragma once

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

enum class InterpolateMode : std::uint8_t { nearest, bilinear };

/// Which input cells the results along one dimension are made of. The host and the device compute
/// it by the same functions.
struct ResizeAxis {
  ResizeAxis() = default;
  /// Result o lies at (o + shift) * scale - shift among the input's cells; `shift` is 0 or 0.5.
  ResizeAxis(std::int32_t input, std::int32_t output, double scale, double shift)
      : input(input),
        output(output),
        scale(scale),
        shift(shift),
        inverse(scale > 0 ? 1 / scale : 0) {}

  /// A result is (1 - weight) * cell[first] + weight * cell[second]. `second` is the cell after the
  /// first one or, where there is none and the weight is 0, the same; cells of no weight do not
  /// count, whatever they hold.
  struct Source {
    std::int32_t first, second;
    double weight;
  };
  template <InterpolateMode mode>
  FERRITE_HOST_DEVICE Source source(std::int32_t o) const {
    if constexpr (mode == InterpolateMode::nearest) {
      // In float32, as PyTorch: it decides which of two cells is the nearer one.
      const auto at = static_cast<std::int32_t>(static_cast<float>(o) * static_cast<float>(scale));
      const std::int32_t first = at < input ? at : input - 1;
      return {first, first, 0};
    } else {
      const double at = (o + shift) * scale - shift;
      if (at <= 0) return {0, 0, 0};
      const auto first = static_cast<std::int32_t>(at);
      if (first >= input - 1) return {input - 1, input - 1, 0};
      return {first, first + 1, at - first};
    }
  }

  /// The results [begin, end) that cell i can have a part in.
  struct Results {
    std::int32_t begin, end;
  };
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

  std::int32_t input = 0, output = 0;
  double scale = 1, shift = 0;
  double inverse = 1;  ///< of scale, or 0

 private:
  /// The first result whose source begins at cell i or after it.
  template <InterpolateMode mode>
  FERRITE_HOST_DEVICE std::int32_t beyond(std::int32_t i) const {
    if (i <= 0) return 0;
    // About there; then to the very one, whatever was rounded.
    const double about = inverse > 0 ? (i + shift) * inverse - shift : output;
    std::int32_t o = about >= output ? output : about > 0 ? static_cast<std::int32_t>(about) : 0;
    while (o > 0 && source<mode>(o - 1).first >= i) --o;
    while (o < output && source<mode>(o).first < i) ++o;
    return o;
  }
};

struct Resize2d {
  std::int64_t batch = 0, channels = 0;
  ResizeAxis h, w;
  InterpolateMode mode = InterpolateMode::nearest;
  bool channels_last = false;
};

/// Computed in the Compute type, rounded once; the cells' positions in float64.
FERRITE_KERNEL_OF("interpolate", resize2d, const Resize2d& resize, const View& out, const View& in);
/// Writes all of grad_in: each cell adds up its results' gradients, in their order.
FERRITE_KERNEL_OF("interpolate", resize2d_backward, const Resize2d& resize, const View& grad_in,
                  const View& grad_out);

}  // namespace ferrite::kernels
