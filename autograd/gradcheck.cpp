#include "ferrite/autograd/gradcheck.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

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

/// The gradient of input `which` as a function of the inputs and, behind them, of the gradient of
/// the output.
GradcheckFunction gradient_function(const GradcheckFunction& function, std::size_t which) {
  return [=](const std::vector<Tensor>& all) {
    const std::vector<Tensor> inputs(all.begin(), all.end() - 1);
    const Tensor out = function(inputs);
    const EnableGradGuard guard;
    const Tensor gradient = grad({&out, 1}, {&inputs[which], 1}, {&all.back(), 1}, true, true,
                                 /*allow_unused=*/true)[0];
    if (gradient.defined()) return gradient;
    const Tensor none = empty_like(inputs[which]);
    kernels::fill(current_stream(none.device()), none, 0);
    return none;
  };
}

/// The inputs that require a gradient.
std::vector<std::size_t> wanted_of(const std::vector<Tensor>& inputs) {
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
    check_input(inputs[i], i);
    wanted.push_back(i);
  }
  return wanted;
}

/// The analytic gradient of each of the wanted inputs, undefined for 0.
std::vector<Tensor> analytic_gradients(const Tensor& out, const Tensor& direction,
                                       const std::vector<Tensor>& wanted) {
  if (!out.requires_grad()) return std::vector<Tensor>(wanted.size());
  return grad({&out, 1}, wanted, {&direction, 1}, false, false, /*allow_unused=*/true);
}

/// gradcheck() of the first order. `of` is what the messages say the gradients are of.
void check_first_order(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
                       const GradcheckOptions& options, const std::string& of) {
  const std::vector<std::size_t> positions = wanted_of(inputs);
  std::vector<Tensor> wanted;
  for (const std::size_t i : positions) wanted.push_back(inputs[i]);
  const Tensor out = function(inputs), direction = direction_like(out);
  const std::vector<double> weights = direction.to_vector<double>();
  const std::vector<Tensor> analytic = analytic_gradients(out, direction, wanted);
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const std::vector<Tensor> points = elements(wanted[k]);
    const std::vector<double> values = wanted[k].to_vector<double>();
    std::vector<double> slopes(points.size(), 0.0);
    if (analytic[k].defined()) {
      FERRITE_CHECK(analytic[k].shape() == wanted[k].shape(), ShapeError, "gradcheck",
                    "{}the gradient of input {} is {}, the input {}", of, positions[k],
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
          "{}input {}, element {}: the tape says {}, finite differences say {}", of, positions[k],
          e, slopes[e], numeric);
    }
  }
}

}  // namespace

bool gradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options) {
  const Tensor out = function(inputs);
  FERRITE_CHECK(out.defined() && out.dtype() == kFloat64, DTypeError, "gradcheck",
                "the function must return float64, got {}", out.describe());
  FERRITE_CHECK(out.requires_grad(), AutogradError, "gradcheck",
                "the function's result does not depend on an input that requires a gradient");
  check_first_order(function, inputs, options, "");
  if (!options.second_order) return true;
  std::vector<Tensor> all = inputs;
  all.push_back(direction_like(out));
  all.back().set_requires_grad();
  for (const std::size_t i : wanted_of(inputs))
    check_first_order(gradient_function(function, i), all, options,
                      fmt::format("gradient of input {} (where input {} is the gradient of the "
                                  "result): ",
                                  i, inputs.size()));
  return true;
}

}  // namespace ferrite::autograd
