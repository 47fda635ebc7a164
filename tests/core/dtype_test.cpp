#include "ferrite/core/dtype.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "ferrite/core/scalar.h"
#include "ferrite/tests/core/test_util.h"

using namespace ferrite;
using ferrite::test::message_of;

namespace {

constexpr std::array kAll = {kFloat32, kFloat16, kBFloat16, kFloat64, kInt64,
                             kInt32,   kUInt8,   kBool,     kInt16,   kInt8};

template <class T>
concept MakesScalar = std::constructible_from<Scalar, T>;

}  // namespace

TEST_CASE("names, sizes and categories of types") {
  const std::array names = {"float32", "float16", "bfloat16", "float64", "int64",
                            "int32",   "uint8",   "bool",     "int16",   "int8"};
  const std::array<std::size_t, 10> sizes = {4, 2, 2, 8, 8, 4, 1, 1, 2, 1};
  for (std::size_t i = 0; i < kAll.size(); ++i) {
    CHECK(name(kAll[i]) == names[i]);
    CHECK(fmt::format("{}", kAll[i]) == names[i]);
    CHECK(parse_dtype(names[i]) == kAll[i]);
    CHECK(itemsize(kAll[i]) == sizes[i]);
    CHECK(is_floating(kAll[i]) == (i < 4));
    CHECK(is_integral(kAll[i]) == (i >= 4 && i != 7));
  }
  CHECK(message_of<DTypeError>([] { parse_dtype("float8"); }) ==
        "[parse_dtype] unknown type 'float8'; expected float32, float16, bfloat16, float64, int64, "
        "int32, int16, int8, uint8, bool, complex64 or complex128");
  CHECK_THROWS_AS(parse_dtype(""), DTypeError);
  CHECK_THROWS_AS(parse_dtype("float"), DTypeError);
}

TEST_CASE("promotion is torch.promote_types") {
  // Recorded from PyTorch 2.15; rows and columns in the order of kAll.
  constexpr auto F = kFloat32, H = kFloat16, B = kBFloat16, D = kFloat64;
  constexpr auto L = kInt64, I = kInt32, S = kInt16, C = kInt8, U = kUInt8, O = kBool;
  constexpr DType expected[10][10] = {
      {F, F, F, D, F, F, F, F, F, F}, {F, H, F, D, H, H, H, H, H, H},
      {F, F, B, D, B, B, B, B, B, B}, {D, D, D, D, D, D, D, D, D, D},
      {F, H, B, D, L, L, L, L, L, L}, {F, H, B, D, L, I, I, I, I, I},
      {F, H, B, D, L, I, U, U, S, S}, {F, H, B, D, L, I, U, O, S, C},
      {F, H, B, D, L, I, S, S, S, S}, {F, H, B, D, L, I, S, C, S, C}};
  for (std::size_t a = 0; a < 10; ++a)
    for (std::size_t b = 0; b < 10; ++b) {
      CAPTURE(a);
      CAPTURE(b);
      CHECK(promote(kAll[a], kAll[b]) == expected[a][b]);
    }
}

TEST_CASE("complex types hold two floats and promote all others") {
  CHECK(name(kComplexFloat) == "complex64");
  CHECK(parse_dtype("complex128") == kComplexDouble);
  CHECK(itemsize(kComplex64) == 8);
  CHECK(itemsize(kComplex128) == 16);
  CHECK(dtype_of<std::complex<float>> == kComplex64);
  CHECK(real_type(kComplex128) == kFloat64);
  for (const DType dtype : kAll) {
    CAPTURE(dtype);
    CHECK(!is_complex(dtype));
    CHECK(real_type(dtype) == dtype);
    CHECK(complex_type(dtype) == (dtype == kFloat64 ? kComplex128 : kComplex64));
    CHECK(promote(dtype, kComplex64) == (dtype == kFloat64 ? kComplex128 : kComplex64));
    CHECK(promote(kComplex128, dtype) == kComplex128);
  }
  for (const DType dtype : {kComplex64, kComplex128}) {
    CHECK(!is_floating(dtype));
    CHECK(!is_integral(dtype));
    CHECK(is_differentiable(dtype));
    CHECK(promote(dtype, kComplex128) == kComplex128);
    CHECK(message_of<DTypeError>([&] { dispatch_all(dtype, "sort", []<class T>() {}); }) ==
          "[sort] does not work on " + std::string(name(dtype)) +
              ", only on real numbers; take real(x), imag(x), abs(x) or view_as_real(x)");
  }
  const Scalar z = std::complex<double>(2, 0);
  CHECK(z.is_complex());
  CHECK(z.to<std::int64_t>() == 2);
  CHECK(Scalar(std::complex<float>(1, -2)).toComplexDouble() == std::complex<double>(1, -2));
  CHECK(Scalar(3).toComplexFloat() == std::complex<float>(3));
  CHECK_THROWS_AS(Scalar(std::complex<double>(1, 2)).toDouble(), DTypeError);
}

