// Nodes that are functions of elements.
#include <cmath>
#include <limits>
#include <utility>

#include "ferrite/kernels/unary.h"
#include "ferrite/nn/onnx/graph.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/blend.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"

namespace ferrite::onnx {

namespace {

using Results = std::vector<Tensor>;

template <Tensor (*F)(const Tensor&)>
Results function(const Call& c) {
  return {F(c[0])};
}
template <Tensor (*F)(const Tensor&)>
constexpr Kernel kFunction{1, 1, 1, {}, function<F>};

/// Both on the device of the one that is no number of the graph.
std::pair<Tensor, Tensor> together(const Tensor& a, const Tensor& b) {
  if (a.device() == b.device()) return {a, b};
  return a.device().is_host() ? std::pair(a.to(b.device()), b) : std::pair(a, b.to(a.device()));
}

template <Tensor (*F)(const Tensor&, const Tensor&)>
Results pair(const Call& c) {
  const auto [a, b] = together(c[0], c[1]);
  return {F(a, b)};
}
template <Tensor (*F)(const Tensor&, const Tensor&)>
const Kernel kPair{2, 2, 1, {}, pair<F>};

Tensor plus(const Tensor& a, const Tensor& b) { return a + b; }
Tensor minus(const Tensor& a, const Tensor& b) { return a - b; }
Tensor times(const Tensor& a, const Tensor& b) { return a * b; }
Tensor power(const Tensor& a, const Tensor& b) {
  // The type is the base's. A number as exponent has cheaper kernels.
  const bool number = b.numel() == 1 && b.dim() <= a.dim() && !b.requires_grad();
  return (number ? pow(a, b.item()) : pow(a, b)).to(a.dtype());
}

/// The sign of NaN is NaN; that of sign() is 0.
Tensor sign_or_nan(const Tensor& x) {
  return is_floating(x.dtype()) ? where(isnan(x), x.detach(), sign(x)) : sign(x);
}

/// Division of integers rounds towards zero, as in C; by zero it gives 0.
Tensor divide(const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype()) || is_floating(b.dtype())) return a / b;
  const Tensor down = floor_divide(a, b);
  const Tensor up = logical_and(lt(down, 0), ne(remainder(a, b), 0));  // by one
  return (down + up.to(down.dtype())).to(a.dtype());
}

Results modulo(const Call& c) {
  const auto [a, b] = together(c[0], c[1]);
  return {c.integer("fmod", 0) != 0 ? fmod(a, b) : remainder(a, b)};
}

template <Tensor (*F)(const Tensor&, const Tensor&)>
Results folded(const Call& c) {
  Tensor out = c[0];
  for (std::size_t i = 1; i < c.count(); ++i) {
    const auto [a, b] = together(out, c[i]);
    out = F(a, b);
  }
  return {out};
}
Results mean_of(const Call& c) { return {folded<plus>(c)[0] / static_cast<double>(c.count())}; }

Results run_clip(const Call& c) {
  std::optional<Scalar> min, max;
  if (c.has(1)) min = c[1].item();
  if (c.has(2)) max = c[2].item();
  return {min || max ? clamp(c[0], min, max) : c[0]};
}

Results run_where(const Call& c) {
  const Device& device = c[1].device().is_host() ? c[2].device() : c[1].device();
  return {where(c[0].to(device), c[1].to(device), c[2].to(device))};
}

Results run_cast(const Call& c) {
  const auto to = static_cast<int>(c.integer("to", 0));
  return {c[0].to(data::dtype_of_onnx(to, "Cast", "its target"))};
}
Results cast_like(const Call& c) { return {c[0].to(c[1].dtype())}; }
Results identity(const Call& c) { return {c[0]}; }

Results run_dropout(const Call& c) {
  const double p = c.number(1, 0.5);
  const bool keeps_all = !c.training;
  if (c.node.outputs.size() == 1) return {keeps_all ? c[0] : dropout(c[0], p, true)};
  const Tensor factors = keeps_all ? ones_like(c[0]) : dropout(ones_like(c[0]), p, true);
  return {keeps_all ? c[0] : c[0] * factors, factors != 0};
}

Results run_leaky_relu(const Call& c) { return {leaky_relu(c[0], c.real("alpha", 0.01))}; }
Results run_elu(const Call& c) { return {elu(c[0], c.real("alpha", 1))}; }
Results run_celu(const Call& c) { return {celu(c[0], c.real("alpha", 1))}; }
Results run_selu(const Call& c) {
  const double alpha = c.real("alpha", kernels::kSeluAlpha),
               gamma = c.real("gamma", kernels::kSeluScale);
  return {elu(c[0], alpha) * gamma};
}
Results run_gelu(const Call& c) {
  const std::string approximation = c.text("approximate", "none");
  if (approximation != "none" && approximation != "tanh")
    c.node.refuse("approximate is " + approximation);
  return {gelu(c[0], approximation == "tanh" ? GeluApproximation::tanh : GeluApproximation::none)};
}
Results run_hard_sigmoid(const Call& c) {
  return {clamp(c[0] * c.real("alpha", 0.2) + c.real("beta", 0.5), 0.0, 1.0)};
}
Results run_shrink(const Call& c) {
  const double limit = c.real("lambd", 0.5), bias = c.real("bias", 0);
  const Tensor& x = c[0];
  return {where(lt(x, -limit), x + bias, where(gt(x, limit), x - bias, 0))};
}
Results run_thresholded_relu(const Call& c) { return {threshold(c[0], c.real("alpha", 1), 0)}; }
/// The slope broadcasts to the input from the right.
Results run_prelu(const Call& c) {
  const Tensor &x = c[0], &slope = c[1];
  return {where(gt(x, 0), x, x * slope)};
}

