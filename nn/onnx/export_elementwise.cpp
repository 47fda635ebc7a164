// Functions of elements: of one tensor, of two, of a tensor and a number.
#include <cmath>
#include <limits>
#include <numbers>

#include "ferrite/kernels/unary.h"
#include "ferrite/nn/onnx/builder.h"
#include "ferrite/ops/promotion.h"

namespace ferrite::onnx {

namespace {

using kernels::UnaryOp;

/// Short names for the nodes of formulas on values of one dtype.
struct Formula {
  Builder& graph;
  DType dtype;
  std::string number(double value) const { return graph.scalar(value, dtype); }
  std::string add(const std::string& a, const std::string& b) const {
    return graph.node("Add", {a, b});
  }
  std::string sub(const std::string& a, const std::string& b) const {
    return graph.node("Sub", {a, b});
  }
  std::string mul(const std::string& a, const std::string& b) const {
    return graph.node("Mul", {a, b});
  }
  std::string div(const std::string& a, const std::string& b) const {
    return graph.node("Div", {a, b});
  }
};

/// The operator of the same meaning, if there is one without attributes.
const char* plain_operator(UnaryOp op) {
  switch (op) {
    case UnaryOp::neg:
      return "Neg";
    case UnaryOp::abs:
      return "Abs";
    case UnaryOp::sign:
      return "Sign";
    case UnaryOp::relu:
      return "Relu";
    case UnaryOp::floor:
      return "Floor";
    case UnaryOp::ceil:
      return "Ceil";
    case UnaryOp::round:
      return "Round";
    case UnaryOp::exp:
      return "Exp";
    case UnaryOp::log:
      return "Log";
    case UnaryOp::sqrt:
      return "Sqrt";
    case UnaryOp::reciprocal:
      return "Reciprocal";
    case UnaryOp::sin:
      return "Sin";
    case UnaryOp::cos:
      return "Cos";
    case UnaryOp::tan:
      return "Tan";
    case UnaryOp::asin:
      return "Asin";
    case UnaryOp::acos:
      return "Acos";
    case UnaryOp::atan:
      return "Atan";
    case UnaryOp::sinh:
      return "Sinh";
    case UnaryOp::cosh:
      return "Cosh";
    case UnaryOp::asinh:
      return "Asinh";
    case UnaryOp::acosh:
      return "Acosh";
    case UnaryOp::atanh:
      return "Atanh";
    case UnaryOp::erf:
      return "Erf";
    case UnaryOp::tanh:
      return "Tanh";
    case UnaryOp::sigmoid:
      return "Sigmoid";
    case UnaryOp::hardswish:
      return "HardSwish";
    default:
      return nullptr;
  }
}

std::string gelu(const Formula& f, const std::string& x) {
  const std::string erf = f.graph.node("Erf", {f.mul(x, f.number(1 / std::numbers::sqrt2))});
  return f.mul(f.mul(x, f.number(0.5)), f.add(erf, f.number(1)));
}

std::string gelu_tanh(const Formula& f, const std::string& x) {
  const std::string cube = f.mul(f.mul(x, x), f.mul(x, f.number(0.044715)));
  const std::string t = f.graph.node(
      "Tanh", {f.mul(f.add(x, cube), f.number(std::numbers::sqrt2 * std::numbers::inv_sqrtpi))});
  return f.mul(f.mul(x, f.number(0.5)), f.add(t, f.number(1)));
}

std::string softplus(const Formula& f, const std::string& x, double beta, double threshold) {
  if (beta == 1 && threshold >= 20) return f.graph.node("Softplus", {x});
  const std::string scaled = f.mul(x, f.number(beta));
  const std::string soft = f.div(f.graph.node("Softplus", {scaled}), f.number(beta));
  return f.graph.node("Where", {f.graph.node("Greater", {scaled, f.number(threshold)}), x, soft});
}

/// x held between bounds, those that are there.
std::string clip(Builder& graph, const std::string& x, DType dtype, std::optional<Scalar> min,
                 std::optional<Scalar> max) {
  return graph.node(
      "Clip", {x, min ? graph.scalar(*min, dtype) : "", max ? graph.scalar(*max, dtype) : ""});
}

std::optional<Scalar> finite(Scalar bound) {
  if (std::isinf(bound.to<double>())) return {};
  return bound;
}

void export_unary(Exported& e) {
  const auto function = static_cast<UnaryOp>(e.op.integer("function"));
  const DType dtype = e.output().dtype();
  const std::string x = e.as(0, dtype);
  const Formula f{e.graph, dtype};
  if (const char* const type = plain_operator(function)) return e.give(e.graph.node(type, {x}));
  const double a = e.op.scalar("a").to<double>(), b = e.op.scalar("b").to<double>();
  const auto attribute = [](const char* name, double value) {
    return NamedAttribute{name, static_cast<float>(value)};
  };
  const auto give = [&](const char* type, std::vector<NamedAttribute> attributes) {
    e.give(e.graph.node(type, {x}, attributes));
  };
  switch (function) {
    case UnaryOp::square:
      return e.give(f.mul(x, x));
    case UnaryOp::clamp:
      return e.give(clip(e.graph, x, dtype, finite(e.op.scalar("a")), finite(e.op.scalar("b"))));
    case UnaryOp::exp2:
      return e.give(e.graph.node("Pow", {f.number(2), x}));
    case UnaryOp::expm1:
      return e.give(f.sub(e.graph.node("Exp", {x}), f.number(1)));
    case UnaryOp::log1p:
      return e.give(e.graph.node("Log", {f.add(x, f.number(1))}));
    case UnaryOp::log2:
      return e.give(f.mul(e.graph.node("Log", {x}), f.number(std::numbers::log2e)));
    case UnaryOp::log10:
      return e.give(f.mul(e.graph.node("Log", {x}), f.number(std::numbers::log10e)));
    case UnaryOp::rsqrt:
      return e.give(e.graph.node("Reciprocal", {e.graph.node("Sqrt", {x})}));
    case UnaryOp::erfc:
      return e.give(f.sub(f.number(1), e.graph.node("Erf", {x})));
    case UnaryOp::leaky_relu:
      return give("LeakyRelu", {attribute("alpha", a)});
    case UnaryOp::elu:
      return give("Elu", {attribute("alpha", a)});
    case UnaryOp::celu:
      return give("Celu", {attribute("alpha", a)});
    case UnaryOp::selu:
      return give("Selu", {});
    case UnaryOp::gelu:
      return e.give(gelu(f, x));
    case UnaryOp::gelu_tanh:
      return e.give(gelu_tanh(f, x));
    case UnaryOp::silu:
      return e.give(f.mul(x, e.graph.node("Sigmoid", {x})));
    case UnaryOp::mish:
      return e.give(f.mul(x, e.graph.node("Tanh", {e.graph.node("Softplus", {x})})));
    case UnaryOp::softplus:
      return e.give(softplus(f, x, a, b));
    case UnaryOp::hardshrink:
      return give("Shrink", {attribute("lambd", a), attribute("bias", 0)});
    case UnaryOp::softshrink:
      return give("Shrink", {attribute("lambd", a), attribute("bias", a)});
    case UnaryOp::threshold:
      return e.give(
          e.graph.node("Where", {e.graph.node("Greater", {x, f.number(a)}), x, f.number(b)}));
    case UnaryOp::hardsigmoid:
      return give("HardSigmoid", {attribute("alpha", 1.0 / 6), attribute("beta", 0.5)});
    default:
      e.op.refuse("ONNX has no such function");
  }
}

/// Both operands in `dtype`; the second may be the attribute "scalar".
std::pair<std::string, std::string> operands(Exported& e, DType dtype) {
  return {e.as(0, dtype), e.has(1) ? e.as(1, dtype) : e.graph.scalar(e.op.scalar("scalar"), dtype)};
}

template <const char* const& Type, bool Reversed = false>
void export_arithmetic(Exported& e) {
  auto [a, b] = operands(e, e.output().dtype());
  if (e.op.has("alpha")) {
    const Scalar alpha = e.op.scalar("alpha");
    if (alpha.to<double>() != 1)
      b = e.graph.node("Mul", {b, e.graph.scalar(alpha, e.output().dtype())});
  }
  if (Reversed) std::swap(a, b);
  e.give(e.graph.node(Type, {a, b}));
}

/// The rest of a division, with the sign of the dividend.
void export_fmod(Exported& e) {
  const auto [a, b] = operands(e, e.output().dtype());
  e.give(e.graph.node("Mod", {a, b}, {{"fmod", std::int64_t{1}}}));
}

/// With the sign of the divisor.
void export_remainder(Exported& e) {
  const DType dtype = e.output().dtype();
  const auto [a, b] = operands(e, dtype);
  if (!is_floating(dtype)) return e.give(e.graph.node("Mod", {a, b}));
  const std::string rest = e.graph.node("Mod", {a, b}, {{"fmod", std::int64_t{1}}});
  const std::string signs =
      e.graph.node("Mul", {e.graph.node("Sign", {rest}), e.graph.node("Sign", {b})});
  e.give(e.graph.node("Where", {e.graph.node("Less", {signs, e.graph.scalar(0, dtype)}),
                                e.graph.node("Add", {rest, b}), rest}));
}

template <const char* const& Type, bool Negated = false>
void export_comparison(Exported& e) {
  const DType dtype = e.has(1) ? ops::result_type(e.input(0).tensor, e.input(1).tensor)
                               : ops::result_type(e.input(0).tensor, e.op.scalar("scalar"));
  const auto [a, b] = operands(e, dtype);
  const std::string result = e.graph.node(Type, {a, b});
  e.give(Negated ? e.graph.node("Not", {result}) : result);
}

template <const char* const& Type>
void export_logical(Exported& e) {
  e.give(e.graph.node(Type, {e.as(0, kBool), e.as(1, kBool)}));
}

/// The operators of bool and of integers.
template <const char* const& Logical, const char* const& Bitwise>
void export_bitwise(Exported& e) {
  const DType dtype = e.output().dtype();
  if (dtype != kBool && e.graph.opset() < 18)
    e.op.refuse("of integers it needs opset 18: save with .opset = 18");
  const auto [a, b] = operands(e, dtype);
  e.give(e.graph.node(dtype == kBool ? Logical : Bitwise, {a, b}));
}

void export_not(Exported& e) { e.give(e.graph.node("Not", {e.as(0, kBool)})); }
void export_isnan(Exported& e) { e.give(e.graph.node("IsNaN", {e.inputs[0]})); }

void export_where(Exported& e) {
  const DType dtype = e.output().dtype();
  e.give(e.graph.node("Where", {e.as(0, kBool), e.as(1, dtype), e.as(2, dtype)}));
}

void export_masked_fill(Exported& e) {
  e.give(e.graph.node(
      "Where",
      {e.inputs[1], e.graph.scalar(e.op.scalar("value"), e.output().dtype()), e.inputs[0]}));
}

void export_clamp(Exported& e) {
  const auto bound = [&](const char* name) {
    return e.op.has(name) ? std::optional(e.op.scalar(name)) : std::nullopt;
  };
  e.give(
      clip(e.graph, e.as(0, e.output().dtype()), e.output().dtype(), bound("min"), bound("max")));
}

void export_to(Exported& e) { e.give(e.as(0, e.output().dtype())); }

void export_copy(Exported& e) {
  const std::string source = e.as(1, e.output().dtype());
  if (e.input(1).shape == e.output().shape) return e.give(source);
  e.give(e.graph.node("Expand", {source, e.graph.sizes(e.output().shape)}));
}

constexpr const char *kAdd = "Add", *kSub = "Sub", *kMul = "Mul", *kDiv = "Div", *kPow = "Pow",
                     *kMax = "Max", *kMin = "Min", *kEqual = "Equal", *kLess = "Less",
                     *kLessOrEqual = "LessOrEqual", *kGreater = "Greater",
                     *kGreaterOrEqual = "GreaterOrEqual", *kAnd = "And", *kOr = "Or", *kXor = "Xor",
                     *kBitwiseAnd = "BitwiseAnd", *kBitwiseOr = "BitwiseOr",
                     *kBitwiseXor = "BitwiseXor";

}  // namespace

const ExporterTable& elementwise_exporters() {
  static const ExporterTable table{
      {"unary", export_unary},
      {"add", export_arithmetic<kAdd>},
      {"sub", export_arithmetic<kSub>},
      {"rsub", export_arithmetic<kSub, true>},
      {"mul", export_arithmetic<kMul>},
      {"div", export_arithmetic<kDiv>},
      {"rdiv", export_arithmetic<kDiv, true>},
      {"pow", export_arithmetic<kPow>},
      {"rpow", export_arithmetic<kPow, true>},
      {"maximum", export_arithmetic<kMax>},
      {"minimum", export_arithmetic<kMin>},
      {"remainder", export_remainder},
      {"fmod", export_fmod},
      {"eq", export_comparison<kEqual>},
      {"ne", export_comparison<kEqual, true>},
      {"lt", export_comparison<kLess>},
      {"le", export_comparison<kLessOrEqual>},
      {"gt", export_comparison<kGreater>},
      {"ge", export_comparison<kGreaterOrEqual>},
      {"logical_and", export_logical<kAnd>},
      {"logical_or", export_logical<kOr>},
      {"logical_xor", export_logical<kXor>},
      {"logical_not", export_not},
      {"bitwise_and", export_bitwise<kAnd, kBitwiseAnd>},
      {"bitwise_or", export_bitwise<kOr, kBitwiseOr>},
      {"bitwise_xor", export_bitwise<kXor, kBitwiseXor>},
      {"isnan", export_isnan},
      {"where", export_where},
      {"masked_fill", export_masked_fill},
      {"clamp", export_clamp},
      {"to", export_to},
      {"clone", export_to},
      {"copy", export_copy},
  };
  return table;
}

}  // namespace ferrite::onnx
