#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "ferrite/kernels/cpu/binary_loop.h"
#include "ferrite/kernels/cpu/float_math.h"
#include "ferrite/kernels/cpu/loops.h"
#include "ferrite/kernels/element_arithmetic.h"

namespace ferrite::kernels::cpu {

namespace {

/// The loop of a function on values of type E: one for each layout, or (kPlain) one for all.
template <class E, bool kPlain = false, class F>
BinaryRun<E, E> run_of(F) {
  return [](E* out, const E* a, std::int64_t a_step, const E* b, std::int64_t b_step,
            std::int64_t n, const void*) {
    if constexpr (kPlain)
      plain_run(out, a, a_step, b, b_step, n, F());
    else
      fast_run(out, a, a_step, b, b_step, n, F());
  };
}

/// The same of a function of float_math.h.
template <class E, class F>
BinaryRun<E, E> run_of_float(F f) {
  if constexpr (sizeof(E) == 8)
    return run_of<E, true>(f);
  else
    return [](E* out, const E* a, std::int64_t a_step, const E* b, std::int64_t b_step,
              std::int64_t n, const void*) {
      float_math::transform(out, n, F(), std::pair(a, a_step), std::pair(b, b_step));
    };
}

/// elements::truncated_remainder(), at once where std::fmod() takes a step for each bit of the
/// quotient: the product of a float32 number with a whole number below 2^29 is exact in float64.
template <class E>
E truncated_remainder(E a, E b) {
  if constexpr (std::is_same_v<E, float>) {
    const double x = std::abs(static_cast<double>(a)), y = std::abs(static_cast<double>(b));
    const double quotient = x / y;
    if (quotient < 0x1p29 && y <= std::numeric_limits<float>::max()) {
      const double rest = x - static_cast<double>(static_cast<std::int64_t>(quotient)) * y;
      // Below 0 the quotient was rounded up to the next whole number.
      return std::copysign(static_cast<float>(rest < 0 ? rest + y : rest), a);
    }
  }
  return elements::truncated_remainder(a, b);
}

template <class E>
E floored_remainder(E a, E b) {
  if constexpr (std::is_same_v<E, float>) {
    const float rest = truncated_remainder(a, b);
    const bool moves = (rest != 0) & elements::differ_in_sign(rest, b);
    // By bits: signs of random numbers mislead a branch. -0 changes no number, nor a zero's sign.
    const std::uint32_t all = -static_cast<std::uint32_t>(moves);
    const std::uint32_t step = (std::bit_cast<std::uint32_t>(b) & all) | (0x80000000u & ~all);
    return rest + std::bit_cast<float>(step);
  } else {
    return elements::floored_remainder(a, b);
  }
}

/// Null where there is none. Integers of fewer bits are what is left of an int64 result.
template <class E>
BinaryRun<E, E> run_of(BinaryOp op) {
  constexpr bool floating = std::is_floating_point_v<E>;
  switch (op) {
    case BinaryOp::add:
      return run_of<E>([](E a, E b) { return elements::add(a, b); });
    case BinaryOp::sub:
      return run_of<E>([](E a, E b) { return elements::subtract(a, b); });
    case BinaryOp::mul:
      return run_of<E>([](E a, E b) { return elements::multiply(a, b); });
    case BinaryOp::div:
      if constexpr (floating) return run_of<E>([](E a, E b) { return a / b; });
      return nullptr;
    case BinaryOp::pow:
      if constexpr (floating)
        return [](E* out, const E* a, std::int64_t a_step, const E* b, std::int64_t b_step,
                  std::int64_t n, const void*) {
          // Cubes are written so in many activations; a power takes ten times as long.
          if (b_step == 0 && n > 0 && *b == 3)
            fast_run(out, a, a_step, b, b_step, n, [](E x, E) { return x * x * x; });
          else
            run_of_float<E>([](const auto& x, const auto& y) { return float_math::pow(x, y); })(
                out, a, a_step, b, b_step, n, nullptr);
        };
      return run_of<E, true>([](E a, E b) { return elements::power(a, b); });
    // A NaN operand gives NaN, as in PyTorch.
    case BinaryOp::maximum:
      return run_of<E>([](E a, E b) { return a > b || a != a ? a : b; });
    case BinaryOp::minimum:
      return run_of<E>([](E a, E b) { return a < b || a != a ? a : b; });
    case BinaryOp::floor_divide:
      return run_of<E, true>([](E a, E b) { return elements::floor_divide(a, b); });
    case BinaryOp::remainder:
      return run_of<E, true>([](E a, E b) { return floored_remainder(a, b); });
    case BinaryOp::fmod:
      return run_of<E, true>([](E a, E b) { return truncated_remainder(a, b); });
    case BinaryOp::atan2:
      if constexpr (floating)
        return run_of_float<E>(
            [](const auto& a, const auto& b) { return float_math::atan2(a, b); });
      return nullptr;
    case BinaryOp::hypot:
      if constexpr (floating)
        return run_of_float<E>(
            [](const auto& a, const auto& b) { return float_math::hypot(a, b); });
      return nullptr;
    case BinaryOp::copysign:
      if constexpr (floating) return run_of<E>([](E a, E b) { return std::copysign(a, b); });
      return nullptr;
    case BinaryOp::bit_and:
      if constexpr (!floating) return run_of<E>([](E a, E b) { return a & b; });
      return nullptr;
    case BinaryOp::bit_or:
      if constexpr (!floating) return run_of<E>([](E a, E b) { return a | b; });
      return nullptr;
    case BinaryOp::bit_xor:
      if constexpr (!floating) return run_of<E>([](E a, E b) { return a ^ b; });
      return nullptr;
    case BinaryOp::shift_left:
      if constexpr (!floating)
        return run_of<E>([](E a, E b) { return elements::shift_left(a, b); });
      return nullptr;
    case BinaryOp::shift_right:
      if constexpr (!floating)
        return run_of<E>([](E a, E b) { return elements::shift_right(a, b); });
      return nullptr;
    default:
      return nullptr;
  }
}

/// Whether `op` works on bool, where sums are or, and products and.
bool takes_bool(BinaryOp op) {
  return op == BinaryOp::add || op == BinaryOp::mul || op == BinaryOp::maximum ||
         op == BinaryOp::minimum;
}

/// What training in bfloat16 spends time in has loops of its own, without blocks of float between.
/// Whether it was such a call.
bool bfloat16_arithmetic(BinaryOp op, const View& out, const View& a, const View& b) {
  using T = BFloat16;
  if (a.dtype != kBFloat16) return false;
  if (op == BinaryOp::mul && b.dtype == kFloat32) {
    map<T, T, float>(out, a, b, [](float x, float y) { return x * y; });
    return true;
  }
  if (b.dtype != kBFloat16) return false;
  switch (op) {
    case BinaryOp::add:
      map<T, T, T>(out, a, b, [](float x, float y) { return x + y; });
      return true;
    case BinaryOp::sub:
      map<T, T, T>(out, a, b, [](float x, float y) { return x - y; });
      return true;
    case BinaryOp::mul:
      map<T, T, T>(out, a, b, [](float x, float y) { return x * y; });
      return true;
    default:
      return false;
  }
}

}  // namespace

// Beside 16-bit values a scalar keeps its float precision: all are computed in float.
void arithmetic(BinaryOp op, const View& out, const View& a, const View& b) {
  if (bfloat16_arithmetic(op, out, a, b)) return;
  const DType dtype = operand_dtype(a, b);
  dispatch_wide(dtype, [&]<class E>() {
    const BinaryRun<E, E> run = dtype == kBool && !takes_bool(op) ? nullptr : run_of<E>(op);
    FERRITE_CHECK(run, DTypeError, "binary", "this operation does not work on {}", dtype);
    run_binary<E, E>(out, a, b, run);
  });
}

void add_scaled(const View& out, const View& a, const View& b, Scalar alpha) {
  if (a.dtype == kBFloat16 && b.dtype == kBFloat16)
    return map<BFloat16, BFloat16, BFloat16>(
        out, a, b, [k = alpha.cast<float>()](float x, float y) { return x + k * y; });
  dispatch_wide(a.dtype, [&]<class E>() {
    const E k = a.dtype == kBool ? static_cast<E>(alpha.cast<bool>()) : alpha.cast<E>();
    run_binary<E, E>(
        out, a, b,
        [](E* o, const E* x, std::int64_t x_step, const E* y, std::int64_t y_step, std::int64_t n,
           const void* scale) {
          fast_run(o, x, x_step, y, y_step, n, [k = *static_cast<const E*>(scale)](E p, E q) {
            return elements::add(p, elements::multiply(k, q));
          });
        },
        &k);
  });
}

}  // namespace ferrite::kernels::cpu
