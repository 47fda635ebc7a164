#include "ferrite/core/dtype.h"

#include <fmt/format.h>

#include <array>

#include "ferrite/core/scalar.h"
#include "ferrite/core/truncate.h"

namespace ferrite {

namespace {

constexpr std::array<std::string_view, 12> kNames = {
    "float32", "float16", "bfloat16", "float64", "int64",     "int32",
    "uint8",   "bool",    "int16",    "int8",    "complex64", "complex128"};

/// The larger rank holds both. Types that share one are promoted to the next: float16 and bfloat16
/// to float32, uint8 and int8 to int16.
int rank(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return 0;
    case DType::uint8:
    case DType::int8:
      return 1;
    case DType::int16:
      return 2;
    case DType::int32:
      return 3;
    case DType::int64:
      return 4;
    case DType::float16:
    case DType::bfloat16:
      return 5;
    case DType::float32:
      return 6;
    case DType::float64:
      return 7;
    case DType::complex64:
    case DType::complex128:
      break;  // promote() has its own rule for them
  }
  return 0;
}

}  // namespace

std::string_view name(DType dtype) {
  const auto i = static_cast<std::size_t>(dtype);
  return i < kNames.size() ? kNames[i] : "an unknown type";  // as of another process
}

DType parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<DType>(i);
  fail<DTypeError>("parse_dtype",
                   "unknown type '{}'; expected float32, float16, bfloat16, float64, int64, int32, "
                   "int16, int8, uint8, bool, complex64 or complex128",
                   text);
}

std::int64_t Scalar::truncated() const { return truncate_to_int64(f_); }

void Scalar::check_real() const {
  FERRITE_CHECK(imag_ == 0, DTypeError, "item",
                "{} is not a real number; ask for std::complex<double>, or take its real part",
                to_string());
}

std::string Scalar::to_string() const {
  if (kind_ == Kind::complex) return fmt::format("{}{:+}j", f_, imag_);
  return kind_ == Kind::floating ? fmt::format("{}", f_) : fmt::format("{}", i_);
}

void Scalar::fail_range(std::size_t bytes, bool floating) const {
  fail<ValueError>("item", "{} is outside the range of {} of {} bits; ask for a wider type",
                   to_string(), floating ? "a floating-point number" : "an integer", 8 * bytes);
}

void set_default_dtype(DType dtype) {
  FERRITE_CHECK(is_floating(dtype), DTypeError, "set_default_dtype",
                "expected a floating-point type, got {}", dtype);
  detail::default_dtype.store(dtype, std::memory_order_relaxed);
}

void detail::fail_type(std::string_view op, DType dtype) {
  FERRITE_CHECK(!is_complex(dtype), DTypeError, op,
                "does not work on {}, only on real numbers; take real(x), imag(x), abs(x) or "
                "view_as_real(x)",
                dtype);
  fail<DTypeError>(op, "does not work on {}", dtype);
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_complex(a) || is_complex(b))
    return complex_type(a) == DType::complex128 ? DType::complex128 : complex_type(b);
  if (rank(a) == rank(b)) return is_floating(a) ? DType::float32 : DType::int16;
  return rank(a) > rank(b) ? a : b;
}

}  // namespace ferrite

fmt::format_context::iterator fmt::formatter<ferrite::DType>::format(
    ferrite::DType value, fmt::format_context& context) const {
  return fmt::format_to(context.out(), "{}", ferrite::name(value));
}
