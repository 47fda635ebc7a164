#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/special.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/ops/op_table.h"

namespace ferrite::test {

namespace {

using C = const Call&;
using T = const Tensor&;
using Unary = Tensor (*)(const Tensor&);
using UnaryInplace = const Tensor& (*)(const Tensor&);
using Binary = Tensor (*)(const Tensor&, const Tensor&);
using BinaryScalar = Tensor (*)(const Tensor&, Scalar);

const Arg kX{{3, 5}, Fill::positive};
const Arg kReal{{3, 5}};
const Arg kRow{{5}, Fill::positive};

void add_unary(std::vector<Op>& table) {
  const Adder row{.table = table, .args = {kX}, .shapes = Shapes::any};
  const auto add = [&](const char* name, Takes what, Unary f) -> Op& { return row(name, what, f); };
  const auto add_ = [&](const char* name, Takes what, UnaryInplace f) { row(name, what, f); };
  const auto numeric = Takes::numeric, any = Takes::any, floating = Takes::floating;
  add("neg", numeric, neg), add("abs", numeric, abs), add("sign", any, sign);
  add("square", any, square), add("floor", numeric, floor), add("ceil", numeric, ceil);
  add("round", numeric, round), add("trunc", numeric, trunc), in_float32(add("exp", any, exp));
  in_float32(add("exp2", any, exp2)), in_float32(add("expm1", any, expm1)),
      in_float32(add("log", any, log));
  in_float32(add("log1p", any, log1p)), in_float32(add("log2", any, log2)), add("sqrt", any, sqrt);
  in_float32(add("rsqrt", any, rsqrt)), in_float32(add("reciprocal", any, reciprocal)),
      add("sin", any, sin);
  add("cos", any, cos), in_float32(add("tan", any, tan)), add("erf", any, erf);
  add("isnan", any, isnan), add("isinf", any, isinf), add("isfinite", any, isfinite);
  add("logical_not", any, logical_not), add("relu", numeric, relu);
  add("sigmoid", any, sigmoid), add("tanh", any, tanh), add("silu", any, silu);
  add_("neg_", numeric, neg_), add_("abs_", numeric, abs_), add_("square_", numeric, square_);
  add_("floor_", numeric, floor_), add_("ceil_", numeric, ceil_);
  add_("round_", numeric, round_), add_("trunc_", numeric, trunc_);
  add_("exp_", floating, exp_), add_("log_", floating, log_), add_("sqrt_", floating, sqrt_);
  add_("rsqrt_", floating, rsqrt_), add_("reciprocal_", floating, reciprocal_);
  add_("sin_", floating, sin_), add_("cos_", floating, cos_), add_("relu_", numeric, relu_);
  add_("silu_", floating, silu_), add_("sigmoid_", floating, sigmoid_);
  add_("tanh_", floating, tanh_), add_("sign_", any, sign_), add_("exp2_", floating, exp2_);
  add_("expm1_", floating, expm1_), add_("log1p_", floating, log1p_);
  add_("log2_", floating, log2_), add_("tan_", floating, tan_), add_("erf_", floating, erf_);
  in_float32(add("asin", any, asin)), in_float32(add("acos", any, acos)), add("atan", any, atan),
      in_float32(add("sinh", any, sinh)), in_float32(add("cosh", any, cosh)),
      add("asinh", any, asinh), add("atanh", any, atanh), add("erfc", any, erfc),
      in_float32(add("log10", any, log10)), add("sinc", any, sinc), add("deg2rad", any, deg2rad),
      add("rad2deg", any, rad2deg), add("logsigmoid", any, logsigmoid);
  in_float32(add("erfinv", any, erfinv)), add("lgamma", any, lgamma), add("digamma", any, digamma),
      add("special_ndtr", any, special::ndtr);
  row("polygamma", any, [](T x) { return polygamma(2, x); });
  row("mvlgamma", any, [](T x) { return mvlgamma(x, 1); });
  add_("erfinv_", floating, erfinv_), add_("lgamma_", floating, lgamma_),
      add_("digamma_", floating, digamma_);
  add("sigmoid", any, special::expit), add("lgamma", any, special::gammaln);
  add("digamma", any, special::psi);
  row("mvlgamma", any, [](T x) { return special::multigammaln(x, 1); });
  row("polygamma_", floating, [](T x) { return polygamma_(x, 1); });
  row("mvlgamma_", floating, [](T x) { return mvlgamma_(x, 1); });
  add("signbit", any, signbit), add("positive", numeric, positive), add("frac", floating, frac);
  add("sign", any, sgn);
  row("acosh", any, [](T x) { return acosh(x); });
  row("logit", any, [](T x) { return logit(x, 0.1); });
  row("nan_to_num", any, [](T x) { return nan_to_num(x, 1); });
  add_("asin_", floating, asin_), add_("acos_", floating, acos_), add_("atan_", floating, atan_),
      add_("sinh_", floating, sinh_), add_("cosh_", floating, cosh_),
      add_("asinh_", floating, asinh_), add_("atanh_", floating, atanh_),
      add_("erfc_", floating, erfc_), add_("log10_", floating, log10_),
      add_("sinc_", floating, sinc_), add_("deg2rad_", floating, deg2rad_),
      add_("rad2deg_", floating, rad2deg_), add_("frac_", floating, frac_);
  add_("sign_", any, sgn_);
  row("acosh_", floating, [](T x) { return acosh_(x); });
  row("logit_", floating, [](T x) { return logit_(x, 0.1); });
  row("nan_to_num_", any, [](T x) { return nan_to_num_(x, 1); });
}

void add_activations(std::vector<Op>& table) {
  const Adder add{.table = table, .args = {kReal}, .shapes = Shapes::any};
  add("leaky_relu", Takes::any, [](T x) { return leaky_relu(x, 0.1); });
  add("elu", Takes::any, [](T x) { return elu(x); });
  add("gelu", Takes::any, [](T x) { return gelu(x); });
  add("gelu", Takes::any, [](T x) { return gelu(x, GeluApproximation::tanh); });
  in_float32(add("softplus", Takes::any, [](T x) { return softplus(x); }));
  add("hardtanh", Takes::numeric, [](T x) { return hardtanh(x); });
  add("hardtanh", Takes::numeric, [](T x) { return relu6(x); });
  add("leaky_relu_", Takes::floating, [](T x) { return leaky_relu_(x, 0.1); });
  add("elu_", Takes::floating, [](T x) { return elu_(x); });
  add("hardtanh_", Takes::numeric, [](T x) { return hardtanh_(x); });
  add("hardtanh_", Takes::numeric, [](T x) { return relu6_(x); });
  add("celu", Takes::any, [](T x) { return celu(x, 0.7); });
  add("selu", Takes::any, [](T x) { return selu(x); });
  add("hardshrink", Takes::any, [](T x) { return hardshrink(x, 0.6); });
  add("softshrink", Takes::any, [](T x) { return softshrink(x, 0.6); });
  add("threshold", Takes::any, [](T x) { return threshold(x, 0.3, 2); });
  add("hardsigmoid", Takes::any, [](T x) { return hardsigmoid(x); });
  add("hardswish", Takes::any, [](T x) { return hardswish(x); });
  add("mish", Takes::any, [](T x) { return mish(x); });
  add("tanhshrink", Takes::any, [](T x) { return tanhshrink(x); });
  add("softsign", Takes::any, [](T x) { return softsign(x); });
  random_results(composed(add("rrelu", Takes::floating, [](T x) { return rrelu(x); })));
  random_results(
      composed(add("rrelu", Takes::floating, [](T x) { return rrelu(x, 0.1, 0.4, true); })));
  random_results(add("rrelu_", Takes::floating, [](T x) { return rrelu_(x, 0.1, 0.4, true); }));
  add("celu_", Takes::floating, [](T x) { return celu_(x, 0.7); });
  add("selu_", Takes::floating, [](T x) { return selu_(x); });
  add("threshold_", Takes::numeric, [](T x) { return threshold_(x, 0.3, 2); });
  add("hardsigmoid_", Takes::floating, [](T x) { return hardsigmoid_(x); });
  add("hardswish_", Takes::floating, [](T x) { return hardswish_(x); });
  add("mish_", Takes::floating, [](T x) { return mish_(x); });
  random_results(
      add("alpha_dropout_", Takes::floating, [](T x) { return alpha_dropout_(x, 0.4, true); }));
  random_results(composed(
      add("alpha_dropout", Takes::floating, [](T x) { return alpha_dropout(x, 0.4, true); })));
  add("clamp", Takes::any, [](T x) { return clamp(x, -1, 1); });
  add("clamp", Takes::any, [](T x) { return clamp_min(x, 0); });
  add("clamp", Takes::any, [](T x) { return clamp_max(x, 0); });
  add("clamp_", Takes::numeric, [](T x) { return x.clamp_(-1, 1); });
  random_results(add("dropout", Takes::floating, [](T x) { return dropout(x, 0.4); }));
  random_results(add("dropout_", Takes::floating, [](T x) { return dropout_(x, 0.4); }));
  random_results(add("uniform_", Takes::floating, [](T x) { return x.uniform_(); }));
  random_results(add("normal_", Takes::floating, [](T x) { return x.normal_(); }));
  random_results(add("bernoulli_", Takes::any, [](T x) { return x.bernoulli_(); }));
  add("fill_", Takes::any, [](T x) { return x.fill_(1); });
  add("fill_", Takes::any, [](T x) { return x.zero_(); });
  add("full_like", Takes::any, [](T x) { return full_like(x, 1); });
  add("full_like", Takes::any, [](T x) { return zeros_like(x); });
  add("full_like", Takes::any, [](T x) { return ones_like(x); });
  random_results(add("rand_like", Takes::floating, [](T x) { return rand_like(x); }));
  random_results(add("randn_like", Takes::floating, [](T x) { return randn_like(x); }));
  random_results(add("randint_like", Takes::any, [](T x) { return randint_like(x, 2); }));
  random_results(add("bernoulli", Takes::floating, {{{3, 5}, Fill::constant}},
                     [](T x) { return bernoulli(x); }));
  const Adder channels{table, Takes::floating, {{{2, 3, 4}}}};
  random_results(channels("dropout2d", [](T x) { return dropout2d(x, 0.4); }));
  random_results(channels("dropout3d", {{{2, 3, 4, 2, 2}}}, [](T x) { return dropout3d(x, 0.4); }));
  random_results(composed(
      channels("feature_alpha_dropout", [](T x) { return feature_alpha_dropout(x, 0.4, true); })));
  random_results(channels("dropout1d_", [](T x) { return dropout1d_(x, 0.4); }));
  random_results(channels("dropout2d_", [](T x) { return dropout2d_(x, 0.4); }));
  random_results(
      channels("dropout3d_", {{{2, 3, 4, 2, 2}}}, [](T x) { return dropout3d_(x, 0.4); }));
  random_results(channels("feature_dropout_", [](T x) { return feature_dropout_(x, 0.4); }));
  random_results(
      channels("feature_alpha_dropout_", [](T x) { return feature_alpha_dropout_(x, 0.4, true); }));
  in_lower_precision(channels("prelu", {{{2, 3, 4}}, {{3}, Fill::positive}},
                              [](T x, T w) { return prelu(x, w); }));
  const Adder halves{table, Takes::floating, {{{2, 4, 6}}}, Shapes::own, 1};
  halves("glu", [](T x, int d) { return glu(x, d); });
  in_float32(halves("softmin", [](T x, int d) { return softmin(x, d); }));
}

void add_binary(std::vector<Op>& table) {
  const Adder row{.table = table, .args = {kX, kRow}, .shapes = Shapes::any};
  const auto add = [&](const char* name, Takes what, Binary f) -> Op& {
    return row(name, what, f);
  };
  const auto add_scalar = [&](const char* name, Takes what, BinaryScalar f) -> Op& {
    return row(name, what, {kX}, [f](T x) { return f(x, 2); });
  };
  const auto numeric = Takes::numeric, any = Takes::any;
  add("mul", any, mul), add("div", any, div), add("maximum", any, maximum);
  add("minimum", any, minimum), add("eq", any, eq), add("ne", any, ne), add("lt", any, lt);
  add("le", any, le), add("gt", any, gt), add("ge", any, ge);
  add("logical_and", any, logical_and), add("logical_or", any, logical_or);
  add("logical_xor", any, logical_xor), in_float32(add("pow", numeric, pow)),
      add("atan2", any, atan2);
  add("floor_divide", numeric, floor_divide), add("remainder", numeric, remainder);
  add("fmod", numeric, fmod);
  add_scalar("add", any, ferrite::add), add_scalar("sub", any, sub), add_scalar("mul", any, mul);
  add_scalar("div", any, div), add_scalar("eq", any, eq), add_scalar("ne", any, ne);
  add_scalar("lt", any, lt), add_scalar("le", any, le), add_scalar("gt", any, gt);
  add_scalar("ge", any, ge), in_float32(add_scalar("pow", any, pow));
  add_scalar("floor_divide", any, floor_divide);
  add_scalar("remainder", any, remainder), add_scalar("fmod", any, fmod);
}

void add_binary_calls(std::vector<Op>& table) {
  const Adder add{.table = table, .args = {kX, kRow}, .shapes = Shapes::any};
  const auto numeric = Takes::numeric, any = Takes::any, floating = Takes::floating;
  add("add", any, [](T a, T b) { return ferrite::add(a, b, 2); });
  add("sub", numeric, [](T a, T b) { return sub(a, b); });
  add("isclose", any, [](T a, T b) { return isclose(a, b); });
  add("allclose", any, [](T a, T b) { return full({}, allclose(a, b)); }).on_host = true;
  add("equal", any, [](T a, T b) { return full({}, equal(a, b)); }).on_host = true;
  add("add_", any, [](T a, T b) { return a.add_(b); });
  add("sub_", numeric, [](T a, T b) { return a.sub_(b); });
  add("mul_", any, [](T a, T b) { return a.mul_(b); });
  add("div_", floating, [](T a, T b) { return a.div_(b); });
  add("pow_", numeric, [](T a, T b) { return pow_(a, b); });

  const Adder add_one{.table = table, .args = {kX}, .shapes = Shapes::any};
  add_one("sub", any, [](T a) { return 2 - a; });
  add_one("div", any, [](T a) { return 2 / a; }).autocast = CastPolicy::float32;
  in_float32(add_one("pow", any, [](T a) { return pow(2, a); }));
  add_one("add_", numeric, [](T a) { return a.add_(2); });
  add_one("sub_", numeric, [](T a) { return a.sub_(2); });
  add_one("mul_", numeric, [](T a) { return a.mul_(2); });
  add_one("div_", floating, [](T a) { return a.div_(2); });
  add_one("pow_", numeric, [](T a) { return pow_(a, 3); });

  const Arg condition{{3, 1}, Fill::mask};
  promoted(add("where", any, {condition, kX, kRow}, [](C c) { return where(c[0], c[1], c[2]); }));
  promoted(add("where", any, {condition, kX}, [](C c) {
    return std::vector<Tensor>{where(c[0], c[1], 2), where(c[0], 3, c[1])};
  }));
}

/// Members of Tensor that copy and convert; functions that make tensors from nothing.
void add_copies(std::vector<Op>& table) {
  const Arg image{{2, 3, 2, 2}}, row{.shape = {5}, .any_device = true};
  const Adder add{.table = table, .args = {kX}, .shapes = Shapes::any};
  const Adder add_image{.table = table, .args = {image}};
  add("to", [](T x) { return x.to(kFloat64); });
  add("to", [](T x) { return x.to(kFloat16); });
  add("to", [](T x) { return x.to(Device("cpu:2")); }).on_host = true;
  add("to", [](T x) { return x.to(Device("cpu:2"), kFloat16, non_blocking); }).on_host = true;
  add("to", [](T x) { return x.cpu(); }).on_host = true;
  add_image("to", [](T x) { return x.to(kChannelsLast); });
  add("contiguous", [](T x) { return x.contiguous(); });
  add_image("contiguous", [](T x) { return x.contiguous(kChannelsLast); });
  add("clone", [](T x) { return x.clone(); });
  add("copy_", {kX, row}, [](T x, T y) { return x.copy_(y); });
  const Adder none{table};
  none("none", [](C c) {
    const TensorOptions f{.device = c.device}, i{.dtype = kInt64, .device = c.device};
    return std::vector<Tensor>{zeros({3}, f),        ones({3}, i),          full({2}, 0.5, f),
                               arange(1, 5, 2, i),   linspace(0, 1, 4, f),  eye(3, f),
                               eye(2, 3, i),         rand({5}, f),          randn({5}, f),
                               normal(1, 2, {5}, f), randint(1, 9, {6}, i), randperm(7, i),
                               tensor(3, i)};
  });
  none("tensor", [](C c) {
    return std::vector<Tensor>{tensor({1.0, 2.0}, {.device = c.device}),
                               tensor({1, 2}, {.dtype = kFloat64, .device = c.device})};
  }).on_host = true;
}

}  // namespace

void add_elementwise_ops(std::vector<Op>& table) {
  add_unary(table);
  add_activations(table);
  add_binary(table);
  add_binary_calls(table);
  add_copies(table);
}

}  // namespace ferrite::test
