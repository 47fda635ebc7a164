#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/blend.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/special.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/differential/ops.h"

namespace ferrite::differential {

namespace {

using In = const Tensors&;
using Args = const Json&;

void add_unary(Table& t) {
  const auto add = [&](const char* name, Tensor (*f)(const Tensor&)) {
    t[name] = [f](In in, Args) { return Tensors{f(in[0])}; };
  };
  const auto add_ = [&](const char* name, const Tensor& (*f)(const Tensor&)) {
    t[name] = [f](In in, Args) { return Tensors{f(in[0])}; };
  };
  add("neg", neg), add("abs", abs), add("sign", sign), add("square", square), add("floor", floor);
  add("ceil", ceil), add("round", round), add("trunc", trunc), add("exp", exp), add("exp2", exp2);
  add("expm1", expm1), add("log", log), add("log1p", log1p), add("log2", log2), add("sqrt", sqrt);
  add("rsqrt", rsqrt), add("reciprocal", reciprocal), add("sin", sin), add("cos", cos);
  add("tan", tan), add("erf", erf), add("isnan", isnan), add("isinf", isinf);
  add("isfinite", isfinite), add("logical_not", logical_not), add("relu", relu);
  add("sigmoid", sigmoid), add("tanh", tanh), add("silu", silu), add("relu6", relu6);
  add_("neg_", neg_), add_("abs_", abs_), add_("square_", square_), add_("floor_", floor_);
  add_("ceil_", ceil_), add_("round_", round_), add_("trunc_", trunc_), add_("exp_", exp_);
  add_("log_", log_), add_("sqrt_", sqrt_), add_("rsqrt_", rsqrt_), add_("sin_", sin_);
  add_("reciprocal_", reciprocal_), add_("cos_", cos_), add_("relu_", relu_), add_("silu_", silu_);
  add_("sigmoid_", sigmoid_), add_("tanh_", tanh_), add_("sign_", sign_), add_("exp2_", exp2_);
  add_("expm1_", expm1_), add_("log1p_", log1p_), add_("log2_", log2_), add_("tan_", tan_);
  add_("erf_", erf_), add_("relu6_", relu6_);
  add("asin", asin), add("acos", acos), add("atan", atan), add("sinh", sinh), add("cosh", cosh);
  add("asinh", asinh), add("acosh", acosh), add("atanh", atanh), add("log10", log10);
  add("erfc", erfc), add("sinc", sinc), add("deg2rad", deg2rad), add("rad2deg", rad2deg);
  add("frac", frac), add("positive", positive), add("sgn", sgn), add("signbit", signbit);
  add("bitwise_not", bitwise_not), add("logsigmoid", logsigmoid), add("selu", selu);
  add("hardsigmoid", hardsigmoid), add("hardswish", hardswish), add("mish", mish);
  add("tanhshrink", tanhshrink), add("softsign", softsign), add("isposinf", isposinf);
  add("isneginf", isneginf), add("isreal", isreal), add("erfinv", erfinv), add("lgamma", lgamma);
  add("digamma", digamma), add("ndtr", special::ndtr);
  add_("erfinv_", erfinv_), add_("lgamma_", lgamma_), add_("digamma_", digamma_);
  t["polygamma"] = [](In x, Args a) { return Tensors{polygamma(a["n"], x[0])}; };
  t["mvlgamma"] = [](In x, Args a) { return Tensors{mvlgamma(x[0], a["p"])}; };
  add_("asin_", asin_), add_("acos_", acos_), add_("atan_", atan_), add_("sinh_", sinh_);
  add_("cosh_", cosh_), add_("asinh_", asinh_), add_("acosh_", acosh_), add_("atanh_", atanh_);
  add_("log10_", log10_), add_("erfc_", erfc_), add_("sinc_", sinc_), add_("deg2rad_", deg2rad_);
  add_("rad2deg_", rad2deg_), add_("frac_", frac_), add_("sgn_", sgn_), add_("selu_", selu_);
}

void add_activations(Table& t) {
  t["leaky_relu"] = [](In x, Args a) { return Tensors{leaky_relu(x[0], a["slope"])}; };
  t["leaky_relu_"] = [](In x, Args a) { return Tensors{leaky_relu_(x[0], a["slope"])}; };
  t["elu"] = [](In x, Args a) { return Tensors{elu(x[0], a["alpha"])}; };
  t["elu_"] = [](In x, Args a) { return Tensors{elu_(x[0], a["alpha"])}; };
  t["gelu"] = [](In x, Args a) {
    return Tensors{gelu(x[0], a["tanh"] ? GeluApproximation::tanh : GeluApproximation::none)};
  };
  t["softplus"] = [](In x, Args a) { return Tensors{softplus(x[0], a["beta"], a["threshold"])}; };
  t["hardtanh"] = [](In x, Args a) { return Tensors{hardtanh(x[0], a["min"], a["max"])}; };
  t["hardtanh_"] = [](In x, Args a) { return Tensors{hardtanh_(x[0], a["min"], a["max"])}; };
  t["clamp"] = [](In x, Args a) {
    return Tensors{clamp(x[0], maybe_scalar(a, "min"), maybe_scalar(a, "max"))};
  };
  t["clamp_"] = [](In x, Args a) {
    return Tensors{x[0].clamp_(maybe_scalar(a, "min"), maybe_scalar(a, "max"))};
  };
  t["celu"] = [](In x, Args a) { return Tensors{celu(x[0], a["alpha"])}; };
  t["celu_"] = [](In x, Args a) { return Tensors{celu_(x[0], a["alpha"])}; };
  t["hardshrink"] = [](In x, Args a) { return Tensors{hardshrink(x[0], a["limit"])}; };
  t["softshrink"] = [](In x, Args a) { return Tensors{softshrink(x[0], a["limit"])}; };
  t["threshold"] = [](In x, Args a) { return Tensors{threshold(x[0], a["limit"], a["value"])}; };
  t["threshold_"] = [](In x, Args a) { return Tensors{threshold_(x[0], a["limit"], a["value"])}; };
  t["rrelu"] = [](In x, Args) { return Tensors{rrelu(x[0])}; };
  t["rrelu_"] = [](In x, Args) { return Tensors{rrelu_(x[0])}; };
  t["prelu"] = [](In x, Args) { return Tensors{prelu(x[0], x[1])}; };
  t["glu"] = [](In x, Args a) { return Tensors{glu(x[0], a["dim"])}; };
  t["logit"] = [](In x, Args a) { return Tensors{logit(x[0], maybe<double>(a, "eps"))}; };
  t["logit_"] = [](In x, Args a) { return Tensors{logit_(x[0], maybe<double>(a, "eps"))}; };
  t["nan_to_num"] = [](In x, Args a) {
    return Tensors{
        nan_to_num(x[0], a["nan"], maybe<double>(a, "posinf"), maybe<double>(a, "neginf"))};
  };
  t["nan_to_num_"] = [](In x, Args a) {
    return Tensors{
        nan_to_num_(x[0], a["nan"], maybe<double>(a, "posinf"), maybe<double>(a, "neginf"))};
  };
}

void add_blends(Table& t) {
  t["lerp"] = [](In x, Args) { return Tensors{lerp(x[0], x[1], x[2])}; };
  t["lerp_"] = [](In x, Args) { return Tensors{lerp_(x[0], x[1], x[2])}; };
  t["lerp_scalar"] = [](In x, Args a) { return Tensors{lerp(x[0], x[1], to_scalar(a["other"]))}; };
  t["lerp_scalar_"] = [](In x, Args a) {
    return Tensors{lerp_(x[0], x[1], to_scalar(a["other"]))};
  };
  using Scaled = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, Scalar);
  using InPlace = const Tensor& (*)(const Tensor&, const Tensor&, const Tensor&, Scalar);
  const auto add = [&](const char* name, Scaled f) {
    t[name] = [f](In x, Args a) { return Tensors{f(x[0], x[1], x[2], to_scalar(a["other"]))}; };
  };
  const auto add_ = [&](const char* name, InPlace f) {
    t[name] = [f](In x, Args a) { return Tensors{f(x[0], x[1], x[2], to_scalar(a["other"]))}; };
  };
  add("addcmul", addcmul), add("addcdiv", addcdiv);
  add_("addcmul_", addcmul_), add_("addcdiv_", addcdiv_);
}

void add_in_place(Table& t) {
  using Method = const Tensor& (Tensor::*)(const Tensor&) const;
  const auto add = [&](const char* name, Method f) {
    t[name] = [f](In in, Args) { return Tensors{(in[0].*f)(in[1])}; };
  };
  add("atan2_", &Tensor::atan2_), add("hypot_", &Tensor::hypot_), add("xlogy_", &Tensor::xlogy_);
  add("copysign_", &Tensor::copysign_), add("eq_", &Tensor::eq_), add("lt_", &Tensor::lt_);
  add("ge_", &Tensor::ge_), add("logical_and_", &Tensor::logical_and_);
  add("logical_xor_", &Tensor::logical_xor_), add("bitwise_and_", &Tensor::bitwise_and_);
  add("bitwise_or_", &Tensor::bitwise_or_), add("bitwise_xor_", &Tensor::bitwise_xor_);
  add("bitwise_left_shift_", &Tensor::bitwise_left_shift_);
  add("bitwise_right_shift_", &Tensor::bitwise_right_shift_);
}

void add_binary(Table& t) {
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  using Scaled = Tensor (*)(const Tensor&, Scalar);
  const auto add = [&](const char* name, Binary f) {
    t[name] = [f](In in, Args) { return Tensors{f(in[0], in[1])}; };
  };
  const auto add_scalar = [&](const std::string& name, Scaled f) {
    t[name + "_scalar"] = [f](In in, Args a) { return Tensors{f(in[0], to_scalar(a["other"]))}; };
  };
  add("mul", mul), add("div", div), add("pow", pow), add("maximum", maximum);
  add("minimum", minimum), add("eq", eq), add("ne", ne), add("lt", lt), add("le", le);
  add("gt", gt), add("ge", ge), add("logical_and", logical_and), add("logical_or", logical_or);
  add("logical_xor", logical_xor), add("atan2", atan2), add("floor_divide", floor_divide);
  add("remainder", remainder), add("fmod", fmod), add("hypot", hypot), add("copysign", copysign);
  add("logaddexp", logaddexp), add("logaddexp2", logaddexp2), add("xlogy", xlogy);
  add("heaviside", heaviside), add("bitwise_and", bitwise_and), add("bitwise_or", bitwise_or);
  add("bitwise_xor", bitwise_xor), add("fmax", fmax), add("fmin", fmin);
  add("bitwise_left_shift", bitwise_left_shift), add("bitwise_right_shift", bitwise_right_shift);
  add("float_power", float_power);
  add_scalar("add", ferrite::add), add_scalar("sub", sub), add_scalar("mul", mul);
  add_scalar("div", div), add_scalar("pow", pow), add_scalar("eq", eq), add_scalar("ne", ne);
  add_scalar("lt", lt), add_scalar("le", le), add_scalar("gt", gt), add_scalar("ge", ge);
  add_scalar("floor_divide", floor_divide), add_scalar("remainder", remainder);
  add_scalar("fmod", fmod), add_scalar("copysign", copysign), add_scalar("xlogy", xlogy);
  add_scalar("bitwise_and", bitwise_and), add_scalar("bitwise_or", bitwise_or);
  add_scalar("bitwise_xor", bitwise_xor), add_scalar("bitwise_left_shift", bitwise_left_shift);
  add_scalar("bitwise_right_shift", bitwise_right_shift);
  t["clamp_tensor"] = [](In in, Args) { return Tensors{clamp(in[1], in[2])}; };
  for (const std::string mode : {"trunc", "floor"}) {
    t["div_" + mode] = [=](In in, Args) { return Tensors{div(in[0], in[1], mode)}; };
    t["div_" + mode + "_scalar"] = [=](In in, Args a) {
      return Tensors{div(in[0], to_scalar(a["other"]), mode)};
    };
  }
  t["rxlogy_scalar"] = [](In in, Args a) { return Tensors{xlogy(to_scalar(a["other"]), in[0])}; };
  t["isclose"] = [](In in, Args a) {
    return Tensors{isclose(in[0], in[1], a["rtol"], a["atol"], a["equal_nan"])};
  };
  t["rsub_scalar"] = [](In in, Args a) { return Tensors{to_scalar(a["other"]) - in[0]}; };
  t["rdiv_scalar"] = [](In in, Args a) { return Tensors{to_scalar(a["other"]) / in[0]}; };
  t["rpow_scalar"] = [](In in, Args a) { return Tensors{pow(to_scalar(a["other"]), in[0])}; };
  t["add"] = [](In in, Args a) {
    return Tensors{ferrite::add(in[0], in[1], to_scalar(a["alpha"]))};
  };
  t["sub"] = [](In in, Args a) { return Tensors{sub(in[0], in[1], to_scalar(a["alpha"]))}; };
  t["add_"] = [](In in, Args a) { return Tensors{in[0].add_(in[1], to_scalar(a["alpha"]))}; };
  t["sub_"] = [](In in, Args a) { return Tensors{in[0].sub_(in[1], to_scalar(a["alpha"]))}; };
  t["mul_"] = [](In in, Args) { return Tensors{in[0].mul_(in[1])}; };
  t["div_"] = [](In in, Args) { return Tensors{in[0].div_(in[1])}; };
  t["floor_divide_"] = [](In in, Args) { return Tensors{in[0].floor_divide_(in[1])}; };
  t["remainder_"] = [](In in, Args) { return Tensors{in[0].remainder_(in[1])}; };
  t["fmod_"] = [](In in, Args) { return Tensors{in[0].fmod_(in[1])}; };
  t["pow_"] = [](In in, Args) { return Tensors{pow_(in[0], in[1])}; };
  t["copy_"] = [](In in, Args) { return Tensors{in[0].copy_(in[1])}; };
  t["add_scalar_"] = [](In in, Args a) { return Tensors{in[0].add_(to_scalar(a["other"]))}; };
  t["sub_scalar_"] = [](In in, Args a) { return Tensors{in[0].sub_(to_scalar(a["other"]))}; };
  t["mul_scalar_"] = [](In in, Args a) { return Tensors{in[0].mul_(to_scalar(a["other"]))}; };
  t["div_scalar_"] = [](In in, Args a) { return Tensors{in[0].div_(to_scalar(a["other"]))}; };
  t["pow_scalar_"] = [](In in, Args a) { return Tensors{pow_(in[0], to_scalar(a["other"]))}; };
  t["fill_"] = [](In in, Args a) { return Tensors{in[0].fill_(to_scalar(a["other"]))}; };
  t["to"] = [](In in, Args a) {
    return Tensors{in[0].to(parse_dtype(a["dtype"].get<std::string>()))};
  };
  t["where"] = [](In in, Args) { return Tensors{where(in[0], in[1], in[2])}; };
  t["where_scalar"] = [](In in, Args a) {
    return Tensors{where(in[0], in[1], to_scalar(a["other"])),
                   where(in[0], to_scalar(a["other"]), in[1])};
  };
}

}  // namespace

void add_elementwise(Table& table) {
  add_unary(table);
  add_activations(table);
  add_binary(table);
  add_in_place(table);
  add_blends(table);
}

}  // namespace ferrite::differential
