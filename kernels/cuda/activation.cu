// Activations and their gradients.
#include "ferrite/kernels/cuda/activation.cuh"
#include "ferrite/kernels/cuda/elementwise.cuh"
#include "ferrite/kernels/cuda/unary.h"

namespace ferrite::kernels::cuda {

namespace {

template <class C>
__device__ __forceinline__ C sigmoid(C x) {
  return C(1) / (C(1) + std::exp(-x));
}

template <class T>
struct Forward {
  using Packs = void;
  using Heavy = void;
  using C = Compute<T>;
  UnaryOp op;
  C a, b;

  template <int V>
  __device__ __forceinline__ void packs(Pack<T, V>& out, const Pack<T, V>& in) const {
    const auto apply = [&](auto f) {
#pragma unroll
      for (int i = 0; i < V; ++i) out.v[i] = static_cast<T>(f(static_cast<C>(in.v[i])));
    };
    switch (op) {
      case UnaryOp::sigmoid:
        return apply([](C x) { return sigmoid(x); });
      case UnaryOp::elu:
        return apply([alpha = a](C x) { return 0 < x ? x : alpha * std::expm1(x); });
      case UnaryOp::gelu:
        return apply([](C x) { return gelu(x); });
      case UnaryOp::gelu_tanh:
        return apply([](C x) { return gelu_tanh(x); });
      case UnaryOp::silu:
        return apply([](C x) { return x * sigmoid(x); });
      default:  // softplus
        return apply([beta = a, threshold = b](C x) {
          const C z = x * beta;
          return threshold < z ? x : std::log1p(std::exp(z)) / beta;
        });
    }
  }
};

template <class C>
__device__ __forceinline__ C gelu_derivative(C x) {
  const C density = C(kGeluScale / 2) * std::exp(C(-0.5) * x * x);
  return normal_cdf(x) + x * density;
}

template <class C>
__device__ __forceinline__ C gelu_tanh_derivative(C x) {
  const C t = std::tanh(gelu_tanh_argument(x));
  const C slope = C(kGeluScale) * (C(1) + C(3 * kGeluCubic) * x * x);
  return C(0.5) * (C(1) + t) + C(0.5) * x * (C(1) - t * t) * slope;
}

template <class T>
struct Backward {
  using Packs = void;
  using Heavy = void;
  using C = Compute<T>;
  UnaryOp op;
  C a, b;

  template <int V>
  __device__ __forceinline__ void packs(Pack<T, V>& out, const Pack<T, V>& grad,
                                        const Pack<T, V>& saved) const {
    const auto apply = [&](auto f) {
#pragma unroll
      for (int i = 0; i < V; ++i)
        out.v[i] = static_cast<T>(f(static_cast<C>(grad.v[i]), static_cast<C>(saved.v[i])));
    };
    switch (op) {
      case UnaryOp::relu:  // a NaN that was saved lets the gradient through
        return apply([](C g, C x) { return x <= 0 ? C(0) : g; });
      case UnaryOp::clamp:  // 0 at the bounds and at NaN; a bound may be NaN
        return apply(
            [low = a, high = b](C g, C x) { return x != x || x <= low || high <= x ? C(0) : g; });
      case UnaryOp::sigmoid:
        return apply([](C g, C y) { return g * y * (C(1) - y); });
      case UnaryOp::tanh:
        return apply([](C g, C y) { return g * (C(1) - y * y); });
      case UnaryOp::leaky_relu:
        return apply([slope = a](C g, C x) { return 0 < x ? g : g * slope; });
      case UnaryOp::elu:
        return apply([alpha = a](C g, C x) { return x <= 0 ? g * alpha * std::exp(x) : g; });
      case UnaryOp::gelu:
        return apply([](C g, C x) { return g * gelu_derivative(x); });
      case UnaryOp::gelu_tanh:
        return apply([](C g, C x) { return g * gelu_tanh_derivative(x); });
      case UnaryOp::silu:
        return apply([](C g, C x) {
          const C s = sigmoid(x);
          return g * s * (C(1) + x * (C(1) - s));
        });
      default:  // softplus
        return apply([beta = a, threshold = b](C g, C x) {
          const C z = x * beta;
          return threshold < z ? g : g * sigmoid(z);
        });
    }
  }
};

constexpr bool has_gradient(UnaryOp op) {
  return op == UnaryOp::relu || op == UnaryOp::clamp || op >= UnaryOp::tanh;
}

}  // namespace

void activation(const Stream& stream, UnaryOp op, const View& out, const View& in,
                const UnaryParams& p) {
  if (!is_floating(in.dtype))
    fail<DTypeError>("unary", "this operation does not work on {}", in.dtype);
  dispatch_floating(in.dtype, "unary", [&]<class T>() {
    using C = Compute<T>;
    map<T, T>(stream, "unary", Forward<T>{op, p.a.to<C>(), p.b.to<C>()}, out, in);
  });
}

void unary_backward(const Stream& stream, UnaryOp op, const View& out, const View& grad,
                    const View& saved, const UnaryParams& p) {
  if (!has_gradient(op)) fail<DTypeError>("unary_backward", "has no kernel for this operation");
  dispatch_floating(out.dtype, "unary_backward", [&]<class T>() {
    using C = Compute<T>;
    const Backward<T> f{op, p.a.to<C>(), p.b.to<C>()};
    map<T, T, T>(stream, "unary_backward", f, out, grad, saved);
  });
}

}  // namespace ferrite::kernels::cuda
