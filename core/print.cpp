// Output to streams and by fmt.
#include <fmt/format.h>

#include <ostream>

#include "ferrite/core/tensor.h"

namespace ferrite {

// Separate from tensor.cpp, so that a program which prints nothing links core alone.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << tensor.str(); }
std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.str(); }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }
std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }

}  // namespace ferrite

fmt::format_context::iterator fmt::formatter<ferrite::Tensor>::format(
    const ferrite::Tensor& tensor, fmt::format_context& context) const {
  return fmt::format_to(context.out(), "{}", tensor.str());
}

fmt::format_context::iterator fmt::formatter<ferrite::Scalar>::format(
    ferrite::Scalar value, fmt::format_context& context) const {
  return fmt::formatter<double>::format(value, context);
}
