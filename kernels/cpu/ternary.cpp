#include "ferrite/kernels/ternary.h"

#include "ferrite/kernels/cpu/operand_loop.h"
#include "ferrite/kernels/element_arithmetic.h"

namespace ferrite::kernels::cpu {

namespace {

template <class E, class F>
void run(const View& out, const View& a, const View& b, const View& c, F f) {
  run_operands<E, E>(
      out,
      [f](E* o, std::int64_t n, Run<E> x, Run<E> y, Run<E> z) {
        if (x.step == 1 && y.step == 1 && z.step == 1) {
#pragma GCC ivdep
          for (std::int64_t i = 0; i < n; ++i) o[i] = f(x.p[i], y.p[i], z.p[i]);
        } else if (x.step == 1 && y.step == 1) {
          const E all = *z.p;
#pragma GCC ivdep
          for (std::int64_t i = 0; i < n; ++i) o[i] = f(x.p[i], y.p[i], all);
        } else {
          for (std::int64_t i = 0; i < n; ++i)
            o[i] = f(x.p[i * x.step], y.p[i * y.step], z.p[i * z.step]);
        }
      },
      a, b, c);
}

template <class E>
void run(TernaryOp op, const View& out, const View& a, const View& b, const View& c, E factor) {
  switch (op) {
    case TernaryOp::addcmul:
      return run<E>(out, a, b, c, [=](E x, E y, E z) { return x + factor * y * z; });
    case TernaryOp::addcdiv:
      return run<E>(out, a, b, c, [=](E x, E y, E z) { return x + factor * y / z; });
    case TernaryOp::lerp:
      return run<E>(out, a, b, c, [](E x, E y, E z) { return elements::lerp(x, y, z); });
    case TernaryOp::lerp_scalar:
      return run<E>(out, a, b, c, [=](E x, E y, E) { return elements::lerp(x, y, factor); });
  }
}

}  // namespace

void ternary(TernaryOp op, const View& out, const View& a, const View& b, const View& c,
             Scalar factor) {
  if (out.dtype == kFloat64)
    run(op, out, a, b, c, factor.cast<double>());
  else
    run(op, out, a, b, c, factor.cast<float>());
}

}  // namespace ferrite::kernels::cpu
