// Activations of pieces, those related to elu, and those made of other operations.
#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/kernels/unary.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/activation_gradient.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/promotion.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/unary_op.h"

namespace ferrite {

using ops::Keeps;
using ops::Takes;
using ops::UnaryOp;
using ops::UnaryParams;

// ---- With kernels of their own

namespace {

/// An activation whose gradient is grad * slope(x); `slope` is made of differentiable ops.
template <class Slope>
struct Kind {
  UnaryOp op;
  UnaryParams p;
  Slope slope;

  auto gradient() const {
    return [*this](const Tensor& grad, const Tensor& x) {
      return ops::fused_gradient(op, grad, x, p, [&] { return grad * slope(x); });
    };
  }
  Tensor operator()(const Tensor& x, const char* name) const {
    return ops::unary(x, name, op, Takes::floating, Keeps::input, gradient(), p);
  }
  const Tensor& inplace(const Tensor& self, const char* name) const {
    return ops::unary_(self, name, op, Takes::floating, Keeps::input, gradient(), p);
  }
};
template <class Slope>
Kind(UnaryOp, UnaryParams, Slope) -> Kind<Slope>;

/// 1 where `mask` is true, else 0, for a product with tensors like `x`.
Tensor mask_like(const Tensor& mask, const Tensor& x) { return mask.to(x.dtype()); }

/// exp(x) where x <= 0, and `above` elsewhere.
Tensor exp_below_0(const Tensor& x, Scalar above) {
  // Clamped, because the exponential of the branch not taken must stay finite.
  return where(le(x, 0), exp(clamp_max(x, 0)), above);
}

auto celu_kind(double alpha, const char* op) {
  FERRITE_CHECK(alpha != 0, ValueError, op, "alpha must not be 0");
  return Kind{UnaryOp::celu, {alpha}, [alpha](const Tensor& x) {
                return where(le(x, 0), exp(where(le(x, 0), x / alpha, 0)), 1);
              }};
}

const Kind selu_kind{UnaryOp::selu, {}, [](const Tensor& x) {
                       return exp_below_0(x, 1 / kernels::kSeluAlpha) *
                              (kernels::kSeluScale * kernels::kSeluAlpha);
                     }};

const Kind hardsigmoid_kind{UnaryOp::hardsigmoid, {}, [](const Tensor& x) {
                              return mask_like(logical_and(gt(x, -3), lt(x, 3)), x) / 6;
                            }};

const Kind hardswish_kind{UnaryOp::hardswish, {}, [](const Tensor& x) {
                            return where(le(x, -3), 0, where(lt(x, 3), x / 3 + 0.5, 1));
                          }};

const Kind mish_kind{UnaryOp::mish, {}, [](const Tensor& x) {
                       const Tensor t = tanh(softplus(x));
                       return t + x * sigmoid(x) * (1 - square(t));
                     }};

auto shrink_kind(UnaryOp op, double lambda) {
  return Kind{op, {lambda}, [lambda](const Tensor& x) {
                return mask_like(
                    logical_or(logical_not(ge(x, -lambda)), logical_not(le(x, lambda))), x);
              }};
}

auto threshold_kind(double threshold, double value) {
  return Kind{UnaryOp::threshold, {threshold, value}, [threshold](const Tensor& x) {
                return mask_like(logical_not(le(x, threshold)), x);
              }};
}

}  // namespace

Tensor celu(const Tensor& x, double alpha) { return celu_kind(alpha, "celu")(x, "celu"); }
const Tensor& celu_(const Tensor& self, double alpha) {
  return celu_kind(alpha, "celu_").inplace(self, "celu_");
}

Tensor selu(const Tensor& x) { return selu_kind(x, "selu"); }
const Tensor& selu_(const Tensor& self) { return selu_kind.inplace(self, "selu_"); }

Tensor hardshrink(const Tensor& x, double lambda) {
  return shrink_kind(UnaryOp::hardshrink, lambda)(x, "hardshrink");
}

Tensor softshrink(const Tensor& x, double lambda) {
  FERRITE_CHECK(lambda >= 0, ValueError, "softshrink", "lambda must be at least 0, got {}", lambda);
  return shrink_kind(UnaryOp::softshrink, lambda)(x, "softshrink");
}

namespace {

/// threshold() of integers, which stay integers, as do the numbers beside them.
Tensor integer_threshold(const Tensor& x, double threshold, double value) {
  const auto whole = [](double number) { return static_cast<std::int64_t>(number); };
  return where(gt(x, whole(threshold)), x, full_like(x, whole(value)));
}

}  // namespace

Tensor threshold(const Tensor& x, double threshold, double value) {
  if (x.defined() && is_integral(x.dtype()) && x.dtype() != kBool)
    return ops::composite(
        "threshold", [&] { return integer_threshold(x, threshold, value); }, x);
  return threshold_kind(threshold, value)(x, "threshold");
}
const Tensor& threshold_(const Tensor& self, double threshold, double value) {
  if (self.defined() && is_integral(self.dtype()) && self.dtype() != kBool)
    return ops::composite_("threshold_", self,
                           [&](const Tensor& x) { return integer_threshold(x, threshold, value); });
  return threshold_kind(threshold, value).inplace(self, "threshold_");
}

Tensor hardsigmoid(const Tensor& x) { return hardsigmoid_kind(x, "hardsigmoid"); }
const Tensor& hardsigmoid_(const Tensor& self) {
  return hardsigmoid_kind.inplace(self, "hardsigmoid_");
}

Tensor hardswish(const Tensor& x) { return hardswish_kind(x, "hardswish"); }
const Tensor& hardswish_(const Tensor& self) { return hardswish_kind.inplace(self, "hardswish_"); }

Tensor mish(const Tensor& x) { return mish_kind(x, "mish"); }
const Tensor& mish_(const Tensor& self) { return mish_kind.inplace(self, "mish_"); }

// ---- Made of other operations

namespace {

void check_floating(const Tensor& x, const char* op) {
  FERRITE_CHECK(x.defined(), ValueError, op, "the tensor is undefined");
  FERRITE_CHECK(is_floating(x.dtype()), DTypeError, op,
                "works on floating types, got {}; convert it with to(dtype)", x.describe());
}

}  // namespace

Tensor tanhshrink(const Tensor& x) {
  return ops::composite(
      "tanhshrink",
      [&] {
        return ops::computed_in(
            ops::floating_type(x.dtype()), [](const Tensor& x) { return x - tanh(x); }, x);
      },
      x);
}

Tensor softsign(const Tensor& x) {
  return ops::composite(
      "softsign",
      [&] {
        return ops::computed_in(
            ops::floating_type(x.dtype()), [](const Tensor& x) { return x / (abs(x) + 1); }, x);
      },
      x);
}

Tensor glu(const Tensor& x, int dim) {
  const profiler::OpRange range("glu", x);
  check_floating(x, "glu");
  FERRITE_CHECK(x.dim() > 0, ShapeError, "glu", "does not work on a 0-dimensional tensor");
  FERRITE_CHECK(dim >= -x.dim() && dim < x.dim(), IndexError, "glu",
                "dimension {} is out of range for {}", dim, x.describe());
  const std::int64_t size = x.size(dim);
  FERRITE_CHECK(size % 2 == 0, ShapeError, "glu",
                "expected an even size to halve along dimension {}, got {}", dim, x.describe());
  return x.narrow(dim, 0, size / 2) * sigmoid(x.narrow(dim, size / 2, size / 2));
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  if (const auto cast = ops::autocast(CastPolicy::lower_precision, x, weight)) {
    const auto& [input, slopes] = *cast;
    return prelu(input, slopes);
  }
  const profiler::OpRange range("prelu", x, weight);
  constexpr const char* op = "prelu";
  check_floating(x, op);
  check_floating(weight, op);
  ops::check_same_device(x, weight, op);
  FERRITE_CHECK(weight.device() == x.device(), DeviceError, op,
                "input and weight are on different devices: {} and {}; move one with to(device)",
                x.describe(), weight.describe());
  FERRITE_CHECK(weight.dtype() == x.dtype(), DTypeError, op,
                "input and weight must agree in dtype, got {} and {}", x.describe(),
                weight.describe());
  const std::int64_t channels = x.dim() > 1 ? x.size(1) : 1;
  FERRITE_CHECK(weight.dim() <= 1 && (weight.numel() == 1 || weight.numel() == channels),
                ShapeError, op, "expected a weight of 1 or {} elements for input {}, got {}",
                channels, x.describe(), weight.describe());
  Shape shape = Shape::filled(x.dim(), 1);
  if (x.dim() > 1) shape[1] = weight.numel();
  const Tensor slope = weight.reshape(x.dim() > 0 ? shape : Shape());
  Tensor out = no_grad([&] { return where(gt(x, 0), x, x * slope); });
  if (autograd::recording(x, slope))
    autograd::record(out, op, {x, slope},
                     [x = ops::Saved(x), slope = ops::Saved(slope), like = ops::Like(slope)](
                         const Tensor& grad, ops::Needs needs) -> autograd::Gradients {
                       const Tensor in = x.get(), above = gt(in, 0);
                       return {needs[0] ? where(above, grad, grad * slope.get()) : Tensor(),
                               needs[1] ? like.reduce(where(above, 0, grad * in)) : Tensor()};
                     });
  return out;
}

Tensor rrelu(const Tensor& x, double lower, double upper, bool training, Generator* generator) {
  const profiler::OpRange range("rrelu", x);
  check_floating(x, "rrelu");
  FERRITE_CHECK(lower <= upper, ValueError, "rrelu", "expected lower <= upper, got {} and {}",
                lower, upper);
  if (!training) return leaky_relu(x, (lower + upper) / 2);
  const Tensor slope = rand_like(x.detach(), generator) * (upper - lower) + lower;
  return x * where(le(x, 0), slope, 1);
}
const Tensor& rrelu_(const Tensor& self, double lower, double upper, bool training,
                     Generator* generator) {
  const profiler::OpRange range("rrelu_", self);
  check_floating(self, "rrelu_");
  FERRITE_CHECK(lower <= upper, ValueError, "rrelu_", "expected lower <= upper, got {} and {}",
                lower, upper);
  if (!training) return leaky_relu_(self, (lower + upper) / 2);
  const Tensor slope = rand_like(self.detach(), generator) * (upper - lower) + lower;
  return self.mul_(where(le(self, 0), slope, 1));
}

}  // namespace ferrite
