// Mathematics of float32 on vectors of doubles. Functions take and return the numbers as float64,
// which has digits left for what cancels; rounded to float32, results are within 0.6 units in the
// last place over the whole range, infinities and NaN included. Polynomials interpolate at
// Chebyshev's nodes, with relative errors below 5e-9 (a twelfth of a unit).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "ferrite/kernels/cpu/simd_math.h"
#include "ferrite/kernels/special_functions.h"

namespace ferrite::kernels::cpu::float_math {

using V = Vector<double>;
// Of single doubles, to the precision of float64.
using special::erfinv;
using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atan2, std::atanh, std::cosh,
    std::erfc, std::exp2, std::hypot, std::log10, std::log2, std::pow, std::sinh, std::tan;

inline constexpr int kWidth = kLanes<double>;
/// Below it two terms of a series have more digits than float32.
inline constexpr double kSmall = 0x1p-10;

using Bits = Lanes<std::uint64_t, kWidth>;

inline V all(double value) { return simd::all<V>(value); }

/// The polynomial with the coefficients c[0], c[1], ...
template <int n>
V polynomial(const V& x, const double (&c)[n]) {
  V sum = all(c[n - 1]);
  for (int i = n - 2; i >= 0; --i) sum = sum * x + all(c[i]);
  return sum;
}

/// `size`, which is not negative, with the sign of `from`.
inline V with_sign(const V& size, const V& from) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  return bits_as<V>(bits_as<Bits>(size) | (bits_as<Bits>(from) & kSign));
}
inline auto is_negative(const V& x) {
  using Signed = Lanes<std::int64_t, kWidth>;
  return bits_as<Signed>(x) < Signed{};
}

inline V exp2(const V& x) {
  constexpr double kPower[] = {1.0,
                               0.6931471805459335,
                               0.2402265069581299,
                               0.05550410941205933,
                               0.009618129159402558,
                               0.0013333450568000645,
                               0.00015403455852453838,
                               1.5310079402249296e-05,
                               1.3255224878668817e-06};
  constexpr double kEnd = 300, kRounder = 0x1.8p52;  // adding the latter leaves a whole number
  const V inside = x > kEnd ? all(kEnd) : x < -kEnd ? all(-kEnd) : x;
  const V rounded = inside + kRounder, whole = rounded - kRounder;
  const V scale = bits_as<V>((bits_as<Bits>(rounded) + 1023) << 52);
  return polynomial(inside - whole, kPower) * scale;
}
inline V exp(const V& x) { return exp2(x * std::numbers::log2e); }

/// With x = 2^e m, where m is from sqrt(1/2) to sqrt(2): log(m) is 2 artanh((m - 1) / (m + 1)).
inline V log2(const V& x) {
  constexpr double kArtanh[] = {2.8853900817899873, 0.9617966734515485, 0.5770835660048659,
                                0.4116737662377106, 0.3407120415619086};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::uint64_t kBias = 512;
  const Bits bits = bits_as<Bits>(x);
  const Bits biased =
      (bits - std::bit_cast<std::uint64_t>(std::numbers::sqrt2 / 2) + (kBias << 52)) >> 52;
  const V m = bits_as<V>(bits - ((biased - kBias) << 52));
  const V e = bits_as<V>(biased | std::bit_cast<std::uint64_t>(0x1p52)) - (0x1p52 + kBias);
  const V s = (m - 1.0) / (m + 1.0), result = e + s * polynomial(s * s, kArtanh);
  const V outside = x == V{} ? all(-kInfinity) : all(std::numeric_limits<double>::quiet_NaN());
  return x > V{} ? (x < kInfinity ? result : x) : outside;
}
inline V log(const V& x) { return log2(x) * std::numbers::ln2; }
inline V log10(const V& x) { return log2(x) * (std::numbers::ln2 / std::numbers::ln10); }

/// `result`, but where `others` is set f of that lane of the arguments.
template <class Mask, class F, class... In>
V with_others(V result, const Mask& others, F f, const In&... in) {
  if (fold_lanes<1, std::int64_t, kWidth>(others) != 0) [[unlikely]]
    for (int i = 0; i < kWidth; ++i)
      if (others[i]) result[i] = f(in[i]...);
  return result;
}

/// What is not ordinary (x not positive, or one of both infinite or NaN) is the library's.
inline V pow(const V& x, const V& y) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto others = ~((x > V{}) & (x < kInfinity) & (simd::abs(y) < kInfinity));
  return with_others(
      exp2(y * log2(x)), others,
      [](double a, double b) { return std::pow(static_cast<float>(a), static_cast<float>(b)); }, x,
      y);
}

inline V sinh(const V& x) {
  const V e = float_math::exp(x), series = x + x * x * x * (1.0 / 6);
  return simd::abs(x) < kSmall ? series : (e - 1.0 / e) * 0.5;
}
inline V cosh(const V& x) {
  const V e = float_math::exp(x);
  return (e + 1.0 / e) * 0.5;
}
inline V asinh(const V& x) {
  const V a = simd::abs(x), series = a - a * a * a * (1.0 / 6);
  return with_sign(a < kSmall ? series : float_math::log(a + simd::sqrt(a * a + 1.0)), x);
}
inline V acosh(const V& x) {
  return float_math::log(x + simd::sqrt(x - 1.0) * simd::sqrt(x + 1.0));
}
inline V atanh(const V& x) {
  const V series = x + x * x * x * (1.0 / 3);
  return simd::abs(x) < kSmall ? series : float_math::log((1.0 + x) / (1.0 - x)) * 0.5;
}

