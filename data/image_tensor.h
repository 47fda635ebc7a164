// Helpers shared by the image transforms.
#pragma once

#include <string_view>
#include <utility>

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"

namespace ferrite::data {

/// `image` made dense. ShapeError unless it is [C, H, W], DTypeError unless uint8 or float32,
/// DeviceError unless on the host.
Tensor dense_image(const Tensor& image, std::string_view op);

/// ValueError unless 0 <= p <= 1.
void check_probability(double p, std::string_view op);

/// Calls f.operator()<T>() for the element type of a dense_image().
template <class F>
void dispatch_image(const Tensor& image, std::string_view op, F&& f) {
  dispatch_types<std::uint8_t, float>(image.dtype(), op, std::forward<F>(f));
}

/// A random number in [low, high).
inline double uniform(Generator& random, double low, double high) {
  return low + (high - low) * random.next_double();
}

/// A random integer in 0..last.
inline std::int64_t up_to(Generator& random, std::int64_t last) {
  return static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(last) + 1));
}

}  // namespace ferrite::data
