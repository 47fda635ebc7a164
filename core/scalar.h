// A number of a Python-like kind (bool, int, float or complex) as an operand beside tensors.
#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "ferrite/core/dtype.h"

namespace ferrite {

/// Converts implicitly from any arithmetic type and from std::complex; promotes by category only,
/// as PyTorch's scalars: int tensor + 1.5 is float32, float16 tensor + 1.5 stays float16.
class Scalar {
 public:
  /// The kinds of numbers.
  enum class Kind : std::uint8_t { boolean, integer, floating, complex };

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

  template <std::floating_point T>
  Scalar(const std::complex<T>& v)
      : kind_(Kind::complex),
        f_(static_cast<double>(v.real())),
        imag_(static_cast<double>(v.imag())) {}

  /// Whether it is an integer, a floating or complex number, or bool.
  Kind kind() const { return kind_; }
  /// Whether it is a floating-point number.
  bool is_floating() const { return kind_ == Kind::floating; }
  bool is_complex() const { return kind_ == Kind::complex; }

  /// The number as T, without its fraction if T is an integer type; ValueError unless fits<T>().
  /// DTypeError for a complex number with an imaginary part other than 0, unless T is complex.
  template <class T>
  T to() const {
    if (!fits<T>()) [[unlikely]]
      fail_range(sizeof(T) / (is_complex_type<T> ? 2 : 1), !std::integral<T>);
    return cast<T>();
  }
  /// As to(), but a number outside T's range wraps around or becomes infinite, as the results of
  /// arithmetic with tensors do.
  template <class T>
  T cast() const {
    if constexpr (is_complex_type<T>) {
      using Part = typename T::value_type;
      return kind_ < Kind::floating ? T(static_cast<Part>(i_))
                                    : T(static_cast<Part>(f_), static_cast<Part>(imag_));
    } else {
      if (kind_ == Kind::complex) [[unlikely]]
        check_real();
      return cast_real<T>();
    }
  }
  /// Whether T's range holds the number, by PyTorch's rules: infinities and NaN fit every
  /// floating-point type and no integer type; -255 to 255 fit std::uint8_t, where negative integers
  /// wrap around; everything fits bool.
  template <class T>
  bool fits() const {
    if constexpr (std::same_as<T, bool>) {
      return true;
    } else if constexpr (is_complex_type<T>) {
      using Part = typename T::value_type;
      return kind_ < Kind::floating || (fits_floating<Part>(f_) && fits_floating<Part>(imag_));
    } else if constexpr (std::integral<T>) {
      return kind_ < Kind::floating ? fits_integer<T>(i_) : truncated_fits<T>(f_);
    } else {
      return fits_floating<T>(kind_ < Kind::floating ? static_cast<double>(i_) : f_);
    }
  }
  /// The number in digits that read back the same: "3", "0.1", "1+2j"; a bool is "0" or "1".
  std::string to_string() const;
  /// For `float loss = x.item()` and `total += x.item()`. Integers beyond 2^53, which double
  /// rounds, are read by to<std::int64_t>().
  operator double() const { return to<double>(); }
  /// Its value as float.
  float toFloat() const { return to<float>(); }
  /// Its value as double.
  double toDouble() const { return to<double>(); }
  /// Its value as int.
  int toInt() const { return to<int>(); }
  /// Its value as std::int64_t.
  std::int64_t toLong() const { return to<std::int64_t>(); }
  /// Its value as bool.
  bool toBool() const { return to<bool>(); }
  /// Its value as std::complex<float>.
  std::complex<float> toComplexFloat() const { return to<std::complex<float>>(); }
  /// Its value as std::complex<double>.
  std::complex<double> toComplexDouble() const { return to<std::complex<double>>(); }

 private:
  template <class T>
  static bool fits_integer(std::int64_t v) {
    using Limits = std::numeric_limits<T>;
    if constexpr (sizeof(T) == sizeof v)
      return true;
    else
      return v <= std::int64_t{Limits::max()} &&
             v >= (Limits::is_signed ? std::int64_t{Limits::min()} : -std::int64_t{Limits::max()});
  }
  template <class T>
  static bool truncated_fits(double v) {
    using Limits = std::numeric_limits<T>;
    return v >= static_cast<double>(Limits::min()) && v <= static_cast<double>(Limits::max()) &&
           v < 0x1p63;
  }
  template <class T>
  static bool fits_floating(double v) {
    if constexpr (std::same_as<T, double>) return true;
    double largest = std::numeric_limits<float>::max();
    if constexpr (std::same_as<T, Half>) largest = 65504;
    if constexpr (std::same_as<T, BFloat16>) largest = 0x1.fep127;
    const double magnitude = v < 0 ? -v : v;
    return !(magnitude > largest) || magnitude == std::numeric_limits<double>::infinity();
  }
  template <class T>
  T cast_real() const {
    const bool floating = kind_ >= Kind::floating;
    if constexpr (is_half_type<T>)
      return T(floating ? static_cast<float>(f_) : static_cast<float>(i_));
    // Through int64, because converting a negative double to an unsigned type is undefined in C++.
    else if constexpr (std::integral<T> && !std::same_as<T, bool>)
      return static_cast<T>(floating ? truncated() : i_);
    else
      return floating ? static_cast<T>(f_) : static_cast<T>(i_);
  }
  /// f_ as truncate_to_int64() makes it an integer.
  std::int64_t truncated() const;
  [[gnu::cold]] void check_real() const;
  [[noreturn, gnu::cold]] void fail_range(std::size_t bytes, bool floating) const;

  Kind kind_;
  union {
    std::int64_t i_;
    double f_;
  };
  double imag_ = 0;
};

}  // namespace ferrite

/// As the double that it converts to: "{:.4f}" works.
template <>
struct fmt::formatter<ferrite::Scalar> : fmt::formatter<double> {
  fmt::format_context::iterator format(ferrite::Scalar value, fmt::format_context& context) const;
};
