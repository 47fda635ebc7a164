// Values as Python writes them, for extra_repr().
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "ferrite/core/shape.h"
#include "ferrite/ops/pair.h"

namespace ferrite::nn {

inline const char* repr(bool value) { return value ? "True" : "False"; }

/// 1.0, 0.1, 1e-05.
inline std::string repr(double value) {
  std::string text = fmt::format("{}", value);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

/// (3, 1)
inline std::string repr(Pair pair) { return fmt::format("({}, {})", pair.h, pair.w); }

/// (3,), (3, 4)
inline std::string repr(const Shape& shape) {
  std::string out = "(";
  for (int i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + fmt::format("{}", shape[i]);
  return out + (shape.size() == 1 ? ",)" : ")");
}

/// (3,), (3, 1), (3, 1, 1)
template <class Sizes>
std::string repr_sizes(const Sizes& sizes) {
  Shape shape;
  for (const std::int64_t size : ops::sizes_of(sizes)) shape.push_back(size);
  return repr(shape);
}

/// 3 if all sizes are 3, else as repr_sizes().
template <class Sizes>
std::string repr_short(const Sizes& sizes) {
  const std::int64_t first = ops::sizes_of(sizes)[0];
  return sizes == Sizes(first) ? fmt::format("{}", first) : repr_sizes(sizes);
}

}  // namespace ferrite::nn
