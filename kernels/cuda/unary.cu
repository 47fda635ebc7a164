#include <cmath>

#include "ferrite/kernels/cuda/binary.h"
#include "ferrite/kernels/cuda/copy.h"
#include "ferrite/kernels/cuda/elementwise.cuh"
#include "ferrite/kernels/cuda/unary.h"
#include "ferrite/kernels/special_functions.h"

namespace ferrite::kernels::cuda {

namespace {

/// out[i] = f(in[i])
template <class Out, class In, int V, class F>
__device__ __forceinline__ void apply_pack(Pack<Out, V>& out, const Pack<In, V>& in, F f) {
#pragma unroll
  for (int i = 0; i < V; ++i) out.v[i] = static_cast<Out>(f(static_cast<Compute<In>>(in.v[i])));
}

template <class T>
struct SimpleFunction {
  using Packs = void;
  using C = Compute<T>;
  UnaryOp op;
  C a, b;

  template <int V>
  __device__ __forceinline__ void packs(Pack<T, V>& out, const Pack<T, V>& in) const {
    const auto apply = [&](auto f) { apply_pack(out, in, f); };
    switch (op) {
      case UnaryOp::neg:
        return apply([](C x) { return -x; });
      case UnaryOp::abs:
        return apply([](C x) { return std::abs(x); });
      case UnaryOp::sign:
        return apply([](C x) { return C(x > 0) - C(x < 0); });
      case UnaryOp::square:
        return apply([](C x) { return x * x; });
      case UnaryOp::relu:  // NaN stays
        return apply([](C x) { return x < 0 ? C(0) : x; });
      case UnaryOp::clamp:  // NaN stays
        return apply([low = a, high = b](C x) {
          const C y = x < low ? low : x;
          return high < y ? high : y;
        });
      case UnaryOp::floor:
        return apply([](C x) { return std::floor(x); });
      case UnaryOp::ceil:
        return apply([](C x) { return std::ceil(x); });
      case UnaryOp::round:
        return apply([](C x) { return std::nearbyint(x); });
      case UnaryOp::trunc:
        return apply([](C x) { return std::trunc(x); });
      case UnaryOp::sqrt:
        return apply([](C x) { return std::sqrt(x); });
      case UnaryOp::rsqrt:
        return apply([](C x) { return C(1) / std::sqrt(x); });
      case UnaryOp::reciprocal:
        return apply([](C x) { return C(1) / x; });
      default:  // leaky_relu
        return apply([slope = a](C x) { return 0 < x ? x : x * slope; });
    }
  }
};

/// On integers. Products and negatives wrap around.
template <class T>
struct IntegerFunction {
  using Packs = void;
  using U = std::uint64_t;
  UnaryOp op;
  T low, high;

  template <int V>
  __device__ __forceinline__ void packs(Pack<T, V>& out, const Pack<T, V>& in) const {
    const auto apply = [&](auto f) { apply_pack(out, in, f); };
    switch (op) {
      case UnaryOp::neg:
        return apply([](T x) { return T(0 - U(x)); });
      case UnaryOp::abs:
        return apply([](T x) { return is_negative(x) ? T(0 - U(x)) : x; });
      case UnaryOp::sign:
        return apply([](T x) { return T((x != 0) - 2 * is_negative(x)); });
      case UnaryOp::square:
        return apply([](T x) { return T(U(x) * U(x)); });
      case UnaryOp::relu:
        return apply([](T x) { return is_negative(x) ? T(0) : x; });
      default:  // clamp
        return apply([low = low, high = high](T x) {
          const T y = x < low ? low : x;
          return high < y ? high : y;
        });
    }
  }

 private:
  static __device__ bool is_negative(T x) {
    if constexpr (std::is_signed_v<T>) return x < 0;
    return false;
  }
};

/// Exponentials, logarithms, trigonometry.
template <class T>
struct Transcendental {
  using Packs = void;
  using Heavy = void;
  using C = Compute<T>;
  UnaryOp op;
  int order;  // of polygamma

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
      case UnaryOp::log10:
        return apply([](C x) { return std::log10(x); });
      case UnaryOp::erf:
        return apply([](C x) { return std::erf(x); });
      case UnaryOp::tanh:
        return apply([](C x) { return std::tanh(x); });
      default:
        return apply([op = op, order = order](C x) { return rare(op, x, order); });
    }
  }