/// Of y / x, in the quadrant of (x, y): from the arc tangent of 0 to 1.
inline V atan2(const V& y, const V& x) {
  constexpr double kArc[] = {0.9999999995535376,    -0.33333322488911593, 0.19999558100363982,
                             -0.14278576024807985,  0.1105077127584966,   -0.08785043282362845,
                             0.06685281517877424,   -0.04392841073326746, 0.021912945865448393,
                             -0.007030669470424213, 0.001057607438057242};
  const V width = simd::abs(x), height = simd::abs(y);
  const auto steep = height > width;
  const V small = steep ? width : height, large = steep ? height : width;
  // Of two zeros 0, of two infinities 1.
  const V ratio = large == V{} ? small : small == large ? all(1) : small / large;
  V angle = ratio * polynomial(ratio * ratio, kArc);
  angle = steep ? std::numbers::pi / 2 - angle : angle;
  angle = is_negative(x) ? std::numbers::pi - angle : angle;
  return with_sign(angle, y);
}
inline V atan(const V& x) { return atan2(x, all(1)); }
inline V asin(const V& x) { return atan2(x, simd::sqrt((1.0 - x) * (1.0 + x))); }
inline V acos(const V& x) { return atan2(simd::sqrt((1.0 - x) * (1.0 + x)), x); }

inline V hypot(const V& a, const V& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto infinite = (simd::abs(a) == kInfinity) | (simd::abs(b) == kInfinity);
  return infinite ? all(kInfinity) : simd::sqrt(a * a + b * b);
}

inline V tan(const V& x) {
  // pi / 2 in two parts (fdlibm's): multiples of the first are exact up to 2^20.
  constexpr double kHalfPi = 1.57079632673412561417, kRest = 6.07710050650619224932e-11;
  constexpr double kFar = 1e6;
  constexpr double kSine[] = {1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800};
  constexpr double kCosine[] = {1,           -1.0 / 2,       1.0 / 24,       -1.0 / 720,
                                1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600};
  const V turns = simd::floor(x * (2 / std::numbers::pi) + 0.5);
  const V rest = x - turns * kHalfPi - turns * kRest, square = rest * rest;
  const V sine = rest * polynomial(square, kSine), cosine = polynomial(square, kCosine);
  const auto odd = simd::floor(turns * 0.5) * 2.0 != turns;
  return with_others((odd ? -cosine : sine) / (odd ? sine : cosine), simd::abs(x) > kFar,
                     [](double far) { return std::tan(far); }, x);
}

/// Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in
/// 0 <= x < infinity", Mathematics of Computation 36 (1981), up to where float32 ends.
inline V erfc(const V& x) {
  constexpr double kEnd = 10.2;
  constexpr double kScaled[] = {
      1.2530080589497452,   -0.13562111146880587,   -0.04756238429148228,    0.12964536701032092,
      -0.11927164483815812, 0.0683064417936708,     -0.023787288137893638,   0.0025279479024525693,
      0.001947854952370501, -0.0007398132267707949, -0.00017877597185293593, 3.698943628240467e-05};
  const V size = simd::abs(x), a = size > kEnd ? all(kEnd) : size;
  const V scaled = polynomial((a - 3.0) / (a + 3.0), kScaled) / (1.0 + 2.0 * a);
  const V tail = size > kEnd ? V{} : scaled * float_math::exp(-a * a);
  return x < V{} ? 2.0 - tail : tail;
}

/// As a product of x and a function of w = -log(1 - x^2): Giles, "Approximating the erfinv
/// function", GPU Computing Gems, 2011.
inline V erfinv(const V& x) {
  constexpr double kCenter[] = {
      0.8862269294433731,      0.23201347310748227,     0.011550900732630565,
      -0.0023400270757833017,  -0.00012002570136587074, 3.8981637368426895e-05,
      6.531430799205241e-06,   -2.696533465757212e-06,  3.440101487642903e-07,
      -2.0418841975426785e-08, 4.671932509038665e-10};
  constexpr double kTail[] = {
      -2.8901064674507673, 12.182411862402075,     -16.774757870637824,    13.332917050435524,
      -6.333926497557245,  1.8249549797382925,     -0.2790885450418361,    0.0016586120936737377,
      0.00825765831571602, -0.0016349765005637328, 0.00014342337668247436, -5.047794498308336e-06};
  const V w = -float_math::log((1.0 - x) * (1.0 + x));
  const V factor = w < 5.0 ? polynomial(w, kCenter) : polynomial(simd::sqrt(w), kTail);
  return x * (simd::abs(x) == 1.0 ? all(std::numeric_limits<double>::infinity()) : factor);
}

/// p[0], p[step], ... as `count` lanes; step is 1, or 0 of one value for all.
inline V widened(const float* p, std::int64_t step, std::int64_t count) {
  Lanes<float, kWidth> v{};
  if (step == 0)
    v = *p - v;
  else if (count == kWidth)
    v = load<kWidth>(p);
  else
    for (std::int64_t i = 0; i < count; ++i) v[i] = p[i];
  return __builtin_convertvector(v, V);
}

/// out[i] = f(in[i * step]...). f is compiled once, so that bits do not depend on the place.
template <class F, class... In>
[[gnu::flatten]] void transform(float* out, std::int64_t n, F f, In... in) {
  for (std::int64_t i = 0; i < n; i += kWidth) {
    const std::int64_t count = n - i < kWidth ? n - i : kWidth;
    const auto y = __builtin_convertvector(
        f(widened(in.first + i * in.second, in.second, count)...), Lanes<float, kWidth>);
    if (count == kWidth)
      store<kWidth>(out + i, y);
    else
      for (std::int64_t k = 0; k < count; ++k) out[i + k] = y[k];
  }
}

}  // namespace ferrite::kernels::cpu::float_math
