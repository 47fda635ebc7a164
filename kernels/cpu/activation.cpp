// Activations and their gradients.
#include <numbers>

#include "ferrite/kernels/cpu/blocks.h"
#include "ferrite/kernels/cpu/simd.h"
#include "ferrite/kernels/cpu/unary.h"

namespace ferrite::kernels::cpu {

namespace {

using simd::all;
using simd::less;
using simd::select;

template <class P>
P sigmoid(const P& x) {
  return all<P>(1) / (all<P>(1) + simd::exp(-x));
}

constexpr double kGeluScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
constexpr double kGeluCubic = 0.044715;

template <class P>
P gelu_tanh_argument(const P& x) {
  return all<P>(kGeluScale) * (x + all<P>(kGeluCubic) * x * x * x);
}

/// The normal distribution function.
template <class P>
P normal_cdf(const P& x) {
  return all<P>(0.5) * (all<P>(1) + simd::erf(x * all<P>(1 / std::numbers::sqrt2)));
}

/// A block function of f(packet, a, b), the parameters as packets.
template <class C, class F>
Block<C> block_of(F) {
  return [](C* out, const C* in, std::int64_t n, C a, C b) {
    using P = simd::Packet<C>;
    simd::transform(out, in, n,
                    [a = all<P>(a), b = all<P>(b)](const P& x) { return F()(x, a, b); });
  };
}

}  // namespace

template <class C>
Block<C> activation_block(UnaryOp op) {
  using P = simd::Packet<C>;
  switch (op) {
    case UnaryOp::relu:
      return block_of<C>(
          [](const P& x, const P&, const P&) { return select(less(x, all<P>(0)), all<P>(0), x); });
    case UnaryOp::clamp:
      // NaN stays, as the comparisons do not hold.
      return block_of<C>([](const P& x, const P& low, const P& high) {
        const P y = select(less(x, low), low, x);
        return select(less(high, y), high, y);
      });
    case UnaryOp::sigmoid:
      return block_of<C>([](const P& x, const P&, const P&) { return sigmoid(x); });
    case UnaryOp::leaky_relu:
      return block_of<C>([](const P& x, const P& slope, const P&) {
        return select(less(all<P>(0), x), x, x * slope);
      });
    case UnaryOp::elu:
      return block_of<C>([](const P& x, const P& alpha, const P&) {
        return select(less(all<P>(0), x), x, alpha * simd::expm1(x));
      });
    case UnaryOp::gelu:
      return block_of<C>([](const P& x, const P&, const P&) { return x * normal_cdf(x); });
    case UnaryOp::gelu_tanh:
      return block_of<C>([](const P& x, const P&, const P&) {
        return all<P>(0.5) * x * (all<P>(1) + simd::tanh(gelu_tanh_argument(x)));
      });
    case UnaryOp::silu:
      return block_of<C>([](const P& x, const P&, const P&) { return x * sigmoid(x); });
    case UnaryOp::softplus:
      return block_of<C>([](const P& x, const P& beta, const P& threshold) {
        const P z = x * beta;
        return select(less(threshold, z), x, simd::log1p(simd::exp(z)) / beta);
      });
    default:
      fail<DTypeError>("unary", "this operation does not work on {}", dtype_of<C>);
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
    using P = simd::Packet<C>;
    simd::transform(out, grad, saved, n, [a = all<P>(a), b = all<P>(b)](const P& g, const P& x) {
      return F()(g, x, a, b);
    });
  };
}

template <class P>
P gelu_derivative(const P& x) {
  const P density = all<P>(kGeluScale / 2) * simd::exp(all<P>(-0.5) * x * x);
  return normal_cdf(x) + x * density;
}

template <class P>
P gelu_tanh_derivative(const P& x) {
  const P one = all<P>(1), half = all<P>(0.5);
  const P t = simd::tanh(gelu_tanh_argument(x));
  const P slope = all<P>(kGeluScale) * (one + all<P>(3 * kGeluCubic) * x * x);
  return half * (one + t) + half * x * (one - t * t) * slope;
}

template <class C>
BackwardBlock<C> backward_block(UnaryOp op) {
  using P = simd::Packet<C>;
  switch (op) {
    // A NaN that was saved lets the gradient through, as in PyTorch.
    case UnaryOp::relu:
      return backward_of<C>([](const P& g, const P& x, const P&, const P&) {
        return select(simd::less_or_equal(x, all<P>(0)), all<P>(0), g);
      });
    case UnaryOp::clamp:
      return backward_of<C>([](const P& g, const P& x, const P& low, const P& high) {
        using simd::less_or_equal;
        const P zero = all<P>(0), above = select(less_or_equal(x, low), zero, g);
        return select(less_or_equal(x, x), select(less_or_equal(high, x), zero, above), zero);
      });
    case UnaryOp::sigmoid:
      return backward_of<C>(
          [](const P& g, const P& y, const P&, const P&) { return g * y * (all<P>(1) - y); });
    case UnaryOp::tanh:
      return backward_of<C>(
          [](const P& g, const P& y, const P&, const P&) { return g * (all<P>(1) - y * y); });
    case UnaryOp::leaky_relu:
      return backward_of<C>([](const P& g, const P& x, const P& slope, const P&) {
        return select(less(all<P>(0), x), g, g * slope);
      });
    case UnaryOp::elu:
      return backward_of<C>([](const P& g, const P& x, const P& alpha, const P&) {
        return select(simd::less_or_equal(x, all<P>(0)), g * alpha * simd::exp(x), g);
      });
    case UnaryOp::gelu:
      return backward_of<C>(
          [](const P& g, const P& x, const P&, const P&) { return g * gelu_derivative(x); });
    case UnaryOp::gelu_tanh:
      return backward_of<C>(
          [](const P& g, const P& x, const P&, const P&) { return g * gelu_tanh_derivative(x); });
    case UnaryOp::silu:
      return backward_of<C>([](const P& g, const P& x, const P&, const P&) {
        const P s = sigmoid(x);
        return g * s * (all<P>(1) + x * (all<P>(1) - s));
      });
    case UnaryOp::softplus:
      return backward_of<C>([](const P& g, const P& x, const P& beta, const P& threshold) {
        const P z = x * beta;
        return select(less(threshold, z), g, g * sigmoid(z));
      });
    default:
      fail<DTypeError>("unary_backward", "has no kernel for this operation");
  }
}

template <class F>
void run_backward(const View& out, const View& grad, const View& saved, const UnaryParams& p,
                  F&& block_for) {
  dispatch_floating(out.dtype, "unary_backward", [&]<class T>() {
    using C = Compute<T>;
    const BackwardBlock<C> block = block_for.template operator()<C>();
    map_blocks<T>(out, grad, saved,
                  [block, a = p.a.to<C>(), b = p.b.to<C>()](
                      C* o, const C* g, const C* x, std::int64_t n) { block(o, g, x, n, a, b); });
  });
}

}  // namespace

void unary_backward(UnaryOp op, const View& out, const View& grad, const View& saved,
                    const UnaryParams& p) {
  run_backward(out, grad, saved, p, [op]<class C>() { return backward_block<C>(op); });
}

}  // namespace ferrite::kernels::cpu