TEST_CASE("dispatch calls with the type of the DType") {
  for (DType dtype : kAll) {
    DType seen = kFloat32;
    dispatch_all(dtype, "op", [&]<class T>() { seen = dtype_of<T>; });
    CHECK(seen == dtype);
    CHECK(dispatch_all(dtype, "op", []<class T>() { return sizeof(T); }) == itemsize(dtype));
  }
  CHECK(dispatch_floating(kBFloat16, "op", []<class T>() { return dtype_of<T>; }) == kBFloat16);
  CHECK(dispatch_numeric(kUInt8, "op", []<class T>() { return dtype_of<T>; }) == kUInt8);
  CHECK(message_of<DTypeError>([] { dispatch_floating(kInt32, "softmax", []<class T>() {}); }) ==
        "[softmax] does not work on int32");
  CHECK(message_of<DTypeError>([] {
          dispatch_numeric(kBool, "neg", []<class T>() { return 1; });
        }) == "[neg] does not work on bool");
  CHECK(std::is_same_v<Compute<Half>, float>);
  CHECK(std::is_same_v<Compute<BFloat16>, float>);
  CHECK(std::is_same_v<Compute<double>, double>);
  CHECK(std::is_same_v<Compute<std::uint8_t>, std::uint8_t>);
  CHECK(dtype_of<const float> == kFloat32);
}

TEST_CASE("scalars keep their kind") {
  CHECK(Scalar(true).kind() == Scalar::Kind::boolean);
  CHECK(Scalar(3).kind() == Scalar::Kind::integer);
  CHECK(Scalar('a').kind() == Scalar::Kind::integer);
  CHECK(Scalar(std::uint8_t{3}).kind() == Scalar::Kind::integer);
  CHECK(Scalar(3.0f).kind() == Scalar::Kind::floating);
  CHECK(Scalar(3.0).is_floating());
  CHECK(Scalar(Half(1.5f)).is_floating());
  CHECK(Scalar(Half(1.5f)).to<double>() == 1.5);
  CHECK(Scalar(BFloat16(0.5f)).to<float>() == 0.5f);
  CHECK(Scalar(2.75).to<std::int64_t>() == 2);
  CHECK(Scalar(-3).to<float>() == -3.0f);
  CHECK(Scalar(std::int64_t{1} << 62).to<std::int64_t>() == std::int64_t{1} << 62);
  CHECK(Scalar(0.5).to<bool>());
  CHECK_FALSE(Scalar(0.0).to<bool>());
  CHECK(Scalar(true).to<double>() == 1.0);
  CHECK(static_cast<float>(Scalar(0.25).to<Half>()) == 0.25f);
  CHECK(static_cast<float>(Scalar(7).to<BFloat16>()) == 7.0f);
  CHECK_FALSE(MakesScalar<const char*>);
  CHECK_FALSE(MakesScalar<void*>);
  CHECK_FALSE(MakesScalar<std::nullptr_t>);
}

TEST_CASE("a scalar outside the range of a type is an error, as in PyTorch") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  CHECK(Scalar(255).fits<std::uint8_t>());
  CHECK(Scalar(-255).fits<std::uint8_t>());
  CHECK(Scalar(-1).to<std::uint8_t>() == 255);
  CHECK_FALSE(Scalar(256).fits<std::uint8_t>());
  CHECK_FALSE(Scalar(-256).fits<std::uint8_t>());
  CHECK(Scalar(1.75).to<std::uint8_t>() == 1);
  CHECK_FALSE(Scalar(-0.5).fits<std::uint8_t>());
  CHECK(Scalar(-128).fits<std::int8_t>());
  CHECK_FALSE(Scalar(-129).fits<std::int8_t>());
  CHECK_FALSE(Scalar(std::int64_t{1} << 31).fits<int>());
  CHECK(Scalar(-0x1p63).fits<std::int64_t>());
  CHECK_FALSE(Scalar(0x1p63).fits<std::int64_t>());
  CHECK_FALSE(Scalar(inf).fits<std::int64_t>());
  CHECK_FALSE(Scalar(nan).fits<int>());
  CHECK(Scalar(inf).fits<Half>());
  CHECK(Scalar(nan).fits<float>());
  CHECK(Scalar(65504).fits<Half>());
  CHECK_FALSE(Scalar(65505).fits<Half>());
  CHECK(Scalar(3.3e38).fits<BFloat16>());
  CHECK_FALSE(Scalar(-3.4e38).fits<BFloat16>());
  CHECK(Scalar(3.4e38).fits<float>());
  CHECK_FALSE(Scalar(-1e39).fits<float>());
  CHECK(Scalar(1e300).fits<double>());
  CHECK(Scalar(nan).fits<bool>());
  CHECK_FALSE(Scalar(std::complex<double>(0, 1e39)).fits<std::complex<float>>());
  CHECK(message_of<ValueError>([] { Scalar(300).to<std::uint8_t>(); }) ==
        "[item] 300 is outside the range of an integer of 8 bits; ask for a wider type");
  CHECK(message_of<ValueError>([] { Scalar(1e39).toFloat(); }) ==
        "[item] 1e+39 is outside the range of a floating-point number of 32 bits; ask for a wider "
        "type");
  CHECK(message_of<ValueError>([] { Scalar(std::int64_t{1} << 40).toInt(); }) ==
        "[item] 1099511627776 is outside the range of an integer of 32 bits; ask for a wider type");
  CHECK(Scalar(300).cast<std::uint8_t>() == 44);
  CHECK(Scalar(1e39).cast<float>() == std::numeric_limits<float>::infinity());
  CHECK(Scalar(nan).cast<std::int64_t>() == std::numeric_limits<std::int64_t>::min());
  CHECK(Scalar(std::complex<double>(1, -2)).to_string() == "1-2j");
}
