// Activations and their gradients.
#include <numbers>

#include "ferrite/kernels/cpu/blocks.h"
#include "ferrite/kernels/cpu/simd_math.h"
#include "ferrite/kernels/cpu/unary.h"

namespace ferrite::kernels::cpu {

namespace {

using simd::all;
using simd::expm1_to_1;
using simd::sigmoid;

constexpr double kGeluScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
constexpr double kGeluCubic = 0.044715;

template <class V>
V gelu_tanh_argument(const V& x) {
  return all<V>(kGeluScale) * (x + all<V>(kGeluCubic) * x * x * x);
}

/// The normal distribution function.
template <class V>
V normal_cdf(const V& x) {
  return all<V>(0.5) * (all<V>(1) + simd::erf(x * all<V>(1 / std::numbers::sqrt2)));
}

/// A block function of f(vector, a, b), the parameters as vectors.
template <class C, class F>
Block<C> block_of(F) {
  return [](C* out, const C* in, std::int64_t n, C a, C b) {
    using V = Vector<C>;
    simd::transform(
        out, n, [a = all<V>(a), b = all<V>(b)](const V& x) { return F()(x, a, b); }, in);
  };
}

/// x held between 0 and 6; NaN stays.
template <class V>
V clamped_to_6(const V& x) {
  const V y = x < V{} ? V{} : x;
  return all<V>(6) < y ? all<V>(6) : y;
}

/// tanh(softplus(x)) as part / whole, without a logarithm: with e = exp(x), it is e (e + 2) over
/// e (e + 2) + 2, and its derivative 4 e (1 + e) over the square of that. It is 1 beyond kOne.
template <class V>
struct MishTerms {
  static constexpr double kOne = 20;
  explicit MishTerms(const V& x)
      : saturated(all<V>(kOne) < x),
        e(simd::exp(saturated ? all<V>(kOne) : x)),
        part(e * (e + all<V>(2))),
        whole(part + all<V>(2)) {}
  decltype(V{} < V{}) saturated;
  V e, part, whole;
};

/// Piecewise activations, and mish.
template <class C>
Block<C> piecewise_block(UnaryOp op) {
  using V = Vector<C>;
  switch (op) {
    case UnaryOp::hardshrink:
      return block_of<C>([](const V& x, const V& limit, const V&) {
        return ((-limit <= x) & (x <= limit)) ? V{} : x;
      });
    case UnaryOp::softshrink:  // NaN stays
      return block_of<C>([](const V& x, const V& limit, const V&) {
        const V below = x < -limit ? x + limit : x * V{};
        return limit < x ? x - limit : below;
      });
    case UnaryOp::threshold:
      return block_of<C>(
          [](const V& x, const V& limit, const V& value) { return x <= limit ? value : x; });
    case UnaryOp::hardsigmoid:
      return block_of<C>(
          [](const V& x, const V&, const V&) { return clamped_to_6(x + all<V>(3)) / all<V>(6); });
    case UnaryOp::hardswish:
      return block_of<C>([](const V& x, const V&, const V&) {
        return x * clamped_to_6(x + all<V>(3)) / all<V>(6);
      });
    case UnaryOp::mish:
      return block_of<C>([](const V& x, const V&, const V&) {
        const MishTerms t(x);
        return x * (t.part / t.whole);
      });
    default:
      fail<DTypeError>("unary", "this operation does not work on {}", dtype_of<C>);
  }
}

}  // namespace

template <class C>
Block<C> activation_block(UnaryOp op) {
  using V = Vector<C>;
  switch (op) {
    case UnaryOp::relu:
      return block_of<C>([](const V& x, const V&, const V&) { return x < V{} ? V{} : x; });
    case UnaryOp::clamp:
      // NaN stays, as the comparisons do not hold.
      return block_of<C>([](const V& x, const V& low, const V& high) {
        const V y = x < low ? low : x;
        return high < y ? high : y;
      });
    case UnaryOp::sigmoid:
      return block_of<C>([](const V& x, const V&, const V&) { return sigmoid(x); });
    case UnaryOp::leaky_relu:
      return block_of<C>(
          [](const V& x, const V& slope, const V&) { return V{} < x ? x : x * slope; });
    case UnaryOp::elu:
      return block_of<C>(
          [](const V& x, const V& alpha, const V&) { return V{} < x ? x : alpha * expm1_to_1(x); });
    case UnaryOp::gelu:
      return block_of<C>([](const V& x, const V&, const V&) { return x * normal_cdf(x); });
    case UnaryOp::gelu_tanh:
      return block_of<C>([](const V& x, const V&, const V&) {
        return all<V>(0.5) * x * (all<V>(1) + simd::tanh(gelu_tanh_argument(x)));
      });
    case UnaryOp::silu:
      return block_of<C>([](const V& x, const V&, const V&) { return x * sigmoid(x); });
    case UnaryOp::softplus:
      return block_of<C>([](const V& x, const V& beta, const V& threshold) {
        const V z = x * beta;
        return threshold < z ? x : simd::softplus(z) / beta;
      });
    case UnaryOp::celu:
      return block_of<C>([](const V& x, const V& alpha, const V&) {
        return V{} < x ? x : alpha * simd::expm1(x / alpha);
      });
    case UnaryOp::selu:
      return block_of<C>([](const V& x, const V&, const V&) {
        return V{} < x ? x * all<V>(kSeluScale) : all<V>(kSeluScale * kSeluAlpha) * expm1_to_1(x);
      });
    default:
      return piecewise_block<C>(op);
  }
}

template Block<float> activation_block(UnaryOp op);
template Block<double> activation_block(UnaryOp op);

// ---- Gradients

namespace {

template <class C>
using BackwardBlock = void (*)(C* out, const C* grad, const C* saved, std::int64_t n, C a, C b);

/// A block function of f(grad, saved, a, b).
template <class C, class F>
BackwardBlock<C> backward_of(F) {
  return [](C* out, const C* grad, const C* saved, std::int64_t n, C a, C b) {
    using V = Vector<C>;
    simd::transform(
        out, n, [a = all<V>(a), b = all<V>(b)](const V& g, const V& x) { return F()(g, x, a, b); },
        grad, saved);
  };
}

template <class V>
V gelu_derivative(const V& x) {
  const V density = all<V>(kGeluScale / 2) * simd::exp(all<V>(-0.5) * x * x);
  return normal_cdf(x) + x * density;
}

template <class V>
V gelu_tanh_derivative(const V& x) {
  const V one = all<V>(1), half = all<V>(0.5);
  const V t = simd::tanh(gelu_tanh_argument(x));
  const V slope = all<V>(kGeluScale) * (one + all<V>(3 * kGeluCubic) * x * x);
  return half * (one + t) + half * x * (one - t * t) * slope;
}

template <class C>
BackwardBlock<C> piecewise_backward_block(UnaryOp op) {
  using V = Vector<C>;
  switch (op) {
    case UnaryOp::hardshrink:
    case UnaryOp::softshrink:
      return backward_of<C>([](const V& g, const V& x, const V& limit, const V&) {
        return ((-limit <= x) & (x <= limit)) ? V{} : g;
      });
    case UnaryOp::threshold:
      return backward_of<C>(
          [](const V& g, const V& x, const V& limit, const V&) { return x <= limit ? V{} : g; });
    case UnaryOp::hardsigmoid:
      return backward_of<C>([](const V& g, const V& x, const V&, const V&) {
        return ((all<V>(-3) < x) & (x < all<V>(3))) ? g / all<V>(6) : V{};
      });
    case UnaryOp::hardswish:
      return backward_of<C>([](const V& g, const V& x, const V&, const V&) {
        const V above = x < all<V>(3) ? g * (x / all<V>(3) + all<V>(0.5)) : g;
        return x <= all<V>(-3) ? V{} : above;
      });
    case UnaryOp::mish:
      return backward_of<C>([](const V& g, const V& x, const V&, const V&) {
        const MishTerms t(x);
        const V slope = all<V>(4) * t.e * (all<V>(1) + t.e) / (t.whole * t.whole);
        return g * (t.part / t.whole + (t.saturated ? V{} : x * slope));
      });
    default:
      fail<DTypeError>("unary_backward", "has no kernel for this operation");
  }
}

template <class C>
BackwardBlock<C> backward_block(UnaryOp op) {
  using V = Vector<C>;
  switch (op) {
    // A NaN that was saved lets the gradient through, as in PyTorch.
    case UnaryOp::relu:
      return backward_of<C>(
          [](const V& g, const V& x, const V&, const V&) { return x <= V{} ? V{} : g; });
    case UnaryOp::clamp:
      return backward_of<C>([](const V& g, const V& x, const V& low, const V& high) {
        return ((x <= low) | (high <= x) | (x != x)) ? V{} : g;
      });
    case UnaryOp::sigmoid:
      return backward_of<C>(
          [](const V& g, const V& y, const V&, const V&) { return g * y * (all<V>(1) - y); });
    case UnaryOp::tanh:
      return backward_of<C>(
          [](const V& g, const V& y, const V&, const V&) { return g * (all<V>(1) - y * y); });
    case UnaryOp::leaky_relu:
      return backward_of<C>(
          [](const V& g, const V& x, const V& slope, const V&) { return V{} < x ? g : g * slope; });
    case UnaryOp::elu:
      return backward_of<C>([](const V& g, const V& x, const V& alpha, const V&) {
        return x <= V{} ? g * alpha * simd::exp(x) : g;
      });
    case UnaryOp::gelu:
      return backward_of<C>(
          [](const V& g, const V& x, const V&, const V&) { return g * gelu_derivative(x); });
    case UnaryOp::gelu_tanh:
      return backward_of<C>(
          [](const V& g, const V& x, const V&, const V&) { return g * gelu_tanh_derivative(x); });
    case UnaryOp::silu:
      return backward_of<C>([](const V& g, const V& x, const V&, const V&) {
        const V s = sigmoid(x);
        return g * s * (all<V>(1) + x * (all<V>(1) - s));
      });
    case UnaryOp::softplus:
      return backward_of<C>([](const V& g, const V& x, const V& beta, const V& threshold) {
        const V z = x * beta;
        return threshold < z ? g : g * sigmoid(z);
      });
    case UnaryOp::celu:
      return backward_of<C>([](const V& g, const V& x, const V& alpha, const V&) {
        return x <= V{} ? g * simd::exp(x / alpha) : g;
      });
    case UnaryOp::selu:
      return backward_of<C>([](const V& g, const V& x, const V&, const V&) {
        return all<V>(kSeluScale) * g * (x <= V{} ? all<V>(kSeluAlpha) * simd::exp(x) : all<V>(1));
      });
    default:
      return piecewise_backward_block<C>(op);
  }
}

template <class F>
void run_backward(const View& out, const View& grad, const View& saved, const UnaryParams& p,
                  F&& block_for) {
  dispatch_floating(out.dtype, "unary_backward", [&]<class T>() {
    using C = Compute<T>;
    const BackwardBlock<C> block = block_for.template operator()<C>();
    map_blocks<T>(out, grad, saved,
                  [block, a = p.a.cast<C>(), b = p.b.cast<C>()](
                      C* o, const C* g, const C* x, std::int64_t n) { block(o, g, x, n, a, b); });
  });
}

}  // namespace

void unary_backward(UnaryOp op, const View& out, const View& grad, const View& saved,
                    const UnaryParams& p) {
  run_backward(out, grad, saved, p, [op]<class C>() { return backward_block<C>(op); });
}

}  // namespace ferrite::kernels::cpu
