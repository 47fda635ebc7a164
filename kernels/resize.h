// Resizing by interpolation, and the gradients: of planes by nearest neighbour or bilinear
// interpolation in one pass, and along one dimension by any filter. Tensors are dense, all NCHW or
// all NHWC.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// How values between cells are made.
enum class ResizeFilter : std::uint8_t { nearest, linear, cubic };

/// The mapping from results to input cells along one dimension, computed by the same functions on
/// the host and on devices.
struct ResizeAxis {
  ResizeAxis() = default;
  /// Result o lies at position (o + shift) * scale - shift of the input; `shift` is 0 or 0.5. The
  /// nearest cell is the one that (o + shift) * scale lies in.
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
  template <ResizeFilter filter>
  FERRITE_HOST_DEVICE Source source(std::int32_t o) const {
    if constexpr (filter == ResizeFilter::nearest) {
      // The rounding decides which of two cells is nearer, and is that of PyTorch's kernels for
      // contiguous images on the CPU: the position between centres in float32, and what is added to
      // it in float64.
      const double centre = static_cast<double>(static_cast<float>(scale)) * (o + shift) - shift;
      const auto at = static_cast<float>(static_cast<float>(centre) + shift);
      // Compared as a float: it may be 2^31, which int32 does not have.
      const std::int32_t first =
          at < static_cast<float>(input) ? static_cast<std::int32_t>(at) : input - 1;
      return {first, first, 0};
    } else {
      const double at = (o + shift) * scale - shift;
      if (at <= 0) return {0, 0, 0};
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
  /// Those of cell i.
  template <ResizeFilter filter>
  FERRITE_HOST_DEVICE Results results(std::int32_t i) const {
    return {beyond<filter>(filter == ResizeFilter::nearest ? i : i - 1), beyond<filter>(i + 1)};
  }
  /// The weight of cell i in result o.
  template <ResizeFilter filter>
  FERRITE_HOST_DEVICE double share(std::int32_t i, std::int32_t o) const {
    const Source s = source<filter>(o);
    return i == s.first ? 1 - s.weight : i == s.second ? s.weight : 0;
  }

  std::int32_t input = 0;   ///< the number of cells of the input
  std::int32_t output = 0;  ///< the number of results
  double scale = 1;         ///< cells of the input for each result
  double shift = 0;         ///< 0.5 if positions are those of the cells' centres, else 0
  double inverse = 1;       ///< 1 / scale, or 0 if scale is 0

 private:
  /// The first result whose `first` is cell i or a later one.
  template <ResizeFilter filter>
  FERRITE_HOST_DEVICE std::int32_t beyond(std::int32_t i) const {
    if (i <= 0) return 0;
    // An estimate, which the loops then correct for rounding.
    const double cells = filter == ResizeFilter::nearest ? i : i + shift;
    const double about = inverse > 0 ? cells * inverse - shift : output;
    std::int32_t o = about >= output ? output : about > 0 ? static_cast<std::int32_t>(about) : 0;
    while (o > 0 && source<filter>(o - 1).first >= i) --o;
    while (o < output && source<filter>(o).first < i) ++o;
    return o;
  }
};

/// The sizes of a resize, and its method.
struct Resize2d {
  std::int64_t batch = 0;                       ///< the number of images
  std::int64_t channels = 0;                    ///< the number of channels
  ResizeAxis h;                                 ///< the mapping along the height
  ResizeAxis w;                                 ///< the mapping along the width
  ResizeFilter filter = ResizeFilter::nearest;  ///< nearest or linear
  bool channels_last = false;                   ///< whether the memory is NHWC, not NCHW
};

/// A resize of the middle dimension of [outer, cells, inner], by a table of weights. A result is
/// the weighted mean of the cells of a window. Both ends of the windows rise with the result, so
/// that the results of a cell follow one another as well.
struct ResizeLine {
  ResizeAxis axis;                              ///< the mapping
  ResizeFilter filter = ResizeFilter::nearest;  ///< the weights as a function of the distance
  bool antialias = false;   ///< if cells outnumber results, widen the filter by the scale
  bool transposed = false;  ///< the gradient: from results to cells
  std::int64_t outer = 1;   ///< the product of the dimensions before it
  std::int64_t inner = 1;   ///< the product of the dimensions behind it

  /// The size of the dimension before.
  std::int32_t from() const { return transposed ? axis.output : axis.input; }
  /// The size of the dimension afterwards.
  std::int32_t to() const { return transposed ? axis.input : axis.output; }

  /// A window of the other side's elements: [first, first + count).
  struct Taps {
    std::int32_t first;  ///< the first element
    std::int32_t count;  ///< the number of elements
  };
  /// The most cells that a result is made of.
  std::int32_t most_cells() const {
    const double most = filter == ResizeFilter::nearest ? 1
                        : antialias                     ? 2 * std::ceil(radius()) + 1
                                                        : 2 * radius();
    return static_cast<std::int32_t>(std::min<double>(axis.input, most));
  }
  /// At least as many results as any cell has a part in.
  std::int32_t most_results() const {
    const double most = axis.scale > 0 ? 2 * (radius() + 1) / axis.scale + 3 : axis.output;
    return static_cast<std::int32_t>(std::min<double>(axis.output, most));
  }
  /// The window of a result; writes the weights of its cells, at most most_cells().
  template <class C>
  FERRITE_HOST_DEVICE Taps taps(std::int32_t o, C* weights) const {
    if (filter != ResizeFilter::nearest)
      return antialias ? wide_taps(o, weights) : near_taps(o, weights);
    weights[0] = 1;
    return {axis.source<ResizeFilter::nearest>(o).first, 1};
  }

 private:
  /// How far the filter reaches to either side, in cells.
  FERRITE_HOST_DEVICE double radius() const {
    return (filter == ResizeFilter::cubic ? 2 : 1) * stretch();
  }
  FERRITE_HOST_DEVICE double stretch() const {
    return antialias && axis.scale > 1 ? axis.scale : 1;
  }
  /// The filter's value at a distance; cubic: R. Keys, "Cubic Convolution Interpolation for Digital
  /// Image Processing", 1981, with PyTorch's parameters.
  FERRITE_HOST_DEVICE double value(double x) const {
    if (x < 0) x = -x;
    if (filter == ResizeFilter::linear) return x < 1 ? 1 - x : 0;
    const double a = antialias ? -0.5 : -0.75;
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((x - 5) * x + 8) * a * x - 4 * a : 0;
  }
  /// What lies beyond the edge is the cell at the edge.
  template <class C>
  FERRITE_HOST_DEVICE Taps near_taps(std::int32_t o, C* weights) const {
    const std::int32_t last = axis.input - 1, reach = filter == ResizeFilter::cubic ? 2 : 1;
    double at = (o + axis.shift) * axis.scale - axis.shift;
    if (filter == ResizeFilter::linear && at < 0) at = 0;
    const double below = std::floor(at);
    const std::int32_t cell = below < last ? static_cast<std::int32_t>(below) : last;
    const double beyond = at - cell < 1 ? at - cell : 1;
    const std::int32_t first = cell - reach + 1 > 0 ? cell - reach + 1 : 0;
    const Taps taps{first, (cell + reach < last ? cell + reach : last) - first + 1};
    for (std::int32_t k = 0; k < taps.count; ++k) weights[k] = 0;
    for (std::int32_t k = 1 - reach; k <= reach; ++k) {
      const std::int32_t i = cell + k < 0 ? 0 : cell + k < last ? cell + k : last;
      weights[i - first] += static_cast<C>(value(beyond - k));
    }
    return taps;
  }
  /// What lies beyond the edge does not count.
  template <class C>
  FERRITE_HOST_DEVICE Taps wide_taps(std::int32_t o, C* weights) const {
    const double center = (o + 0.5) * axis.scale, reach = radius(), inverse = 1 / stretch();
    const auto clamped = [](double at, std::int32_t low, std::int32_t high) {
      return at < low ? low : at < high ? static_cast<std::int32_t>(at) : high;
    };
    const std::int32_t first = clamped(center - reach + 0.5, 0, axis.input - 1);
    const std::int32_t end = clamped(center + reach + 0.5, first + 1, axis.input);
    double total = 0;
    for (std::int32_t i = first; i < end; ++i) total += value((i - center + 0.5) * inverse);
    for (std::int32_t i = first; i < end; ++i)
      weights[i - first] = static_cast<C>(value((i - center + 0.5) * inverse) / total);
    return {first, end - first};
  }
};

/// Calls f.operator()<In, Out>() for a dtype and itself, or a 16-bit type and float32.
template <class F>
void dispatch_line(DType in, DType out, F&& f) {
  dispatch_floating(in, "interpolate", [&]<class In>() {
    if (in == out)
      f.template operator()<In, In>();
    else if constexpr (std::is_same_v<In, float>)
      dispatch_types<Half, BFloat16>(out, "interpolate",
                                     [&]<class Out>() { f.template operator()<In, Out>(); });
    else
      f.template operator()<In, Compute<In>>();
  });
}

/// Resizes `in` to `out`, of one floating dtype. Values are computed in the Compute type and
/// rounded once; positions in float64.
FERRITE_KERNEL_OF("interpolate", resize2d, const Resize2d& resize, const View& out, const View& in);
/// Writes every element of grad_in: the sum of the gradients of the results that the cell
/// contributes to, in order.
FERRITE_KERNEL_OF("interpolate", resize2d_backward, const Resize2d& resize, const View& grad_in,
                  const View& grad_out);
/// Resizes `in` to `out`, or its gradient if the line is transposed. The dtypes are the same, or a
/// 16-bit type and float32. Cells of weight 0 are not counted, whatever their value.
FERRITE_KERNEL_OF("interpolate", resize_line, const ResizeLine& line, const View& out,
                  const View& in);

}  // namespace ferrite::kernels
