#include "ferrite/ops/unary.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/activation_gradient.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/complex_parts.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/unary_op.h"

namespace ferrite {

using ops::composite;
using ops::composite_;
using ops::Keeps;
using ops::Takes;
using ops::UnaryOp;

namespace {

using T = const Tensor&;

// ---- The table of functions

/// A function that a kernel computes, and its gradient from the tensor that `keeps` names.
struct Function {
  const char* name;
  const char* inplace;
  UnaryOp op;
  Takes takes;
  Keeps keeps;
  Tensor (*gradient)(T grad, T kept);
  std::optional<AutocastOp> cast = {};
};

Tensor run(const Function& f, T x) {
  if (f.cast)
    if (const auto cast = ops::autocast(*f.cast, x)) return run(f, *cast);
  return ops::unary(x, f.name, f.op, f.takes, f.keeps, f.gradient);
}
const Tensor& run_(const Function& f, T self) {
  return ops::unary_(self, f.inplace, f.op, f.takes, f.keeps, f.gradient);
}

constexpr Function kNeg{"neg",          "neg_",         UnaryOp::neg,
                        Takes::complex, Keeps::nothing, [](T grad, T) { return neg(grad); }};
constexpr Function kAbs{"abs",          "abs_",       UnaryOp::abs,
                        Takes::numeric, Keeps::input, [](T grad, T x) { return grad * sign(x); }};
constexpr Function kSquare{"square",       "square_",    UnaryOp::square,
                           Takes::numeric, Keeps::input, [](T grad, T x) { return grad * x * 2; }};

// Exponentials and logarithms
constexpr Function kExp{"exp",           "exp_",        UnaryOp::exp,
                        Takes::floating, Keeps::output, [](T grad, T x) { return grad * x; },
                        AutocastOp::exp};
constexpr Function kExp2{"exp2",         "exp2_",
                         UnaryOp::exp2,  Takes::floating,
                         Keeps::output,  [](T grad, T x) { return grad * x * std::numbers::ln2; },
                         AutocastOp::exp};
constexpr Function kExpm1{"expm1",        "expm1_",
                          UnaryOp::expm1, Takes::floating,
                          Keeps::output,  [](T grad, T x) { return grad * (x + 1); },
                          AutocastOp::exp};
constexpr Function kLog{"log",           "log_",       UnaryOp::log,
                        Takes::floating, Keeps::input, [](T grad, T x) { return grad / x; },
                        AutocastOp::log};
constexpr Function kLog1p{"log1p",         "log1p_",     UnaryOp::log1p,
                          Takes::floating, Keeps::input, [](T grad, T x) { return grad / (x + 1); },
                          AutocastOp::log};
constexpr Function kLog2{"log2",         "log2_",
                         UnaryOp::log2,  Takes::floating,
                         Keeps::input,   [](T grad, T x) { return grad / (x * std::numbers::ln2); },
                         AutocastOp::log};
constexpr Function kLog10{
    "log10",         "log10_",     UnaryOp::log10,
    Takes::floating, Keeps::input, [](T grad, T x) { return grad / (x * std::numbers::ln10); },
    AutocastOp::log};

// Roots and reciprocals
constexpr Function kSqrt{"sqrt",        "sqrt_",
                         UnaryOp::sqrt, Takes::floating,
                         Keeps::output, [](T grad, T x) { return grad / (x * 2); }};
constexpr Function kRsqrt{"rsqrt",          "rsqrt_",
                          UnaryOp::rsqrt,   Takes::floating,
                          Keeps::output,    [](T grad, T x) { return grad * -0.5 * x * x * x; },
                          AutocastOp::rsqrt};
constexpr Function kReciprocal{
    "reciprocal",          "reciprocal_", UnaryOp::reciprocal,
    Takes::floating,       Keeps::output, [](T grad, T x) { return neg(grad * (x * x)); },
    AutocastOp::reciprocal};

// Trigonometry
constexpr Function kSin{"sin",           "sin_",       UnaryOp::sin,
                        Takes::floating, Keeps::input, [](T grad, T x) { return grad * cos(x); }};
constexpr Function kCos{"cos",        "cos_",
                        UnaryOp::cos, Takes::floating,
                        Keeps::input, [](T grad, T x) { return neg(grad * sin(x)); }};
constexpr Function kTan{"tan",          "tan_",
                        UnaryOp::tan,   Takes::floating,
                        Keeps::output,  [](T grad, T x) { return grad * (x * x + 1); },
                        AutocastOp::tan};
constexpr Function kAsin{"asin",         "asin_",
                         UnaryOp::asin,  Takes::floating,
                         Keeps::input,   [](T grad, T x) { return grad * rsqrt(1 - x * x); },
                         AutocastOp::tan};
constexpr Function kAcos{"acos",         "acos_",
                         UnaryOp::acos,  Takes::floating,
                         Keeps::input,   [](T grad, T x) { return neg(grad * rsqrt(1 - x * x)); },
                         AutocastOp::tan};
constexpr Function kAtan{"atan",        "atan_",
                         UnaryOp::atan, Takes::floating,
                         Keeps::input,  [](T grad, T x) { return grad / (x * x + 1); }};

// Hyperbolic functions
constexpr Function kSinh{"sinh",          "sinh_",      UnaryOp::sinh,
                         Takes::floating, Keeps::input, [](T grad, T x) { return grad * cosh(x); },
                         AutocastOp::tan};
constexpr Function kCosh{"cosh",          "cosh_",      UnaryOp::cosh,
                         Takes::floating, Keeps::input, [](T grad, T x) { return grad * sinh(x); },
                         AutocastOp::tan};
constexpr Function kAsinh{"asinh",        "asinh_",
                          UnaryOp::asinh, Takes::floating,
                          Keeps::input,   [](T grad, T x) { return grad * rsqrt(x * x + 1); }};
constexpr Function kAcosh{
    "acosh",         "acosh_",     UnaryOp::acosh,
    Takes::floating, Keeps::input, [](T grad, T x) { return grad * rsqrt((x - 1) * (x + 1)); }};
constexpr Function kAtanh{"atanh",        "atanh_",
                          UnaryOp::atanh, Takes::floating,
                          Keeps::input,   [](T grad, T x) { return grad / (1 - x * x); }};

// Error functions
constexpr Function kErf{
    "erf", "erf_", UnaryOp::erf, Takes::floating, Keeps::input, [](T grad, T x) {
      return grad * exp(neg(square(x))) * (2 * std::numbers::inv_sqrtpi);
    }};
constexpr Function kErfc{
    "erfc", "erfc_", UnaryOp::erfc, Takes::floating, Keeps::input, [](T grad, T x) {
      return grad * exp(neg(square(x))) * (-2 * std::numbers::inv_sqrtpi);
    }};

// Piecewise constant. Rounding leaves integers as they are, and sign leaves bool.
constexpr auto kZero = [](T grad, T) { return zeros_like(grad); };
constexpr Function kSign{"sign", "sign_", UnaryOp::sign, Takes::numeric, Keeps::nothing, kZero};
constexpr Function kFloor{"floor",         "floor_",       UnaryOp::floor,
                          Takes::floating, Keeps::nothing, kZero};
constexpr Function kCeil{"ceil", "ceil_", UnaryOp::ceil, Takes::floating, Keeps::nothing, kZero};
constexpr Function kRound{"round",         "round_",       UnaryOp::round,
                          Takes::floating, Keeps::nothing, kZero};
constexpr Function kTrunc{"trunc",         "trunc_",       UnaryOp::trunc,
                          Takes::floating, Keeps::nothing, kZero};

bool is_complex_tensor(T x) { return x.defined() && x.is_complex(); }

bool is_bool(T x) { return x.defined() && x.dtype() == kBool; }

Tensor rounded(const Function& f, T x) {
  if (ops::checked_dtype(x, f.name, Takes::numeric); !is_floating(x.dtype())) return x.clone();
  return run(f, x);
}
const Tensor& rounded_(const Function& f, T self) {
  if (ops::checked_dtype(self, f.inplace, Takes::numeric); !is_floating(self.dtype())) return self;
  return run_(f, self);
}

}  // namespace

Tensor neg(T x) { return run(kNeg, x); }
const Tensor& neg_(T self) { return run_(kNeg, self); }
Tensor abs(T x) {
  if (is_complex_tensor(x)) return ops::complex_abs(x);
  return run(kAbs, x);
}
const Tensor& abs_(T self) { return run_(kAbs, self); }
Tensor exp(T x) {
  if (is_complex_tensor(x)) return ops::complex_exp(x);
  return run(kExp, x);
}
const Tensor& exp_(T self) { return run_(kExp, self); }
Tensor exp2(T x) { return run(kExp2, x); }
const Tensor& exp2_(T self) { return run_(kExp2, self); }
Tensor expm1(T x) { return run(kExpm1, x); }
const Tensor& expm1_(T self) { return run_(kExpm1, self); }
Tensor log(T x) { return run(kLog, x); }
const Tensor& log_(T self) { return run_(kLog, self); }
Tensor log1p(T x) { return run(kLog1p, x); }
const Tensor& log1p_(T self) { return run_(kLog1p, self); }
Tensor log2(T x) { return run(kLog2, x); }
const Tensor& log2_(T self) { return run_(kLog2, self); }
Tensor log10(T x) { return run(kLog10, x); }
const Tensor& log10_(T self) { return run_(kLog10, self); }
Tensor sqrt(T x) { return run(kSqrt, x); }
const Tensor& sqrt_(T self) { return run_(kSqrt, self); }
Tensor rsqrt(T x) { return run(kRsqrt, x); }
const Tensor& rsqrt_(T self) { return run_(kRsqrt, self); }
Tensor reciprocal(T x) {
  if (is_complex_tensor(x)) return div(1, x);
  return run(kReciprocal, x);
}
const Tensor& reciprocal_(T self) { return run_(kReciprocal, self); }
Tensor sin(T x) { return run(kSin, x); }
const Tensor& sin_(T self) { return run_(kSin, self); }
Tensor cos(T x) { return run(kCos, x); }
const Tensor& cos_(T self) { return run_(kCos, self); }
Tensor tan(T x) { return run(kTan, x); }
const Tensor& tan_(T self) { return run_(kTan, self); }
Tensor asin(T x) { return run(kAsin, x); }
const Tensor& asin_(T self) { return run_(kAsin, self); }
Tensor acos(T x) { return run(kAcos, x); }
const Tensor& acos_(T self) { return run_(kAcos, self); }
Tensor atan(T x) { return run(kAtan, x); }
const Tensor& atan_(T self) { return run_(kAtan, self); }
Tensor sinh(T x) { return run(kSinh, x); }
const Tensor& sinh_(T self) { return run_(kSinh, self); }
Tensor cosh(T x) { return run(kCosh, x); }
const Tensor& cosh_(T self) { return run_(kCosh, self); }
Tensor asinh(T x) { return run(kAsinh, x); }
const Tensor& asinh_(T self) { return run_(kAsinh, self); }
Tensor acosh(T x) { return run(kAcosh, x); }
const Tensor& acosh_(T self) { return run_(kAcosh, self); }
Tensor atanh(T x) { return run(kAtanh, x); }
const Tensor& atanh_(T self) { return run_(kAtanh, self); }
Tensor erf(T x) { return run(kErf, x); }
const Tensor& erf_(T self) { return run_(kErf, self); }
Tensor erfc(T x) { return run(kErfc, x); }
const Tensor& erfc_(T self) { return run_(kErfc, self); }

Tensor square(T x) {
  if (is_complex_tensor(x)) return mul(x, x);
  return is_bool(x) ? x.to(kInt64) : run(kSquare, x);
}
const Tensor& square_(T self) { return run_(kSquare, self); }
Tensor sign(T x) { return is_bool(x) ? x.clone() : run(kSign, x); }
const Tensor& sign_(T self) {
  if (!is_bool(self)) return run_(kSign, self);
  autograd::check_inplace(self, "sign_");
  return self;
}
Tensor floor(T x) { return rounded(kFloor, x); }
Tensor ceil(T x) { return rounded(kCeil, x); }
Tensor round(T x) { return rounded(kRound, x); }
Tensor trunc(T x) { return rounded(kTrunc, x); }
const Tensor& floor_(T self) { return rounded_(kFloor, self); }
const Tensor& ceil_(T self) { return rounded_(kCeil, self); }
const Tensor& round_(T self) { return rounded_(kRound, self); }
const Tensor& trunc_(T self) { return rounded_(kTrunc, self); }

// ---- Functions made of others

namespace {

/// `x`, or the floating tensor that integers and bool become.
Tensor floating(T x) { return x.to(ops::floating_type(x.dtype())); }

Tensor fraction(T x) {
  ops::checked_dtype(x, "frac", Takes::numeric);
  FERRITE_CHECK(is_floating(x.dtype()), DTypeError, "frac", "expected a floating type, got {}",
                x.dtype());
  return x - trunc(x);
}

/// Outside of [eps, 1 - eps] the slope is 0; without an eps it is NaN outside of [0, 1].
Tensor log_odds(T x, std::optional<double> eps) {
  Tensor out = no_grad([&] {
    const Tensor held = eps ? clamp(x, *eps, 1 - *eps) : x;
    return log(held) - log1p(neg(held));
  });
  if (autograd::recording(x))
    autograd::record(out, "logit", {x}, [x = ops::Saved(x), eps](T grad, ops::Needs) {
      const Tensor p = x.get(), low = lt(p, eps.value_or(0)), high = gt(p, 1 - eps.value_or(0));
      return where(logical_or(low, high), eps ? 0 : std::nan(""), grad / (p * (1 - p)));
    });
  return out;
}

Tensor checked_log_odds(T x, std::optional<double> eps) {
  FERRITE_CHECK(!eps || (*eps >= 0 && *eps <= 0.5), ValueError, "logit",
                "expected an eps from 0 to 0.5, got {}", *eps);
  return ops::computed_in(
      ops::floating_type(x.dtype()), [&](T p) { return log_odds(p, eps); }, x);
}

/// The largest finite number of a floating type.
double largest(DType dtype) {
  switch (dtype) {
    case kFloat16:
      return 65504;
    case kBFloat16:
      return 0x1.fep127;
    case kFloat32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

Tensor numbers(T x, double nan, std::optional<double> inf, std::optional<double> minus_inf) {
  if (x.is_complex()) return ops::by_parts(x, [&](T t) { return numbers(t, nan, inf, minus_inf); });
  if (!is_floating(x.dtype())) return x.clone();
  const double most = largest(x.dtype());
  const Tensor finite =
      where(gt(x, most), inf.value_or(most), where(lt(x, -most), minus_inf.value_or(-most), x));
  return where(isnan(x), nan, finite);
}

/// The derivative of sin(pi x) / (pi x); near 0, where the quotient's terms cancel, by its series:
/// pi times the sum of (-1)^n 2n / (2n + 1)! (pi x)^(2n - 1), to float64's last digit.
Tensor sinc_gradient(T grad, T x) {
  constexpr double kTerms[] = {-1.0 / 3,       1.0 / 30,        -1.0 / 840,          1.0 / 45360,
                               -1.0 / 3991680, 1.0 / 518918400, -1.0 / 93405312000.0};
  const Tensor at = x * std::numbers::pi, near = le(abs(at), 0.5);
  const Tensor small = where(near, at, 0), squares = square(small), far = where(near, 1, at);
  Tensor series = squares * kTerms[6] + kTerms[5];
  for (int n = 4; n >= 0; --n) series = series * squares + kTerms[n];
  const Tensor slope = (far * cos(far) - sin(far)) / (far * where(near, 1, x));
  return grad * where(near, series * small * std::numbers::pi, slope);
}

}  // namespace

Tensor frac(T x) {
  return composite(
      "frac", [&] { return fraction(x); }, x);
}
const Tensor& frac_(T self) { return composite_("frac_", self, fraction); }

Tensor logit(T x, std::optional<double> eps) {
  return composite(
      "logit", [&] { return checked_log_odds(x, eps); }, x);
}
const Tensor& logit_(T self, std::optional<double> eps) {
  return composite_("logit_", self, [&](T x) { return checked_log_odds(x, eps); });
}

Tensor nan_to_num(T x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  return composite(
      "nan_to_num", [&] { return numbers(x, nan, posinf, neginf); }, x);
}
const Tensor& nan_to_num_(T self, double nan, std::optional<double> posinf,
                          std::optional<double> neginf) {
  return composite_("nan_to_num_", self, [&](T x) { return numbers(x, nan, posinf, neginf); });
}

Tensor logsigmoid(T x) {
  // softplus() of beta -1. Beyond the threshold it equals x to the last bit, also in float64.
  constexpr double kBeta = -1, kThreshold = 50;
  return ops::unary(
      x, "logsigmoid", UnaryOp::softplus, Takes::floating, Keeps::input,
      [](T grad, T kept) { return ops::softplus_gradient(grad, kept, kBeta, kThreshold); },
      {kBeta, kThreshold});
}

namespace {

Tensor sine_over_angle(T x) {
  Tensor out = no_grad([&] {
    const Tensor at = x * std::numbers::pi;
    return where(eq(x, 0), 1, sin(at) / at);
  });
  if (autograd::recording(x))
    autograd::record(out, "sinc", {x}, [x = ops::Saved(x)](T grad, ops::Needs) {
      return sinc_gradient(grad, x.get());
    });
  return out;
}

}  // namespace

Tensor sinc(T x) {
  return composite(
      "sinc", [&] { return ops::computed_in(ops::floating_type(x.dtype()), sine_over_angle, x); },
      x);
}
const Tensor& sinc_(T self) { return composite_("sinc_", self, sinc); }

Tensor deg2rad(T x) {
  return composite(
      "deg2rad", [&] { return floating(x) * (std::numbers::pi / 180); }, x);
}
const Tensor& deg2rad_(T self) { return composite_("deg2rad_", self, deg2rad); }
Tensor rad2deg(T x) {
  return composite(
      "rad2deg", [&] { return floating(x) * (180 / std::numbers::pi); }, x);
}
const Tensor& rad2deg_(T self) { return composite_("rad2deg_", self, rad2deg); }

Tensor sgn(T x) { return is_complex_tensor(x) ? ops::complex_sgn(x) : sign(x); }

Tensor positive(T x) {
  ops::checked_dtype(x, "positive", Takes::complex);
  return x;
}

// ---- Predicates

namespace {

Tensor predicate(T x, const char* name, kernels::Predicate op) {
  if (tracing::on()) return tracing::op(name, {x}, {}, [&] { return predicate(x, name, op); });
  const profiler::OpRange range(name, x);
  ops::check_defined(x, name);
  if (x.is_complex() && op <= kernels::Predicate::isfinite) {
    const Tensor re = predicate(real(x), name, op), im = predicate(imag(x), name, op);
    return op == kernels::Predicate::isfinite ? logical_and(re, im) : logical_or(re, im);
  }
  Tensor out =
      empty(x.shape(),
            {.dtype = kBool, .device = x.device(), .memory_format = x.suggest_memory_format()});
  kernels::predicate(current_stream(out.device()), op, out, x);
  return out;
}

}  // namespace

Tensor isnan(T x) { return predicate(x, "isnan", kernels::Predicate::isnan); }
Tensor isinf(T x) { return predicate(x, "isinf", kernels::Predicate::isinf); }
Tensor isfinite(T x) { return predicate(x, "isfinite", kernels::Predicate::isfinite); }
Tensor logical_not(T x) { return predicate(x, "logical_not", kernels::Predicate::logical_not); }
Tensor signbit(T x) { return predicate(x, "signbit", kernels::Predicate::signbit); }

}  // namespace ferrite
