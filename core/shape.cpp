#include "ferrite/core/shape.h"

#include <fmt/format.h>

#include <algorithm>

namespace ferrite {

void Shape::fail_too_many() {
  fail<ShapeError>("shape", "a tensor has at most {} dimensions", kMaxDims);
}

void Shape::insert(int position, std::int64_t d) {
  push_back(d);
  std::rotate(begin() + position, end() - 1, end());
}

void Shape::erase(int position) {
  std::copy(begin() + position + 1, end(), begin() + position);
  --ndim_;
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  bool overflow = false;
  for (std::int64_t d : *this) {
    if (d == 0) return 0;
    overflow |= __builtin_mul_overflow(n, d, &n);
  }
  FERRITE_CHECK(!overflow, ShapeError, "shape", "{} has more elements than 64 bits can count",
                str());
  return n;
}

std::string Shape::str() const { return fmt::format("[{}]", fmt::join(begin(), end(), ", ")); }

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Shape::filled(shape.size(), 1);
  bool overflow = false;
  for (int i = shape.size() - 2; i >= 0; --i)
    overflow |= __builtin_mul_overflow(strides[i + 1], std::max<std::int64_t>(shape[i + 1], 1),
                                       &strides[i]);
  FERRITE_CHECK(!overflow, ShapeError, "shape", "{} has strides that 64 bits cannot hold",
                shape.str());
  return strides;
}

int normalize_dim(std::int64_t dim, int ndim, std::string_view op) {
  const int range = std::max(ndim, 1);
  FERRITE_CHECK(dim >= -range && dim < range, IndexError, op,
                "dimension {} is out of range: expected {} to {}", dim, -range, range - 1);
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op) {
  if (a == b) return a;
  const int ndim = std::max(a.size(), b.size());
  Shape out = Shape::filled(ndim, 1);
  for (int i = 0; i < ndim; ++i) {
    const int ia = i - (ndim - a.size()), ib = i - (ndim - b.size());
    const std::int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    FERRITE_CHECK(da == db || da == 1 || db == 1, ShapeError, op,
                  "shapes {} and {} do not broadcast: sizes {} and {} at dimension {} are neither "
                  "equal nor 1",
                  a.str(), b.str(), da, db, i);
    out[i] = da == 1 ? db : da;
  }
  return out;
}

}  // namespace ferrite

fmt::format_context::iterator fmt::formatter<ferrite::Shape>::format(
    const ferrite::Shape& value, fmt::format_context& context) const {
  return fmt::format_to(context.out(), "{}", value.str());
}
