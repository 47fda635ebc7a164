// Element types, and the dispatch from a run-time DType to a compile-time type.
#pragma once

#include <atomic>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/core/half.h"

namespace ferrite {

/// The type of a tensor's elements.
enum class DType : std::uint8_t {
  float32,
  float16,
  bfloat16,
  float64,
  int64,
  int32,
  uint8,
  boolean,
  int16,
  int8,
  complex64,  // a pair of float32: real, imaginary
  complex128  // of float64
};

inline constexpr DType kFloat32 = DType::float32;  ///< 32-bit floating point, the default
inline constexpr DType kFloat16 = DType::float16;  ///< 16-bit floating point, IEEE's binary16
/// 16-bit floating point with the exponent of float32.
inline constexpr DType kBFloat16 = DType::bfloat16;
inline constexpr DType kFloat64 = DType::float64;  ///< 64-bit floating point
/// Signed integers of 64 bits, as labels and indices have.
inline constexpr DType kInt64 = DType::int64;
inline constexpr DType kInt32 = DType::int32;   ///< signed integers of 32 bits
inline constexpr DType kInt16 = DType::int16;   ///< signed integers of 16 bits
inline constexpr DType kInt8 = DType::int8;     ///< signed integers of 8 bits
inline constexpr DType kUInt8 = DType::uint8;   ///< unsigned integers of 8 bits, as images have
inline constexpr DType kBool = DType::boolean;  ///< true and false, of a byte each
inline constexpr DType kComplex64 = DType::complex64;    ///< complex numbers of two float32
inline constexpr DType kComplex128 = DType::complex128;  ///< complex numbers of two float64
// PyTorch's other names for them.
inline constexpr DType kFloat = kFloat32;   ///< 32-bit floating point, the default
inline constexpr DType kHalf = kFloat16;    ///< 16-bit floating point, IEEE's binary16
inline constexpr DType kDouble = kFloat64;  ///< 64-bit floating point
inline constexpr DType kLong = kInt64;   ///< signed integers of 64 bits, as labels and indices have
inline constexpr DType kInt = kInt32;    ///< signed integers of 32 bits
inline constexpr DType kShort = kInt16;  ///< signed integers of 16 bits
inline constexpr DType kChar = kInt8;    ///< signed integers of 8 bits
inline constexpr DType kByte = kUInt8;   ///< unsigned integers of 8 bits, as images have
inline constexpr DType kComplexFloat = kComplex64;    ///< complex numbers of two float32
inline constexpr DType kComplexDouble = kComplex128;  ///< complex numbers of two float64

namespace detail {
inline constinit std::atomic<DType> default_dtype{DType::float32};
}  // namespace detail

/// The type of tensors whose options name none, of floating-point literals, and of what integers
/// become in true division and exp. It is float32 at the start, and one for all threads.
inline DType get_default_dtype() { return detail::default_dtype.load(std::memory_order_relaxed); }
/// Throws DTypeError unless `dtype` is a floating-point type.
void set_default_dtype(DType dtype);

/// Bytes of one element.
constexpr std::size_t itemsize(DType dtype) {
  constexpr std::size_t sizes[] = {4, 2, 2, 8, 8, 4, 1, 1, 2, 1, 8, 16};
  return sizes[static_cast<std::size_t>(dtype)];
}

/// float32, float16, bfloat16 or float64.
constexpr bool is_floating(DType dtype) { return dtype <= DType::float64; }
/// Whether the dtype holds integers.
constexpr bool is_integral(DType dtype) {
  return dtype > DType::float64 && dtype < DType::complex64 && dtype != DType::boolean;
}
constexpr bool is_complex(DType dtype) { return dtype >= DType::complex64; }
/// Floating-point and complex types can require a gradient.
constexpr bool is_differentiable(DType dtype) { return is_floating(dtype) || is_complex(dtype); }
/// The type of the two parts of a complex number; other types unchanged.
constexpr DType real_type(DType dtype) {
  return dtype == DType::complex64    ? DType::float32
         : dtype == DType::complex128 ? DType::float64
                                      : dtype;
}
/// The complex type whose parts hold `dtype`: complex128 for float64, else complex64.
constexpr DType complex_type(DType dtype) {
  return dtype == DType::float64 || dtype == DType::complex128 ? DType::complex128
                                                               : DType::complex64;
}

/// "float32", ..., "complex128".
std::string_view name(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);
/// The inverse of name(); throws DTypeError naming the accepted names.
DType parse_dtype(std::string_view text);

/// PyTorch's torch.promote_types: the smallest type that holds both, never demoting a float.
DType promote(DType a, DType b);

namespace detail {
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::float16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::int16;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::int8;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
template <>
struct DTypeOf<std::complex<float>> {
  static constexpr DType value = DType::complex64;
};
template <>
struct DTypeOf<std::complex<double>> {
  static constexpr DType value = DType::complex128;
};
/// Throws the DTypeError of an op that does not work on `dtype`; for complex types it says what to
/// do.
[[noreturn, gnu::cold]] void fail_type(std::string_view op, DType dtype);
}  // namespace detail

/// The DType of a C++ element type: dtype_of<float> == kFloat32.
template <class T>
inline constexpr DType dtype_of = detail::DTypeOf<std::remove_cv_t<T>>::value;

/// Whether the dtype is float16 or bfloat16.
template <class T>
inline constexpr bool is_half_type = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
/// Whether the dtype holds floating-point numbers.
template <class T>
inline constexpr bool is_floating_type = std::is_floating_point_v<T> || is_half_type<T>;
/// Whether the dtype holds complex numbers.
template <class T>
inline constexpr bool is_complex_type =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

/// The type arithmetic on T is done in: float for the 16-bit types, T itself for the others.
template <class T>
using Compute = std::conditional_t<is_half_type<T>, float, T>;

/// Calls f.operator()<T>() for the type of `dtype`; throws DTypeError tagged with `op` for types
/// that are not in `Ts`.
template <class... Ts, class F>
decltype(auto) dispatch_types(DType dtype, std::string_view op, F&& f) {
  using First = std::tuple_element_t<0, std::tuple<Ts...>>;
  using R = decltype(f.template operator()<First>());
  if constexpr (std::is_void_v<R>) {
    const bool known =
        ((dtype == dtype_of<Ts> ? (f.template operator()<Ts>(), true) : false) || ...);
    if (!known) detail::fail_type(op, dtype);
  } else {
    R result{};
    const bool known =
        ((dtype == dtype_of<Ts> ? (result = f.template operator()<Ts>(), true) : false) || ...);
    if (!known) detail::fail_type(op, dtype);
    return result;
  }
}

/// float32, float64, float16, bfloat16.
template <class F>
decltype(auto) dispatch_floating(DType dtype, std::string_view op, F&& f) {
  return dispatch_types<float, double, Half, BFloat16>(dtype, op, std::forward<F>(f));
}
/// int64, int32, int16, int8, uint8.
template <class F>
decltype(auto) dispatch_integral(DType dtype, std::string_view op, F&& f) {
  return dispatch_types<std::int64_t, std::int32_t, std::int16_t, std::int8_t, std::uint8_t>(
      dtype, op, std::forward<F>(f));
}
/// Everything but bool and complex types.
template <class F>
decltype(auto) dispatch_numeric(DType dtype, std::string_view op, F&& f) {
  return dispatch_types<float, double, Half, BFloat16, std::int64_t, std::int32_t, std::int16_t,
                        std::int8_t, std::uint8_t>(dtype, op, std::forward<F>(f));
}
/// Everything but complex types, which few kernels know (kernels/complex.h).
template <class F>
decltype(auto) dispatch_all(DType dtype, std::string_view op, F&& f) {
  return dispatch_types<float, double, Half, BFloat16, std::int64_t, std::int32_t, std::int16_t,
                        std::int8_t, std::uint8_t, bool>(dtype, op, std::forward<F>(f));
}

}  // namespace ferrite

template <>
struct fmt::formatter<ferrite::DType> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  fmt::format_context::iterator format(ferrite::DType value, fmt::format_context& context) const;
};