Tensor plain_softplus(const Tensor& x) { return softplus(x); }
Tensor plain_mish(const Tensor& x) { return mish(x); }

}  // namespace

const KernelTable& elementwise_kernels() {
  static const KernelTable table{
      {"Neg", kFunction<neg>},
      {"Abs", kFunction<abs>},
      {"Sign", kFunction<sign_or_nan>},
      {"Relu", kFunction<relu>},
      {"Floor", kFunction<floor>},
      {"Ceil", kFunction<ceil>},
      {"Round", kFunction<round>},
      {"Exp", kFunction<exp>},
      {"Log", kFunction<log>},
      {"Sqrt", kFunction<sqrt>},
      {"Reciprocal", kFunction<reciprocal>},
      {"Sin", kFunction<sin>},
      {"Cos", kFunction<cos>},
      {"Tan", kFunction<tan>},
      {"Asin", kFunction<asin>},
      {"Acos", kFunction<acos>},
      {"Atan", kFunction<atan>},
      {"Sinh", kFunction<sinh>},
      {"Cosh", kFunction<cosh>},
      {"Asinh", kFunction<asinh>},
      {"Acosh", kFunction<acosh>},
      {"Atanh", kFunction<atanh>},
      {"Erf", kFunction<erf>},
      {"Tanh", kFunction<tanh>},
      {"Sigmoid", kFunction<sigmoid>},
      {"HardSwish", kFunction<hardswish>},
      {"Softplus", kFunction<plain_softplus>},
      {"Softsign", kFunction<softsign>},
      {"Mish", kFunction<plain_mish>},
      {"Not", kFunction<logical_not>},
      {"BitwiseNot", kFunction<bitwise_not>},
      {"IsNaN", kFunction<isnan>},
      {"LeakyRelu", {1, 1, 1, {"alpha"}, run_leaky_relu}},
      {"Elu", {1, 1, 1, {"alpha"}, run_elu}},
      {"Celu", {1, 1, 1, {"alpha"}, run_celu}},
      {"Selu", {1, 1, 1, {"alpha", "gamma"}, run_selu}},
      {"Gelu", {1, 1, 1, {"approximate"}, run_gelu}},
      {"HardSigmoid", {1, 1, 1, {"alpha", "beta"}, run_hard_sigmoid}},
      {"Shrink", {1, 1, 1, {"lambd", "bias"}, run_shrink}},
      {"ThresholdedRelu", {1, 1, 1, {"alpha"}, run_thresholded_relu}},
      {"PRelu", {2, 2, 1, {}, run_prelu}},
      {"Clip", {1, 3, 1, {}, run_clip}},
      {"Add", kPair<plus>},
      {"Sub", kPair<minus>},
      {"Mul", kPair<times>},
      {"Div", kPair<divide>},
      {"Pow", kPair<power>},
      {"Mod", {2, 2, 1, {"fmod"}, modulo}},
      {"Equal", kPair<eq>},
      {"Less", kPair<lt>},
      {"LessOrEqual", kPair<le>},
      {"Greater", kPair<gt>},
      {"GreaterOrEqual", kPair<ge>},
      {"And", kPair<logical_and>},
      {"Or", kPair<logical_or>},
      {"Xor", kPair<logical_xor>},
      {"BitwiseAnd", kPair<bitwise_and>},
      {"BitwiseOr", kPair<bitwise_or>},
      {"BitwiseXor", kPair<bitwise_xor>},
      {"Max", {1, 1 << 20, 1, {}, folded<maximum>}},
      {"Min", {1, 1 << 20, 1, {}, folded<minimum>}},
      {"Sum", {1, 1 << 20, 1, {}, folded<plus>}},
      {"Mean", {1, 1 << 20, 1, {}, mean_of}},
      {"Where", {3, 3, 1, {}, run_where}},
      {"Cast", {1, 1, 1, {"to", "saturate"}, run_cast}},
      {"CastLike", {2, 2, 1, {"saturate"}, cast_like}},
      {"Identity", {1, 1, 1, {}, identity}},
      {"Dropout", {1, 3, 2, {"seed"}, run_dropout}},
  };
  return table;
}

}  // namespace ferrite::onnx
