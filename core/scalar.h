// A number of a Python-like kind (bool, int or float) as an operand beside tensors.
#pragma once

#include <concepts>
#include <cstdint>

#include "ferrite/core/dtype.h"

namespace ferrite {

/// Converts implicitly from any arithmetic type; promotes by category only, as PyTorch's scalars:
/// int tensor + 1.5 is float32, float16 tensor + 1.5 stays float16.
class Scalar {
 public:
  enum class Kind : std::uint8_t { boolean, integer, floating };

  // A template, so that pointers and 16-bit floats do not convert to bool implicitly.
  template <std::same_as<bool> T>
  Scalar(T v) : kind_(Kind::boolean), i_(v) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Scalar(T v)
      : kind_(Kind::integer), i_(static_cast<std::int64_t>(v)) {}
  template <std::floating_point T>
  Scalar(T v) : kind_(Kind::floating), f_(static_cast<double>(v)) {}
  template <class T>
  requires is_half_type<T> Scalar(T v)
      : kind_(Kind::floating), f_(static_cast<double>(static_cast<float>(v))) {}

  Kind kind() const { return kind_; }
  bool is_floating() const { return kind_ == Kind::floating; }

  template <class T>
  T to() const {
    if constexpr (is_half_type<T>)
      return T(kind_ == Kind::floating ? static_cast<float>(f_) : static_cast<float>(i_));
    // Through int64, because converting a negative double to an unsigned type is undefined in C++.
    else if constexpr (std::integral<T> && !std::same_as<T, bool>)
      return static_cast<T>(kind_ == Kind::floating ? static_cast<std::int64_t>(f_) : i_);
    else
      return kind_ == Kind::floating ? static_cast<T>(f_) : static_cast<T>(i_);
  }
  /// For `float loss = x.item()` and `total += x.item()`. Integers beyond 2^53, which double
  /// rounds, are read by to<std::int64_t>().
  operator double() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  double toDouble() const { return to<double>(); }
  int toInt() const { return to<int>(); }
  std::int64_t toLong() const { return to<std::int64_t>(); }
  bool toBool() const { return to<bool>(); }

 private:
  Kind kind_;
  union {
    std::int64_t i_;
    double f_;
  };
};

}  // namespace ferrite

/// As the double that it converts to: "{:.4f}" works.
template <>
struct fmt::formatter<ferrite::Scalar> : fmt::formatter<double> {
  fmt::format_context::iterator format(ferrite::Scalar value, fmt::format_context& context) const;
};
