#include <cmath>

#include "kernels/cpu/binary.h"
#include "kernels/cpu/loops.h"

namespace ferrite::kernels::cpu {

namespace {

/// Calls `body` with the function of `op` on values of type C (the Compute type of T).
template <class T, class Body>
void with_function(BinaryOp op, Body&& body) {
  using C = Compute<T>;
  switch (op) {
    case BinaryOp::logical_and:
      return body([](C a, C b) { return a != C(0) && b != C(0); });
    case BinaryOp::logical_or:
      return body([](C a, C b) { return a != C(0) || b != C(0); });
    case BinaryOp::logical_xor:
      return body([](C a, C b) { return (a != C(0)) != (b != C(0)); });
    case BinaryOp::eq:
      return body([](C a, C b) { return a == b; });
    case BinaryOp::ne:
      return body([](C a, C b) { return a != b; });
    case BinaryOp::lt:
      return body([](C a, C b) { return a < b; });
    case BinaryOp::le:
      return body([](C a, C b) { return a <= b; });
    case BinaryOp::gt:
      return body([](C a, C b) { return a > b; });
    case BinaryOp::ge:
      return body([](C a, C b) { return a >= b; });
    default:
      break;
  }
  fail<DTypeError>("binary", "this operation does not work on {}", dtype_of<T>);
}

}  // namespace

void comparison(BinaryOp op, const View& out, const View& a, const View& b) {
  dispatch_all(operand_dtype(a, b), "binary", [&]<class T>() {
    with_function<T>(op, [&](auto f) {
      // A scalar beside 16-bit values keeps its float precision.
      if constexpr (is_half_type<T>) {
        if (a.dtype != b.dtype)
          return a.dtype == kFloat32 ? map<bool, float, T>(out, a, b, f)
                                     : map<bool, T, float>(out, a, b, f);
      }
      map<bool, T, T>(out, a, b, f);
    });
  });
}

}  // namespace ferrite::kernels::cpu
