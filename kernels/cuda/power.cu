// Binary operations that are bound by arithmetic, not by memory.
#include <cmath>

#include "ferrite/kernels/cuda/binary.h"
#include "ferrite/kernels/cuda/elementwise.cuh"
#include "ferrite/kernels/cuda/operands.cuh"
#include "ferrite/kernels/element_arithmetic.h"

namespace ferrite::kernels::cuda {

namespace {

/// Not inlined, because these functions are long: all callers share one body.
template <class T>
[[gnu::noinline]] __device__ T slow_function(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::pow:
      return elements::power(a, b);
    case BinaryOp::floor_divide:
      return elements::floor_divide(a, b);
    case BinaryOp::remainder:
      return elements::floored_remainder(a, b);
    case BinaryOp::fmod:
      return elements::truncated_remainder(a, b);
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
  else if (op == BinaryOp::bit_xor)
    return static_cast<T>(a ^ b);
  else
    return op == BinaryOp::shift_left ? elements::shift_left(a, b) : elements::shift_right(a, b);
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
    const Operands<T> operands{role, scalar.cast<Compute<T>>()};
    map<T, T, T>(stream, "power", Power<T>{op, operands}, out, a, b);
  });
}

}  // namespace ferrite::kernels::cuda
