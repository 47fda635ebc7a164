#include <cmath>

#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/unary.h"

namespace ferrite::kernels::cuda {

namespace {

template <class T>
struct Transcendental {
  using Packs = void;
  using Heavy = void;
  using C = Compute<T>;
  UnaryOp op;

  template <int V>
  __device__ __forceinline__ void packs(Pack<T, V>& out, const Pack<T, V>& in) const {
    const auto apply = [&](auto f) {
#pragma unroll
      for (int i = 0; i < V; ++i) out.v[i] = static_cast<T>(f(static_cast<C>(in.v[i])));
    };
    switch (op) {
      case UnaryOp::exp:
        return apply([](C x) { return std::exp(x); });
      case UnaryOp::exp2:
        return apply([](C x) { return std::exp2(x); });
      case UnaryOp::expm1:
        return apply([](C x) { return std::expm1(x); });
      case UnaryOp::log:
        return apply([](C x) { return std::log(x); });
      case UnaryOp::log1p:
        return apply([](C x) { return std::log1p(x); });
      case UnaryOp::log2:
        return apply([](C x) { return std::log2(x); });
      case UnaryOp::erf:
        return apply([](C x) { return std::erf(x); });
      case UnaryOp::tanh:
        return apply([](C x) { return std::tanh(x); });
      default:
        return apply([op = op](C x) { return trigonometric(op, x); });
    }
  }

 private:
  /// Not inlined: the reduction of large arguments is long.
  [[gnu::noinline]] static __device__ C trigonometric(UnaryOp op, C x) {
    return op == UnaryOp::sin ? std::sin(x) : op == UnaryOp::cos ? std::cos(x) : std::tan(x);
  }
};

}  // namespace

void transcendental(const Stream& stream, UnaryOp op, const View& out, const View& in) {
  if (!is_floating(in.dtype))
    fail<DTypeError>("unary", "this operation does not work on {}", in.dtype);
  dispatch_floating(in.dtype, "unary",
                    [&]<class T>() { map<T, T>(stream, "unary", Transcendental<T>{op}, out, in); });
}

}  // namespace ferrite::kernels::cuda
