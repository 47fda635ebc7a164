#include <cmath>
#include <utility>

#include "ferrite/kernels/cpu/float_math.h"
#include "ferrite/kernels/cpu/simd_math.h"
#include "ferrite/kernels/cpu/unary.h"
#include "ferrite/kernels/special_functions.h"

namespace ferrite::kernels::cpu {

namespace {

/// A block function of f, which takes a vector.
template <class C, class F>
Block<C> block_of(F) {
  return [](C* out, const C* in, std::int64_t n, C, C) { simd::transform(out, n, F(), in); };
}

/// The same of a function of numbers, which the compiler vectorises where it can.
template <class C, class F>
Block<C> block_of_numbers(F) {
  return [](C* out, const C* in, std::int64_t n, C, C) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = F()(in[i]);
  };
}

/// The same of a function of float_math.h.
template <class C, class F>
Block<C> block_of_float(F f) {
  if constexpr (sizeof(C) == 8)
    return block_of_numbers<C>(f);
  else
    return [](C* out, const C* in, std::int64_t n, C, C) {
      float_math::transform(out, n, F(), std::pair(in, std::int64_t{1}));
    };
}

// Not std::lgamma, which writes the sign to a variable that all threads share.
float log_gamma(float x) {
  int sign;
  return lgammaf_r(x, &sign);
}
double log_gamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

template <class V>
V truncate(const V& x) {
  return x < V{} ? simd::ceil(x) : simd::floor(x);
}

template <class V>
V sign(const V& x) {
  return x > V{} ? simd::all<V>(1) : x < V{} ? simd::all<V>(-1) : V{};
}

}  // namespace

template <class C>
Block<C> math_block(UnaryOp op) {
  switch (op) {
    case UnaryOp::neg:
      return block_of<C>([](const auto& x) { return -x; });
    case UnaryOp::abs:
      return block_of<C>([](const auto& x) { return simd::abs(x); });
    case UnaryOp::sign:
      return block_of<C>([](const auto& x) { return sign(x); });
    case UnaryOp::square:
      return block_of<C>([](const auto& x) { return x * x; });
    case UnaryOp::floor:
      return block_of<C>([](const auto& x) { return simd::floor(x); });
    case UnaryOp::ceil:
      return block_of<C>([](const auto& x) { return simd::ceil(x); });
    case UnaryOp::round:
      return block_of_numbers<C>([](C x) { return std::nearbyint(x); });
    case UnaryOp::trunc:
      return block_of<C>([](const auto& x) { return truncate(x); });
    case UnaryOp::exp:
      return block_of<C>([](const auto& x) { return simd::exp(x); });
    case UnaryOp::exp2:
      return block_of_float<C>([](const auto& x) { return float_math::exp2(x); });
    case UnaryOp::expm1:
      return block_of<C>([](const auto& x) { return simd::expm1(x); });
    case UnaryOp::log:
      return block_of<C>([](const auto& x) { return simd::log(x); });
    case UnaryOp::log1p:
      return block_of<C>([](const auto& x) { return simd::log1p(x); });
    case UnaryOp::log2:
      return block_of_float<C>([](const auto& x) { return float_math::log2(x); });
    case UnaryOp::sqrt:
      return block_of_numbers<C>([](C x) { return std::sqrt(x); });
    case UnaryOp::rsqrt:
      return block_of_numbers<C>([](C x) { return C(1) / std::sqrt(x); });
    case UnaryOp::reciprocal:
      return block_of<C>([](const auto& x) { return C(1) / x; });
    case UnaryOp::sin:
      return block_of<C>([](const auto& x) { return simd::sin(x); });
    case UnaryOp::cos:
      return block_of<C>([](const auto& x) { return simd::cos(x); });
    case UnaryOp::tan:
      return block_of_float<C>([](const auto& x) { return float_math::tan(x); });
    case UnaryOp::asin:
      return block_of_float<C>([](const auto& x) { return float_math::asin(x); });
    case UnaryOp::acos:
      return block_of_float<C>([](const auto& x) { return float_math::acos(x); });
    case UnaryOp::atan:
      return block_of_float<C>([](const auto& x) { return float_math::atan(x); });
    case UnaryOp::sinh:
      return block_of_float<C>([](const auto& x) { return float_math::sinh(x); });
    case UnaryOp::cosh:
      return block_of_float<C>([](const auto& x) { return float_math::cosh(x); });
    case UnaryOp::asinh:
      return block_of_float<C>([](const auto& x) { return float_math::asinh(x); });
    case UnaryOp::acosh:
      return block_of_float<C>([](const auto& x) { return float_math::acosh(x); });
    case UnaryOp::atanh:
      return block_of_float<C>([](const auto& x) { return float_math::atanh(x); });
    case UnaryOp::log10:
      return block_of_float<C>([](const auto& x) { return float_math::log10(x); });
    case UnaryOp::erfc:
      return block_of_float<C>([](const auto& x) { return float_math::erfc(x); });
    case UnaryOp::erfinv:
      return block_of_float<C>([](const auto& x) { return float_math::erfinv(x); });
    case UnaryOp::lgamma:
      return block_of_numbers<C>([](C x) { return log_gamma(x); });
    case UnaryOp::polygamma:
      return [](C* out, const C* in, std::int64_t n, C order, C) {
        for (std::int64_t i = 0; i < n; ++i)
          out[i] = special::polygamma(static_cast<int>(order), in[i]);
      };
    case UnaryOp::erf:
      return block_of<C>([](const auto& x) { return simd::erf(x); });
    case UnaryOp::tanh:
      return block_of<C>([](const auto& x) { return simd::tanh(x); });
    default:
      return nullptr;
  }
}

template Block<float> math_block(UnaryOp op);
template Block<double> math_block(UnaryOp op);

}  // namespace ferrite::kernels::cpu
