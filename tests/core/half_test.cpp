#include "ferrite/core/half.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

using namespace ferrite;

namespace {

// Straight from the definition of the formats, without bit tricks.
double value_of(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto fraction = static_cast<double>(bits & ((1u << fraction_bits) - 1));
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(1 + std::ldexp(fraction, -fraction_bits), exponent - bias);
}
double half_value(std::uint32_t bits) { return value_of(bits, 5, 10); }
double bfloat16_value(std::uint32_t bits) { return value_of(bits, 8, 7); }

/// Checks that `convert` rounds every float near a representable magnitude, near a midpoint of two
/// and at random to the nearest, ties to the even pattern. `last`: the largest finite magnitude.
template <class Value, class Convert>
int rounding_mistakes(Value value, std::uint32_t last, Convert convert) {
  int mistakes = 0;
  const auto check = [&](float x, std::uint32_t low) {  // value(low) <= x <= value(low + 1)
    const double a = value(low);
    // Infinity's place in the order: where the next number would be.
    const double b = low == last ? 2 * a - value(low - 1) : value(low + 1);
    const double d = static_cast<double>(x) - a, e = b - static_cast<double>(x);
    const std::uint32_t expected = d < e ? low : d > e ? low + 1 : low + (low & 1);
    if (convert(x) != expected) ++mistakes;
    if (convert(-x) != (expected | 0x8000u)) ++mistakes;
  };
  std::mt19937 random(1);
  for (std::uint32_t low = 0; low <= last; ++low) {
    const double a = value(low), b = low == last ? 2 * a - value(low - 1) : value(low + 1);
    const float middle = static_cast<float>((a + b) / 2);
    const float first = static_cast<float>(a);
    check(first, low);
    check(std::nextafter(first, INFINITY), low);
    check(std::nextafter(middle, 0.0f), low);
    check(middle, low);
    check(std::nextafter(middle, INFINITY), low);
    if (low != last) check(std::nextafter(static_cast<float>(b), 0.0f), low);
    const double part = std::uniform_real_distribution<double>(0, 1)(random);
    const float between = static_cast<float>(a + part * (b - a));
    if (static_cast<double>(between) >= a && static_cast<double>(between) <= b) check(between, low);
  }
  return mistakes;
}

bool same(float got, double expected) {
  if (std::isnan(expected)) return std::isnan(got);
  return static_cast<double>(got) == expected && std::signbit(got) == std::signbit(expected);
}

constexpr std::uint32_t kLastHalf = 0x7bff, kLastBFloat16 = 0x7f7f;

}  // namespace

TEST_CASE("every half pattern has its IEEE value") {
  int wrong = 0, wrong_portable = 0, differ = 0, round_trip = 0;
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float x = detail::half_bits_to_float(bits);
    const float y = detail::half_bits_to_float_portable(bits);
    wrong += !same(x, half_value(i));
    wrong_portable += !same(y, half_value(i));
    differ += std::bit_cast<std::uint32_t>(x) != std::bit_cast<std::uint32_t>(y);
    // Back again: the same pattern, except that signalling NaNs come back quiet.
    const auto expected = static_cast<std::uint16_t>(std::isnan(x) ? i | 0x200u : i);
    round_trip += detail::float_to_half_bits(x) != expected;
    round_trip += detail::float_to_half_bits_portable(x) != expected;
  }
  CHECK(wrong == 0);
  CHECK(wrong_portable == 0);
  CHECK(differ == 0);
  CHECK(round_trip == 0);
}

TEST_CASE("every bfloat16 pattern has its value and survives the round trip") {
  int wrong = 0, round_trip = 0;
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    BFloat16 b;
    b.bits = static_cast<std::uint16_t>(i);
    const float x = b;
    wrong += !same(x, bfloat16_value(i));
    const auto expected = static_cast<std::uint16_t>(std::isnan(x) ? i | 0x40u : i);
    round_trip += BFloat16(x).bits != expected;
  }
  CHECK(wrong == 0);
  CHECK(round_trip == 0);
}

TEST_CASE("conversion to half rounds to nearest even") {
  CHECK(rounding_mistakes(half_value, kLastHalf, [](float x) {
          return std::uint32_t{detail::float_to_half_bits(x)};
        }) == 0);
  CHECK(rounding_mistakes(half_value, kLastHalf, [](float x) {
          return std::uint32_t{detail::float_to_half_bits_portable(x)};
        }) == 0);
}

TEST_CASE("conversion to bfloat16 rounds to nearest even") {
  CHECK(rounding_mistakes(bfloat16_value, kLastBFloat16,
                          [](float x) { return std::uint32_t{BFloat16(x).bits}; }) == 0);
}

TEST_CASE("both half conversions agree on random bit patterns") {
  std::mt19937 random(2);
  int differ = 0;
  for (int i = 0; i < 2'000'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    differ += detail::float_to_half_bits(x) != detail::float_to_half_bits_portable(x);
  }
  CHECK(differ == 0);
}

TEST_CASE("known conversions") {
  CHECK(Half(1.0f).bits == 0x3c00);
  CHECK(Half(-2.0f).bits == 0xc000);
  CHECK(Half(65504.0f).bits == 0x7bff);
  CHECK(Half(65519.996f).bits == 0x7bff);
  CHECK(Half(65520.0f).bits == 0x7c00);  // the tie goes to even, which is infinity
  CHECK(Half(1e30f).bits == 0x7c00);
  CHECK(Half(-INFINITY).bits == 0xfc00);
  CHECK(Half(0x1p-24f).bits == 1);
  CHECK(Half(0x1p-25f).bits == 0);  // a tie
  CHECK(Half(0x1.000002p-25f).bits == 1);
  CHECK(Half(-0.0f).bits == 0x8000);
  CHECK(std::isnan(static_cast<float>(Half(NAN))));
  CHECK(BFloat16(1.0f).bits == 0x3f80);
  CHECK(BFloat16(3.4e38f).bits == 0x7f80);    // overflows
  CHECK(BFloat16(0x1.01p0f).bits == 0x3f80);  // a tie, to even
  CHECK(BFloat16(0x1.03p0f).bits == 0x3f82);
  // The carry of a NaN's low bits must not turn it into infinity or zero.
  CHECK(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7f800001u)))));
  CHECK(std::isnan(static_cast<float>(BFloat16(std::bit_cast<float>(0x7fffffffu)))));
  CHECK(std::isnan(static_cast<float>(Half(std::bit_cast<float>(0x7f800001u)))));
}
