#include <cmath>

#include "kernels/cpu/binary.h"
#include "kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

namespace {

/// Python's floored division: the remainder has the divisor's sign.
template <class T>
T floor_divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    // a / b may round up to an integer that the quotient does not reach: 1 / 0.1 is 9 and a bit.
    if (b == 0) return a / b;
    const T rest = std::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    if (quotient == 0) return std::copysign(T(0), a / b);
    const T floored = std::floor(quotient);
    return quotient - floored > T(0.5) ? floored + 1 : floored;
  } else {
    if (b == 0) return T(0);
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
    const T q = static_cast<T>(a / b);
    return a % b != 0 && ((a < 0) != (b < 0)) ? static_cast<T>(q - 1) : q;
  }
}

template <class T>
T remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const T r = std::fmod(a, b);
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
  } else {
    if (b == 0) return T(0);
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return T(0);
    const T r = static_cast<T>(a % b);
    return r != 0 && ((r < 0) != (b < 0)) ? static_cast<T>(r + b) : r;
  }
}

/// C's remainder, with the dividend's sign.
template <class T>
T truncated_remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return std::fmod(a, b);
  else if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1)))
    return T(0);
  else
    return static_cast<T>(a % b);
}

template <class T>
T power(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::pow(a, b);
  } else {
    if constexpr (std::is_signed_v<T>)
      if (b < 0) return a == 1 ? T(1) : a == -1 ? (b % 2 ? T(-1) : T(1)) : T(0);
    // Unsigned products wrap around as two's complement does.
    using U = std::uint64_t;
    U result = 1, base = static_cast<U>(a);
    for (U e = static_cast<U>(b); e; e >>= 1, base *= base)
      if (e & 1) result *= base;
    return static_cast<T>(result);
  }
}

/// Wrapping integer arithmetic without undefined overflow; plain for floating types.
template <class T, class F>
T wrapping(T a, T b, F f) {
  if constexpr (std::is_floating_point_v<T>)
    return f(a, b);
  else
    return static_cast<T>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
}

/// Calls `body` with the function of `op` on values of type C (the Compute type of T).
template <class T, class Body>
void with_function(BinaryOp op, Body&& body) {
  using C = Compute<T>;
  constexpr bool floating = std::is_floating_point_v<C>;
  switch (op) {
    case BinaryOp::add:
      if constexpr (std::is_same_v<T, bool>)
        return body([](C a, C b) { return a || b; });
      else
        return body([](C a, C b) { return wrapping(a, b, [](auto x, auto y) { return x + y; }); });
    case BinaryOp::sub:
      if constexpr (!std::is_same_v<T, bool>)
        return body([](C a, C b) { return wrapping(a, b, [](auto x, auto y) { return x - y; }); });
      break;
    case BinaryOp::mul:
      if constexpr (std::is_same_v<T, bool>)
        return body([](C a, C b) { return a && b; });
      else
        return body([](C a, C b) { return wrapping(a, b, [](auto x, auto y) { return x * y; }); });
    case BinaryOp::div:
      if constexpr (floating) return body([](C a, C b) { return a / b; });
      break;
    case BinaryOp::pow:
      if constexpr (!std::is_same_v<T, bool>) return body([](C a, C b) { return power(a, b); });
      break;
    // A NaN operand gives NaN, as in PyTorch.
    case BinaryOp::maximum:
      return body([](C a, C b) { return a > b || a != a ? a : b; });
    case BinaryOp::minimum:
      return body([](C a, C b) { return a < b || a != a ? a : b; });
    case BinaryOp::floor_divide:
      if constexpr (!std::is_same_v<T, bool>)
        return body([](C a, C b) { return floor_divide(a, b); });
      break;
    case BinaryOp::remainder:
      if constexpr (!std::is_same_v<T, bool>) return body([](C a, C b) { return remainder(a, b); });
      break;
    case BinaryOp::fmod:
      if constexpr (!std::is_same_v<T, bool>)
        return body([](C a, C b) { return truncated_remainder(a, b); });
      break;
    case BinaryOp::atan2:
      if constexpr (floating) return body([](C a, C b) { return std::atan2(a, b); });
      break;
    default:
      break;
  }
  fail<DTypeError>("binary", "this operation does not work on {}", dtype_of<T>);
}

/// out = f(a, b); of one element without a loop, which would cost more.
template <class Out, class A, class B, class F>
void apply(const View& out, const View& a, const View& b, F f) {
  if (out.numel == 1)
    *out.as<Out>() = static_cast<Out>(
        f(static_cast<Compute<A>>(*a.as<A>()), static_cast<Compute<B>>(*b.as<B>())));
  else
    map<Out, A, B>(out, a, b, f);
}

}  // namespace

void arithmetic(BinaryOp op, const View& out, const View& a, const View& b) {
  dispatch_all(operand_dtype(a, b), "binary", [&]<class T>() {
    with_function<T>(op, [&](auto f) {
      // A scalar beside 16-bit values keeps its float precision.
      if constexpr (is_half_type<T>) {
        if (a.dtype != b.dtype)
          return a.dtype == kFloat32 ? apply<T, float, T>(out, a, b, f)
                                     : apply<T, T, float>(out, a, b, f);
      }
      apply<T, T, T>(out, a, b, f);
    });
  });
}

void add_scaled(const View& out, const View& a, const View& b, Scalar alpha) {
  dispatch_all(a.dtype, "add", [&]<class T>() {
    using C = Compute<T>;
    const C k = alpha.to<C>();
    apply<T, T, T>(out, a, b, [k](C x, C y) {
      if constexpr (std::is_same_v<T, bool>)
        return x || (k && y);
      else
        return wrapping(x, static_cast<C>(wrapping(k, y, [](auto p, auto q) { return p * q; })),
                        [](auto p, auto q) { return p + q; });
    });
  });
}

}  // namespace ferrite::kernels::cpu
