#include "ferrite/kernels/cpu/binary_loop.h"

namespace ferrite::kernels::cpu {

namespace {

/// The loop of a function on values of type E.
template <class E, class F>
BinaryRun<bool, E> run_of(F) {
  return [](bool* out, const E* a, std::int64_t a_step, const E* b, std::int64_t b_step,
            std::int64_t n, const void*) { fast_run(out, a, a_step, b, b_step, n, F()); };
}

template <class E>
BinaryRun<bool, E> run_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::logical_and:
      return run_of<E>([](E a, E b) { return (a != E(0)) & (b != E(0)); });
    case BinaryOp::logical_or:
      return run_of<E>([](E a, E b) { return (a != E(0)) | (b != E(0)); });
    case BinaryOp::logical_xor:
      return run_of<E>([](E a, E b) { return (a != E(0)) != (b != E(0)); });
    case BinaryOp::eq:
      return run_of<E>([](E a, E b) { return a == b; });
    case BinaryOp::ne:
      return run_of<E>([](E a, E b) { return a != b; });
    case BinaryOp::lt:
      return run_of<E>([](E a, E b) { return a < b; });
    case BinaryOp::le:
      return run_of<E>([](E a, E b) { return a <= b; });
    case BinaryOp::gt:
      return run_of<E>([](E a, E b) { return a > b; });
    case BinaryOp::ge:
      return run_of<E>([](E a, E b) { return a >= b; });
    default:
      fail<ValueError>("binary", "this operation does not give bool");
  }
}

}  // namespace

// Beside 16-bit values a scalar keeps its float precision: all are compared as float.
void comparison(BinaryOp op, const View& out, const View& a, const View& b) {
  dispatch_wide(operand_dtype(a, b),
                [&]<class E>() { run_binary<bool, E>(out, a, b, run_of<E>(op)); });
}

}  // namespace ferrite::kernels::cpu
