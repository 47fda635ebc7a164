#include "ferrite/kernels/cuda/binary.h"
#include "ferrite/kernels/cuda/elementwise.cuh"
#include "ferrite/kernels/cuda/operands.cuh"
#include "ferrite/kernels/element_arithmetic.h"

namespace ferrite::kernels::cuda {

namespace {

template <class T>
struct Arithmetic {
  using Packs = void;
  using C = Compute<T>;
  using W = elements::Wrapping<C>;
  BinaryOp op;
  Operands<T> operands;

  template <int V>
  __device__ __forceinline__ void packs(Pack<T, V>& out, const Pack<T, V>& a,
                                        const Pack<T, V>& b) const {
    constexpr bool kBool = std::is_same_v<T, bool>;
    const Pack<C, V> left = operands.template left<V>(a), right = operands.template right<V>(b);
    const auto apply = [&](auto f) { apply_packs(out, left, right, f); };
    switch (op) {
      case BinaryOp::add:
        if (operands.role == ScalarRole::factor_of_right) {
          const C factor = operands.scalar;
          if constexpr (kBool)
            return apply([factor](C x, C y) { return x || (factor && y); });
          else
            return apply([factor](C x, C y) { return C(W(x) + W(factor) * W(y)); });
        }
        if constexpr (kBool)
          return apply([](C x, C y) { return x || y; });
        else
          return apply([](C x, C y) { return C(W(x) + W(y)); });
      case BinaryOp::sub:
        return apply([](C x, C y) { return C(W(x) - W(y)); });
      case BinaryOp::mul:
        if constexpr (kBool)
          return apply([](C x, C y) { return x && y; });
        else
          return apply([](C x, C y) { return C(W(x) * W(y)); });
      case BinaryOp::div:
        if constexpr (std::is_floating_point_v<C>) return apply([](C x, C y) { return x / y; });
        return;
      // A NaN operand gives NaN.
      case BinaryOp::maximum:
        return apply([](C x, C y) { return x > y || x != x ? x : y; });
      default:
        return apply([](C x, C y) { return x < y || x != x ? x : y; });
    }
  }
};

/// The operations with a bool result: comparisons, logic and predicates.
template <class T>
struct Comparison {
  using Packs = void;
  using C = Compute<T>;
  Test test;
  Operands<T> operands;

  template <int V>
  __device__ __forceinline__ void packs(Pack<bool, V>& out, const Pack<T, V>& a,
                                        const Pack<T, V>& b) const {
    const Pack<C, V> left = operands.template left<V>(a), right = operands.template right<V>(b);
    const auto apply = [&](auto f) { apply_packs(out, left, right, f); };
    switch (test) {
      case Test::logical_and:
        return apply([](C x, C y) { return x != C(0) && y != C(0); });
      case Test::logical_or:
        return apply([](C x, C y) { return x != C(0) || y != C(0); });
      case Test::logical_xor:
        return apply([](C x, C y) { return (x != C(0)) != (y != C(0)); });
      case Test::eq:
        return apply([](C x, C y) { return x == y; });
      case Test::ne:
        return apply([](C x, C y) { return x != y; });
      case Test::gt:
        return apply([](C x, C y) { return x > y; });
      case Test::ge:
        return apply([](C x, C y) { return x >= y; });
      case Test::isnan:
        return apply([](C x, C) { return x != x; });
      // x - x is NaN for infinities, which differ from NaN in that they equal themselves.
      case Test::isinf:
        return apply([](C x, C) { return x == x && is_nan_difference(x); });
      case Test::signbit:
        return apply([](C x, C) { return has_sign(x); });
      default:
        return apply([](C x, C) { return !is_nan_difference(x); });
    }
  }

