// Binary operations that are bound by arithmetic, not by memory.
#include <cmath>

#include "ferrite/kernels/cuda/binary.h"
#include "ferrite/kernels/cuda/elementwise.cuh"
#include "ferrite/kernels/cuda/operands.cuh"

namespace ferrite::kernels::cuda {

namespace {

template <class T>
__device__ bool differ_in_sign(T a, T b) {
  if constexpr (std::is_unsigned_v<T>)
    return false;
  else
    return (a < 0) != (b < 0);
}

/// Python's floored division: the remainder has the divisor's sign.
template <class T>
__device__ T floor_divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    // a / b may round up to an integer above the exact quotient: 1 / 0.1 is slightly less than 10.
    if (b == 0) return a / b;
    const T rest = std::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != 0 && differ_in_sign(rest, b)) quotient -= 1;
    if (quotient == 0) return std::copysign(T(0), a / b);
    const T floored = std::floor(quotient);
    return quotient - floored > T(0.5) ? floored + 1 : floored;
  } else {
    if (b == 0) return T(0);
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
    const T q = static_cast<T>(a / b);
    return a % b != 0 && differ_in_sign(a, b) ? static_cast<T>(q - 1) : q;
  }
}

/// C's remainder, with the dividend's sign.
template <class T>
__device__ T truncated_remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return std::fmod(a, b);
  else if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1)))
    return T(0);
  else
    return static_cast<T>(a % b);
}

/// Python's, with the divisor's sign.
template <class T>
__device__ T floored_remainder(T a, T b) {
  const T r = truncated_remainder(a, b);
  return r != 0 && differ_in_sign(r, b) ? static_cast<T>(r + b) : r;
}

template <class T>
__device__ T raised(T a, T b) {
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

/// Not inlined, because these functions are long: all callers share one body.
template <class T>
[[gnu::noinline]] __device__ T slow_function(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::pow:
      return raised(a, b);
    case BinaryOp::floor_divide:
      return floor_divide(a, b);
    case BinaryOp::remainder:
      return floored_remainder(a, b);
    case BinaryOp::fmod:
      return truncated_remainder(a, b);
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<T>)
    return op == BinaryOp::hypot      ? std::hypot(a, b)
           : op == BinaryOp::copysign ? std::copysign(a, b)
                                      : std::atan2(a, b);
  else if (op == BinaryOp::bit_and)
    return static_cast<T>(a & b);
  else if (op == BinaryOp::bit_or)
    return static_cast<T>(a | b);
  else
    return static_cast<T>(a ^ b);
}

template <class T>
struct Power {
  using Packs = void;
  using Heavy = void;
  BinaryOp op;
  Operands<T> operands;

  template <int V>
  __device__ __forceinline__ void packs(Pack<T, V>& out, const Pack<T, V>& a,
                                        const Pack<T, V>& b) const {
    using C = Compute<T>;
    apply_packs(out, operands.template left<V>(a), operands.template right<V>(b),
                [op = op](C x, C y) { return slow_function<C>(op, x, y); });
  }
};

}  // namespace

void power(const Stream& stream, BinaryOp op, const View& out, const View& a, const View& b,
           ScalarRole role, Scalar scalar) {
  if (a.dtype == kBool ||
      (op >= BinaryOp::atan2 && op <= BinaryOp::copysign && !is_floating(a.dtype)))
    fail<DTypeError>("binary", "this operation does not work on {}", a.dtype);
  dispatch_numeric(a.dtype, "binary", [&]<class T>() {
    const Operands<T> operands{role, scalar.to<Compute<T>>()};
    map<T, T, T>(stream, "power", Power<T>{op, operands}, out, a, b);
  });
}

}  // namespace ferrite::kernels::cuda
