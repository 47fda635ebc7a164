#include "ferrite/ops/norm.h"

#include <limits>

#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/core/tracing.h"
#include "ferrite/kernels/norm.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/norm_arguments.h"
#include "ferrite/ops/norm_gradient.h"

namespace ferrite {

using autograd::Gradients;
using autograd::Needs;
using autograd::once_differentiable;
using autograd::record;
using autograd::recording;
using autograd::Saved;
using ops::norms::as_dtype;
using ops::norms::check_eps;
using ops::norms::check_input;
using ops::norms::check_parameter;
using ops::norms::dense;
using ops::norms::optional;
using ops::norms::statistics_dtype;

// ---- What the norms share

namespace ops::norms {

void check_input(const Tensor& input, const char* op) {
  FERRITE_CHECK(input.defined(), ValueError, op, "input is undefined");
  FERRITE_CHECK(is_floating(input.dtype()), DTypeError, op,
                "works on floating types, got {}; convert it with to()", input.describe());
}

void check_eps(double eps, const char* op) {
  FERRITE_CHECK(eps >= 0, ValueError, op, "eps must be 0 or more, got {}", eps);
}

void check_running(const Tensor& mean, const Tensor& var, const char* op) {
  FERRITE_CHECK(mean.defined() == var.defined(), ValueError, op,
                "running_mean and running_var must both be there, or neither");
  FERRITE_CHECK(!mean.defined() || !(mean.requires_grad() || var.requires_grad()), ValueError, op,
                "running_mean and running_var have no gradient, but one requires it; the arguments "
                "are (input, running_mean, running_var, weight, bias)");
}

void check_parameter(const Tensor& t, const Shape& shape, const Tensor& input, const char* name,
                     const char* op) {
  if (!t.defined()) return;
  FERRITE_CHECK(t.shape() == shape, ShapeError, op, "{} is {}, expected shape {} for input {}",
                name, t.describe(), shape, input.describe());
  FERRITE_CHECK(t.device() == input.device(), DeviceError, op, "{} is on {}, input on {}", name,
                t.device(), input.device());
  FERRITE_CHECK(t.dtype() == input.dtype() || t.dtype() == statistics_dtype(input.dtype()),
                DTypeError, op, "{} is {}, expected {} for an input of {}", name, t.dtype(),
                statistics_dtype(input.dtype()), input.dtype());
}

Tensor dense(const Tensor& t, DType dtype, MemoryFormat format) {
  if (!t.defined() || (t.dtype() == dtype && t.is_contiguous(format))) return t;
  return no_grad([&] { return t.to(dtype).contiguous(format); });
}

Tensor as_dtype(const Tensor& grad, DType dtype) {
  return grad.defined() && grad.dtype() != dtype ? grad.to(dtype) : grad;
}

}  // namespace ops::norms

// ---- Layer norm, root mean square norm

namespace {

/// Rows of `width` elements, with the statistics of each.
struct Rows {
  std::int64_t count, width;
  Tensor mean, rstd;
};

Gradients layer_norm_backward(const Rows& rows, const Tensor& grad, const Tensor& x,
                              const Tensor& weight, const Shape& normalized_shape, Needs needs) {
  once_differentiable();
  const Tensor dy = dense(grad, x.dtype());
  const TensorOptions options{.dtype = rows.rstd.dtype(), .device = x.device()};
  Gradients g{needs[0] ? empty_like(x) : Tensor(),
              needs[1] ? empty(normalized_shape, options) : Tensor(),
              needs[2] ? empty(normalized_shape, options) : Tensor()};
  kernels::layer_norm_backward(current_stream(x.device()), rows.count, rows.width, optional(g[0]),
                               optional(g[1]), optional(g[2]), dy, x, optional(rows.mean),
                               rows.rstd, optional(weight));
  return g;
}

double default_eps(DType dtype) {
  return dtype == kFloat64 ? std::numeric_limits<double>::epsilon()
                           : static_cast<double>(std::numeric_limits<float>::epsilon());
}

/// layer_norm, or rms_norm, whose means count as 0.
Tensor normalize_rows(const char* op, bool centered, const Tensor& input,
                      const Shape& normalized_shape, const Tensor& weight, const Tensor& bias,
                      std::optional<double> eps) {
  check_input(input, op);
  const DType dtype = statistics_dtype(input.dtype());
  if (!eps) eps = default_eps(dtype);
  check_eps(*eps, op);
  const int n = normalized_shape.size(), outer = input.dim() - n;
  bool fits = n >= 1 && outer >= 0;
  for (int d = 0; fits && d < n; ++d) fits = input.shape()[outer + d] == normalized_shape[d];
  FERRITE_CHECK(fits, ShapeError, op, "input {} does not end in normalized_shape {}",
                input.describe(), normalized_shape);
  check_parameter(weight, normalized_shape, input, "weight", op);
  check_parameter(bias, normalized_shape, input, "bias", op);

  Rows rows{.count = 1, .width = normalized_shape.numel()};
  for (int d = 0; d < outer; ++d) rows.count *= input.shape()[d];
  FERRITE_CHECK(rows.width > 0, ShapeError, op, "normalized_shape {} has no elements",
                normalized_shape);
  const Tensor x = dense(input, input.dtype());
  const Tensor w = dense(weight, dtype), b = dense(bias, dtype);
  const TensorOptions options{.dtype = dtype, .device = input.device()};
  if (centered) rows.mean = empty({rows.count}, options);
  rows.rstd = empty({rows.count}, options);
  Tensor out = empty_like(x);
  kernels::layer_norm(current_stream(x.device()), rows.count, rows.width, out, optional(rows.mean),
                      rows.rstd, x, optional(w), optional(b), *eps);
  if (recording(input, weight, bias))
    record(out, op, {input, weight, bias},
           [input = Saved(input), weight = Saved(weight), rows, normalized_shape, eps, centered,
            dtype, weight_dtype = weight.defined() ? weight.dtype() : dtype,
            bias_dtype = bias.defined() ? bias.dtype() : dtype](const Tensor& grad,
                                                                Needs needs) -> Gradients {
             const Tensor x = input.get(), w = weight.get();
             Gradients g = grad_enabled()
                               ? ops::layer_norm_gradient(x, w, normalized_shape.size(), *eps,
                                                          centered, grad, needs)
                               : layer_norm_backward(rows, grad, dense(x, x.dtype()),
                                                     dense(w, dtype), normalized_shape, needs);
             g[1] = as_dtype(g[1], weight_dtype);
             g[2] = as_dtype(g[2], bias_dtype);
             return g;
           });
  return out;
}

}  // namespace

Tensor layer_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  if (tracing::on())
    return tracing::op("layer_norm", {input, weight, bias},
                       {{"shape", tracing::sizes(normalized_shape)}, {"eps", eps}},
                       [&] { return layer_norm(input, normalized_shape, weight, bias, eps); });
  if (const auto cast = ops::autocast(AutocastOp::layer_norm, input, weight, bias)) {
    const auto& [x, w, b] = *cast;
    return layer_norm(x, normalized_shape, w, b, eps);
  }
  const profiler::OpRange range("layer_norm", input, weight, bias);
  return normalize_rows("layer_norm", true, input, normalized_shape, weight, bias, eps);
}

Tensor rms_norm(const Tensor& input, const Shape& normalized_shape, const Tensor& weight,
                std::optional<double> eps) {
  if (tracing::on())
    return tracing::op("rms_norm", {input, weight},
                       {{"shape", tracing::sizes(normalized_shape)},
                        {"eps", eps.value_or(default_eps(statistics_dtype(input.dtype())))}},
                       [&] { return rms_norm(input, normalized_shape, weight, eps); });
  if (const auto cast = ops::autocast(AutocastOp::layer_norm, input, weight)) {
    const auto& [x, w] = *cast;
    return rms_norm(x, normalized_shape, w, eps);
  }
  const profiler::OpRange range("rms_norm", input, weight);
  return normalize_rows("rms_norm", false, input, normalized_shape, weight, {}, eps);
}

}  // namespace ferrite
