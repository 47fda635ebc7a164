// Shape: up to kMaxDims sizes (or strides) held inline, so that a tensor needs no second
// allocation.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "ferrite/core/error.h"

namespace ferrite {

inline constexpr int kMaxDims = 8;  ///< the most dimensions that a tensor has

/// The sizes of a tensor's dimensions, up to kMaxDims of them.
class Shape {
 public:
  constexpr Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  Shape(const std::vector<std::int64_t>& dims) : Shape(std::span(dims)) {}
  explicit Shape(std::span<const std::int64_t> dims) {
    for (std::int64_t d : dims) push_back(d);
  }
  /// `ndim` entries of `value`.
  static Shape filled(int ndim, std::int64_t value) {
    Shape s;
    for (int i = 0; i < ndim; ++i) s.push_back(value);
    return s;
  }

  int size() const { return ndim_; }
  bool empty() const { return ndim_ == 0; }
  std::int64_t operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  std::int64_t& operator[](int i) { return dims_[static_cast<std::size_t>(i)]; }
  /// The last size.
  std::int64_t back() const { return (*this)[ndim_ - 1]; }
  /// As std::vector.
  std::vector<std::int64_t> vec() const { return {begin(), end()}; }
  const std::int64_t* begin() const { return dims_.data(); }
  const std::int64_t* end() const { return dims_.data() + ndim_; }
  std::int64_t* begin() { return dims_.data(); }
  std::int64_t* end() { return dims_.data() + ndim_; }

  void push_back(std::int64_t d) {
    if (ndim_ == kMaxDims) [[unlikely]]
      fail_too_many();
    dims_[static_cast<std::size_t>(ndim_++)] = d;
  }
  /// Adds a dimension at this place.
  void insert(int position, std::int64_t d);
  /// Removes a dimension.
  void erase(int position);

  /// Product of the sizes; 1 for a 0-dimensional shape. Throws ShapeError on overflow.
  std::int64_t numel() const;
  /// "[2, 3]".
  std::string str() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.ndim_ != b.ndim_) return false;
    for (int i = 0; i < a.ndim_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  [[noreturn]] static void fail_too_many();

  // All of them set: clone() of modules looks for pointers in the bytes of their members.
  std::array<std::int64_t, kMaxDims> dims_{};
  int ndim_ = 0;
};

using Strides = Shape;  ///< in elements, one per dimension

std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// A size or dimension where several may be given without braces: x.view(-1, 3).
template <class T>
concept Size = std::integral<T> && !std::same_as<T, bool>;
/// {sizes...}
template <Size... Sizes>
Shape shape_of(Sizes... sizes) {
  return {static_cast<std::int64_t>(sizes)...};
}

/// A list of dimensions as an argument: {0, 2}, or a plain 1 for {1}.
class Dims : public Shape {
 public:
  using Shape::Shape;
  Dims(const Shape& dims) : Shape(dims) {}
  template <Size T>
  Dims(T dim) : Shape{static_cast<std::int64_t>(dim)} {}
};

/// Row-major strides of `shape`; a size of 0 counts as 1. Throws ShapeError on overflow.
Strides contiguous_strides(const Shape& shape);

/// Turns -ndim..ndim-1 into 0..ndim-1 (a 0-dimensional tensor accepts -1 and 0); throws IndexError
/// otherwise.
int normalize_dim(std::int64_t dim, int ndim, std::string_view op);

/// NumPy broadcasting of two shapes; throws ShapeError naming both and the dimension.
Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view op);

}  // namespace ferrite

template <>
struct fmt::formatter<ferrite::Shape> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  fmt::format_context::iterator format(const ferrite::Shape& value,
                                       fmt::format_context& context) const;
};
template <>
struct fmt::formatter<ferrite::Dims> : fmt::formatter<ferrite::Shape> {};
