#include "ferrite/autograd/gradcheck.h"

#include <cmath>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/meta.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/views.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/elementwise.h"

namespace ferrite::autograd {

namespace {

/// The elements of `t` in row-major order, as tensors over its memory.
std::vector<Tensor> elements(const Tensor& t) {
  std::vector<Tensor> out;
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    std::int64_t rest = i, offset = t.storage_offset();
    for (int d = t.dim() - 1; d >= 0; --d) {
      offset += rest % t.shape()[d] * t.strides()[d];
      rest /= t.shape()[d];
    }
    out.push_back(geometry::as_strided(t, {}, {}, offset));
  }
  return out;
}

void set(const Tensor& element, double value) {
  kernels::fill(current_stream(element.device()), element, value);
}

/// A direction in the space of outputs, the same for every evaluation.
Tensor direction_like(const Tensor& out) {
  Generator generator(20210317);
  Tensor d = empty(out.shape(), {.dtype = kFloat64, .device = out.device()});
  for (const Tensor& element : elements(d)) set(element, 2 * generator.next_double() - 1);
  return d;
}

double dot(const Tensor& a, const std::vector<double>& b) {
  const std::vector<double> x = a.to_vector<double>();
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * b[i];
  return sum;
}

void check_input(const Tensor& t, std::size_t index) {
  FERRITE_CHECK(t.defined() && t.dtype() == kFloat64, DTypeError, "gradcheck",
                "input {} must be float64 where it requires a gradient, got {}", index,
                t.describe());
}

/// The gradients as a function of the inputs, for the second order.
GradcheckFunction gradient_function(const GradcheckFunction& function, const Tensor& direction,
                                    std::size_t which) {
  return [=](const std::vector<Tensor>& inputs) {
    const Tensor out = function(inputs);
    EnableGradGuard guard;
    return grad({&out, 1}, {&inputs[which], 1}, {&direction, 1}, true, true)[0];
  };
}

}  // namespace

bool gradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options) {
  const Tensor out = function(inputs);
  FERRITE_CHECK(out.defined() && out.dtype() == kFloat64, DTypeError, "gradcheck",
                "the function must return float64, got {}", out.describe());
  FERRITE_CHECK(out.requires_grad(), AutogradError, "gradcheck",
                "the function's result does not depend on an input that requires a gradient");
  const Tensor direction = direction_like(out);
  const std::vector<double> weights = direction.to_vector<double>();

  std::vector<Tensor> wanted;
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
    check_input(inputs[i], i);
    wanted.push_back(inputs[i]);
    positions.push_back(i);
  }
  const std::vector<Tensor> analytic =
      grad({&out, 1}, wanted, {&direction, 1}, false, false, /*allow_unused=*/true);

  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const std::vector<Tensor> points = elements(wanted[k]);
    const std::vector<double> values = wanted[k].to_vector<double>();
    std::vector<double> slopes(points.size(), 0.0);
    if (analytic[k].defined()) {
      FERRITE_CHECK(analytic[k].shape() == wanted[k].shape(), ShapeError, "gradcheck",
                    "the gradient of input {} is {}, the input {}", positions[k],
                    analytic[k].describe(), wanted[k].describe());
      slopes = analytic[k].to_vector<double>();
    }
    for (std::size_t e = 0; e < points.size(); ++e) {
      // The tape still records: a function may itself differentiate (second order).
      set(points[e], values[e] + options.eps);
      const double above = dot(function(inputs), weights);
      set(points[e], values[e] - options.eps);
      const double below = dot(function(inputs), weights);
      set(points[e], values[e]);
      const double numeric = (above - below) / (2 * options.eps);
      FERRITE_CHECK(
          std::abs(slopes[e] - numeric) <= options.atol + options.rtol * std::abs(numeric),
          AutogradError, "gradcheck",
          "input {}, element {}: the tape says {}, finite differences say {}", positions[k], e,
          slopes[e], numeric);
    }
  }
  if (options.second_order) {
    GradcheckOptions first = options;
    first.second_order = false;
    for (std::size_t i : positions) {
      Tensor probe = gradient_function(function, direction, i)(inputs);
      if (probe.requires_grad())
        gradcheck(gradient_function(function, direction, i), inputs, first);
    }
  }
  return true;
}

}  // namespace ferrite::autograd
