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

/// tanh(softplus(x)), which is part / whole: with e = exp(x), e (e + 2) / (e (e + 2) + 2). It is 1
/// in double precision, too, where it is `saturated`, and the exponential's square is finite.
template <class C>
struct MishTerms {
  explicit __device__ __forceinline__ MishTerms(C x)
      : saturated(C(20) < x),
        e(std::exp(saturated ? C(20) : x)),
        part(e * (e + C(2))),
        whole(part + C(2)) {}
  bool saturated;
  C e, part, whole;
};

/// x held between 0 and 6; NaN stays.
template <class C>
__device__ __forceinline__ C clamped_to_6(C x) {
  const C y = x < 0 ? C(0) : x;
  return 6 < y ? C(6) : y;
}

template <class C>
__device__ __forceinline__ C piecewise(UnaryOp op, C x, C a, C b) {
  switch (op) {
    case UnaryOp::hardshrink:
      return -a <= x && x <= a ? C(0) : x;
    case UnaryOp::softshrink:  // NaN stays
      return a < x ? x - a : x < -a ? x + a : x * C(0);
    case UnaryOp::threshold:
      return x <= a ? b : x;
    case UnaryOp::hardsigmoid:
      return clamped_to_6(x + C(3)) / C(6);
    default:  // hardswish
      return x * clamped_to_6(x + C(3)) / C(6);
  }
}

template <class C>
__device__ __forceinline__ C piecewise_backward(UnaryOp op, C g, C x, C a) {
  switch (op) {
    case UnaryOp::hardshrink:
    case UnaryOp::softshrink:
      return -a <= x && x <= a ? C(0) : g;
    case UnaryOp::threshold:
      return x <= a ? C(0) : g;
    case UnaryOp::hardsigmoid:
      return -3 < x && x < 3 ? g / C(6) : C(0);
    default:  // hardswish
      return x <= -3 ? C(0) : x < 3 ? g * (x / C(3) + C(0.5)) : g;
  }
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
      case UnaryOp::softplus:
        return apply([beta = a, threshold = b](C x) {
          const C z = x * beta;
          return threshold < z ? x : std::log1p(std::exp(z)) / beta;
        });
      case UnaryOp::celu:
        return apply([alpha = a](C x) { return 0 < x ? x : alpha * std::expm1(x / alpha); });
      case UnaryOp::selu:
        return apply([](C x) {
          return 0 < x ? C(kSeluScale) * x : C(kSeluScale * kSeluAlpha) * std::expm1(x);
        });
      case UnaryOp::mish:
        return apply([](C x) {
          const MishTerms<C> t(x);
          return x * (t.part / t.whole);
        });
      default:
        return apply([op = op, a = a, b = b](C x) { return piecewise(op, x, a, b); });
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
      case UnaryOp::softplus:
        return apply([beta = a, threshold = b](C g, C x) {
          const C z = x * beta;
          return threshold < z ? g : g * sigmoid(z);
        });
      case UnaryOp::celu:
        return apply([alpha = a](C g, C x) { return x <= 0 ? g * std::exp(x / alpha) : g; });
      case UnaryOp::selu:
        return apply([](C g, C x) {
          return C(kSeluScale) * g * (x <= 0 ? C(kSeluAlpha) * std::exp(x) : C(1));
        });
      case UnaryOp::mish:
        return apply([](C g, C x) {
          const MishTerms<C> t(x);
          const C slope = C(4) * t.e * (C(1) + t.e) / (t.whole * t.whole);
          return g * (t.part / t.whole + (t.saturated ? C(0) : x * slope));
        });
      default:
        return apply([op = op, a = a](C g, C x) { return piecewise_backward(op, g, x, a); });
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
    map<T, T>(stream, "unary", Forward<T>{op, p.a.cast<C>(), p.b.cast<C>()}, out, in);
  });
}

void unary_backward(const Stream& stream, UnaryOp op, const View& out, const View& grad,
                    const View& saved, const UnaryParams& p) {
  if (!has_gradient(op)) fail<DTypeError>("unary_backward", "has no kernel for this operation");
  dispatch_floating(out.dtype, "unary_backward", [&]<class T>() {
    using C = Compute<T>;
    const Backward<T> f{op, p.a.cast<C>(), p.b.cast<C>()};
    map<T, T, T>(stream, "unary_backward", f, out, grad, saved);
  });
}

}  // namespace ferrite::kernels::cuda
