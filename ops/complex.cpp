#include "ferrite/ops/complex.h"

#include <numbers>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/complex.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/unary.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/complex_parts.h"
#include "ferrite/ops/composite.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/unary.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using ops::check_defined;
using ops::Like;

namespace {

using T = const Tensor&;

void check_complex(T x, const char* op) {
  check_defined(x, op);
  FERRITE_CHECK(x.is_complex(), DTypeError, op, "expected a complex tensor, got {}", x.describe());
}

/// The common shape of two parts, which must share a type and a device.
Shape parts_shape(T a, T b, const char* op) {
  ops::check_same_device(a, b, op);
  FERRITE_CHECK(a.dtype() == b.dtype() && (a.dtype() == kFloat32 || a.dtype() == kFloat64),
                DTypeError, op, "expected two tensors of float32 or two of float64, got {} and {}",
                a.dtype(), b.dtype());
  return broadcast_shapes(a.shape(), b.shape(), op);
}

}  // namespace

// ---- Views

Tensor view_as_real(T x) {
  const profiler::OpRange range("view_as_real", x);
  check_complex(x, "view_as_real");
  Tensor out = geometry::as_real(x);
  if (recording(x))
    record(out, "view_as_real", {x}, [](T grad, Needs) { return ops::complex_of_pairs(grad); });
  autograd::link_view(out, x);
  return out;
}

Tensor view_as_complex(T x) {
  const profiler::OpRange range("view_as_complex", x);
  check_defined(x, "view_as_complex");
  FERRITE_CHECK(x.dtype() == kFloat32 || x.dtype() == kFloat64, DTypeError, "view_as_complex",
                "expected float32 or float64, got {}", x.describe());
  Tensor out = geometry::apply(x, geometry::as_complex(x), complex_type(x.dtype()));
  if (recording(x))
    record(out, "view_as_complex", {x}, [](T grad, Needs) { return view_as_real(grad); });
  autograd::link_view(out, x);
  return out;
}

Tensor real(T x) {
  check_defined(x, "real");
  return x.is_complex() ? view_as_real(x).select(-1, 0) : x;
}

Tensor imag(T x) {
  check_complex(x, "imag");
  return view_as_real(x).select(-1, 1);
}

// ---- Made of two parts

Tensor complex(T re, T im) {
  const profiler::OpRange range("complex", re, im);
  const Shape shape = parts_shape(re, im, "complex");
  const Device& device = re.dim() == 0 && re.device().is_host() ? im.device() : re.device();
  Tensor out = empty(shape, {.dtype = complex_type(re.dtype()), .device = device});
  const Stream stream = current_stream(device);
  kernels::copy(stream, kernels::complex_part(out, 0), ops::operand(re, re.dtype(), shape, device));
  kernels::copy(stream, kernels::complex_part(out, 1), ops::operand(im, im.dtype(), shape, device));
  if (recording(re, im))
    record(out, "complex", {re, im},
           [lr = Like(re), li = Like(im)](T grad, Needs needs) -> Gradients {
             return {needs[0] ? lr.reduce(real(grad)) : Tensor(),
                     needs[1] ? li.reduce(imag(grad)) : Tensor()};
           });
  return out;
}

Tensor polar(T abs, T angle) {
  parts_shape(abs, angle, "polar");
  return ops::composite(
      "polar", [&] { return complex(abs * cos(angle), abs * sin(angle)); }, abs, angle);
}

// ---- Functions

Tensor conj(T x) {
  check_defined(x, "conj");
  if (!x.is_complex()) return x;
  const profiler::OpRange range("conj", x);
  Tensor out = empty_like(x);
  const Stream stream = current_stream(x.device());
  kernels::copy(stream, kernels::complex_part(out, 0), kernels::complex_part(x, 0));
  kernels::unary(stream, kernels::UnaryOp::neg, kernels::complex_part(out, 1),
                 kernels::complex_part(x, 1));
  if (recording(x)) record(out, "conj", {x}, [](T grad, Needs) { return conj(grad); });
  return out;
}

Tensor angle(T x) {
  return ops::composite(
      "angle",
      [&] {
        if (x.is_complex()) return atan2(imag(x), real(x));
        const Tensor t = x.to(ops::floating_type(x.dtype()));
        // NaN stays; the gradient is 0 everywhere, as that of floor().
        return where(isnan(t), floor(t), where(lt(t, 0), std::numbers::pi, zeros_like(t)));
      },
      x);
}

bool is_complex(T x) { return x.is_complex(); }

Tensor ops::complex_sgn(T x) {
  return composite(
      "sgn",
      [&] {
        const Tensor size = complex_abs(x), zero = eq(size, 0);
        return where(zero, 0, x / where(zero, 1, size));
      },
      x);
}

Tensor ops::complex_abs(T x) {
  const profiler::OpRange range("abs", x);
  Tensor out = empty(x.shape(), {.dtype = real_type(x.dtype()), .device = x.device()});
  kernels::binary(current_stream(x.device()), kernels::BinaryOp::hypot, out,
                  kernels::complex_part(x, 0), kernels::complex_part(x, 1));
  if (recording(x))
    record(out, "abs", {x}, [x = Saved(x)](T grad, Needs) { return grad * complex_sgn(x.get()); });
  return out;
}

Tensor ops::complex_exp(T x) {
  return composite(
      "exp", [&] { return polar(exp(real(x)), imag(x)); }, x);
}

}  // namespace ferrite