 private:
  static __device__ bool has_sign(C x) {
    if constexpr (std::is_floating_point_v<C>)
      return std::copysign(C(1), x) < C(0);
    else if constexpr (std::is_signed_v<C>)
      return x < C(0);
    else
      return false;
  }
  static __device__ bool is_nan_difference(C x) {
    if constexpr (std::is_floating_point_v<C>) {
      const C difference = x - x;
      return difference != difference;
    } else {
      return false;
    }
  }
};

View absent(const View& like) {
  View v = like;
  v.data = nullptr;
  return v;
}

void run(const Stream& stream, BinaryOp op, const View& out, const View& a, const View& b,
         ScalarRole role, Scalar scalar) {
  const auto beside = [](const View& shared, const View& other) {
    return shared.dtype == kFloat32 && itemsize(other.dtype) == 2;
  };
  if (role == ScalarRole::none && beside(b, a))
    return arithmetic(stream, op, out, a, absent(a), ScalarRole::right, 0, b.data);
  if (role == ScalarRole::none && beside(a, b))
    return arithmetic(stream, op, out, absent(b), b, ScalarRole::left, 0, a.data);
  switch (op) {
    case BinaryOp::add:
    case BinaryOp::sub:
    case BinaryOp::mul:
    case BinaryOp::div:
    case BinaryOp::maximum:
    case BinaryOp::minimum:
      return arithmetic(stream, op, out, a, b, role, scalar);
    case BinaryOp::pow:
    case BinaryOp::floor_divide:
    case BinaryOp::remainder:
    case BinaryOp::fmod:
    case BinaryOp::atan2:
    case BinaryOp::hypot:
    case BinaryOp::copysign:
    case BinaryOp::bit_and:
    case BinaryOp::bit_or:
    case BinaryOp::bit_xor:
    case BinaryOp::shift_left:
    case BinaryOp::shift_right:
      return power(stream, op, out, a, b, role, scalar);
    default:
      break;
  }
  // x < y is y > x, for NaN as well.
  const bool swapped = op == BinaryOp::lt || op == BinaryOp::le;
  const Test test = op == BinaryOp::logical_and   ? Test::logical_and
                    : op == BinaryOp::logical_or  ? Test::logical_or
                    : op == BinaryOp::logical_xor ? Test::logical_xor
                    : op == BinaryOp::eq          ? Test::eq
                    : op == BinaryOp::ne          ? Test::ne
                    : op == BinaryOp::lt          ? Test::gt
                    : op == BinaryOp::gt          ? Test::gt
                                                  : Test::ge;
  if (swapped)
    role = role == ScalarRole::left    ? ScalarRole::right
           : role == ScalarRole::right ? ScalarRole::left
                                       : role;
  comparison(stream, test, out, swapped ? b : a, swapped ? a : b, role, scalar);
}

}  // namespace

void arithmetic(const Stream& stream, BinaryOp op, const View& out, const View& a, const View& b,
                ScalarRole role, Scalar scalar, const void* shared) {
  if ((op == BinaryOp::sub && a.dtype == kBool) || (op == BinaryOp::div && !is_floating(a.dtype)))
    fail<DTypeError>("binary", "this operation does not work on {}", a.dtype);
  dispatch_all(a.dtype, "binary", [&]<class T>() {
    using C = Compute<T>;
    const Operands<T> operands{role, scalar.cast<C>(), static_cast<const C*>(shared)};
    map<T, T, T>(stream, "binary", Arithmetic<T>{op, operands}, out, a, b);
  });
}

void comparison(const Stream& stream, Test test, const View& out, const View& a, const View& b,
                ScalarRole role, Scalar scalar) {
  dispatch_all(a.dtype, "binary", [&]<class T>() {
    const Operands<T> operands{role, scalar.cast<Compute<T>>()};
    map<bool, T, T>(stream, "compare", Comparison<T>{test, operands}, out, a, b);
  });
}

void binary(const Stream& stream, BinaryOp op, const View& out, const View& a, const View& b) {
  run(stream, op, out, a, b, ScalarRole::none, 0);
}
void binary(const Stream& stream, BinaryOp op, const View& out, const View& a, Scalar b) {
  run(stream, op, out, a, absent(a), ScalarRole::right, b);
}
void binary(const Stream& stream, BinaryOp op, const View& out, Scalar a, const View& b) {
  run(stream, op, out, absent(b), b, ScalarRole::left, a);
}
void add_scaled(const Stream& stream, const View& out, const View& a, const View& b, Scalar alpha) {
  run(stream, BinaryOp::add, out, a, b, ScalarRole::factor_of_right, alpha);
}

}  // namespace ferrite::kernels::cuda