 private:
  /// Not inlined, because these are long, as is the reduction of large arguments.
  [[gnu::noinline]] static __device__ C rare(UnaryOp op, C x, int order) {
    switch (op) {
      case UnaryOp::sin:
        return std::sin(x);
      case UnaryOp::cos:
        return std::cos(x);
      case UnaryOp::tan:
        return std::tan(x);
      case UnaryOp::asin:
        return std::asin(x);
      case UnaryOp::acos:
        return std::acos(x);
      case UnaryOp::atan:
        return std::atan(x);
      case UnaryOp::sinh:
        return std::sinh(x);
      case UnaryOp::cosh:
        return std::cosh(x);
      case UnaryOp::asinh:
        return std::asinh(x);
      case UnaryOp::acosh:
        return std::acosh(x);
      case UnaryOp::atanh:
        return std::atanh(x);
      case UnaryOp::erfinv:
        return special::erfinv(x);
      case UnaryOp::lgamma:
        return std::lgamma(x);
      case UnaryOp::polygamma:
        return special::polygamma(order, x);
      default:
        return std::erfc(x);
    }
  }
};

void transcendental(const Stream& stream, UnaryOp op, const View& out, const View& in, int order) {
  if (!is_floating(in.dtype))
    fail<DTypeError>("unary", "this operation does not work on {}", in.dtype);
  dispatch_floating(in.dtype, "unary", [&]<class T>() {
    map<T, T>(stream, "unary", Transcendental<T>{op, order}, out, in);
  });
}

void simple_unary(const Stream& stream, UnaryOp op, const View& out, const View& in,
                  const UnaryParams& p) {
  if (op > UnaryOp::clamp && !is_floating(in.dtype))
    fail<DTypeError>("unary", "this operation does not work on {}", in.dtype);
  dispatch_numeric(in.dtype, "unary", [&]<class T>() {
    if constexpr (is_floating_type<T>) {
      using C = Compute<T>;
      map<T, T>(stream, "unary", SimpleFunction<T>{op, p.a.cast<C>(), p.b.cast<C>()}, out, in);
    } else {
      const IntegerFunction<T> f{op, saturated<T>(p.a), saturated<T>(p.b)};
      map<T, T>(stream, "unary", f, out, in);
    }
  });
}

}  // namespace

void unary(const Stream& stream, UnaryOp op, const View& out, const View& in,
           const UnaryParams& p) {
  switch (op) {
    case UnaryOp::exp:
    case UnaryOp::exp2:
    case UnaryOp::expm1:
    case UnaryOp::log:
    case UnaryOp::log1p:
    case UnaryOp::log2:
    case UnaryOp::sin:
    case UnaryOp::cos:
    case UnaryOp::tan:
    case UnaryOp::asin:
    case UnaryOp::acos:
    case UnaryOp::atan:
    case UnaryOp::sinh:
    case UnaryOp::cosh:
    case UnaryOp::asinh:
    case UnaryOp::acosh:
    case UnaryOp::atanh:
    case UnaryOp::log10:
    case UnaryOp::erfc:
    case UnaryOp::erfinv:
    case UnaryOp::lgamma:
    case UnaryOp::polygamma:
    case UnaryOp::erf:
    case UnaryOp::tanh:
      return transcendental(stream, op, out, in, p.a.cast<int>());
    case UnaryOp::sigmoid:
    case UnaryOp::elu:
    case UnaryOp::gelu:
    case UnaryOp::gelu_tanh:
    case UnaryOp::silu:
    case UnaryOp::softplus:
    case UnaryOp::celu:
    case UnaryOp::selu:
    case UnaryOp::hardshrink:
    case UnaryOp::softshrink:
    case UnaryOp::threshold:
    case UnaryOp::hardsigmoid:
    case UnaryOp::hardswish:
    case UnaryOp::mish:
      return activation(stream, op, out, in, p);
    default:
      return simple_unary(stream, op, out, in, p);
  }
}

void predicate(const Stream& stream, Predicate op, const View& out, const View& in) {
  View none = in;
  none.data = nullptr;
  switch (op) {
    case Predicate::logical_not:
      return comparison(stream, Test::eq, out, in, none, ScalarRole::right, 0);
    case Predicate::isnan:
      return comparison(stream, Test::isnan, out, in, none, ScalarRole::right, 0);
    case Predicate::isinf:
      return comparison(stream, Test::isinf, out, in, none, ScalarRole::right, 0);
    case Predicate::signbit:
      return comparison(stream, Test::signbit, out, in, none, ScalarRole::right, 0);
    case Predicate::isfinite:
      return comparison(stream, Test::isfinite, out, in, none, ScalarRole::right, 0);
  }
}

}  // namespace ferrite::kernels::cuda
