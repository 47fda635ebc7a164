#include "ferrite/kernels/cuda/elementwise.cuh"
#include "ferrite/kernels/element_arithmetic.h"
#include "ferrite/kernels/ternary.h"

namespace ferrite::kernels::cuda {

namespace {

template <class C>
struct Ternary {
  TernaryOp op;
  C factor;

  __device__ C operator()(C a, C b, C c) const {
    switch (op) {
      case TernaryOp::addcmul:
        return a + factor * b * c;
      case TernaryOp::addcdiv:
        return a + factor * b / c;
      case TernaryOp::lerp:
        return elements::lerp(a, b, c);
      default:
        return elements::lerp(a, b, factor);
    }
  }
};

}  // namespace

void ternary(const Stream& stream, TernaryOp op, const View& out, const View& a, const View& b,
             const View& c, Scalar factor) {
  dispatch_floating(out.dtype, "ternary", [&]<class T>() {
    using C = Compute<T>;
    map<T, T, T, T>(stream, "ternary", Ternary<C>{op, factor.cast<C>()}, out, a, b, c);
  });
}

}  // namespace ferrite::kernels::cuda
