#include "ferrite/kernels/cpu/unary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ferrite/kernels/complex.h"
#include "ferrite/kernels/cpu/blocks.h"
#include "ferrite/kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

namespace {

/// Calls `body` with the function of `op` on integers of type T. Products and negatives wrap
/// around.
template <class T, class Body>
void with_integer_function(UnaryOp op, const UnaryParams& p, Body&& body) {
  using U = std::uint64_t;
  switch (op) {
    case UnaryOp::neg:
      return body([](T x) { return static_cast<T>(0 - static_cast<U>(x)); });
    case UnaryOp::abs:
      return body([](T x) { return x < T(0) ? static_cast<T>(0 - static_cast<U>(x)) : x; });
    case UnaryOp::sign:
      return body([](T x) { return static_cast<T>((x > 0) - (x < 0)); });
    case UnaryOp::square:
      return body([](T x) { return static_cast<T>(static_cast<U>(x) * static_cast<U>(x)); });
    case UnaryOp::relu:
      return body([](T x) { return std::max(x, T(0)); });
    case UnaryOp::clamp: {
      const T low = saturated<T>(p.a), high = saturated<T>(p.b);
      return body([=](T x) { return std::min(std::max(x, low), high); });
    }
    default:
      fail<DTypeError>("unary", "this operation does not work on {}", dtype_of<T>);
  }
}

}  // namespace

void unary(UnaryOp op, const View& out, const View& in, const UnaryParams& p) {
  dispatch_numeric(in.dtype, "unary", [&]<class T>() {
    if constexpr (is_floating_type<T>) {
      using C = Compute<T>;
      Block<C> block = math_block<C>(op);
      if (!block) block = activation_block<C>(op);
      map_blocks<T>(
          out, in, [block, a = p.a.cast<C>(), b = p.b.cast<C>()](C* o, const C* x, std::int64_t n) {
            block(o, x, n, a, b);
          });
    } else {
      with_integer_function<T>(op, p, [&](auto f) { map<T, T>(out, in, f); });
    }
  });
}

void predicate(Predicate op, const View& out, const View& in) {
  dispatch_all(in.dtype, "predicate", [&]<class T>() {
    using C = Compute<T>;
    if (op == Predicate::logical_not) return map<bool, T>(out, in, [](C x) { return x == C(0); });
    if (op == Predicate::signbit) {
      // Not std::signbit, on whose vectors GCC 12 fails ("unrecognizable insn").
      if constexpr (is_floating_type<T>)
        return map<bool, T>(out, in, [](C x) {
          return std::bit_cast<std::conditional_t<sizeof(C) == 4, std::int32_t, std::int64_t>>(x) <
                 0;
        });
      else
        return map<bool, T>(out, in, [](C x) { return x < C(0); });
    }
    if constexpr (is_floating_type<T>) {
      constexpr C kInfinity = std::numeric_limits<C>::infinity();
      switch (op) {
        case Predicate::isnan:
          return map<bool, T>(out, in, [](C x) { return x != x; });
        case Predicate::isinf:
          return map<bool, T>(out, in, [](C x) { return std::abs(x) == kInfinity; });
        default:
          return map<bool, T>(out, in, [](C x) { return std::abs(x) < kInfinity; });
      }
    } else {
      map<bool, T>(out, in, [finite = op == Predicate::isfinite](C) { return finite; });
    }
  });
}

}  // namespace ferrite::kernels::cpu

namespace ferrite::kernels {

void unary(const Stream& stream, UnaryOp op, const View& out, const View& in,
           const UnaryParams& p) {
  if (op == UnaryOp::neg && is_complex(in.dtype)) [[unlikely]]
    return unary(stream, op, as_real(out), as_real(in), p);
  launch<cpu::unary, cuda::unary>(stream, "unary", op, out, in, p);
}
void unary_backward(const Stream& stream, UnaryOp op, const View& out, const View& grad,
                    const View& saved, const UnaryParams& p) {
  launch<cpu::unary_backward, cuda::unary_backward>(stream, "unary_backward", op, out, grad, saved,
                                                    p);
}

}  // namespace ferrite::kernels
