// Values and gradients recorded from PyTorch for the ops whose own tests compare them with plain
// loops: arithmetic, functions of one tensor, where, joins, products and convolutions.
#include "ferrite/tests/support/golden.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Unary = Tensor (*)(const Tensor&);
using Binary = std::function<Tensor(const Tensor&, const Tensor&)>;

Tensor leaf(const Tensor& t) { return t.clone().set_requires_grad(); }

}  // namespace

TEST_CASE("golden: gradients of arithmetic, broadcast and beside scalars") {
  const Golden golden("arithmetic");
  const std::map<std::string, Binary> functions{
      {"add", [](const Tensor& a, const Tensor& b) { return add(a, b, 2); }},
      {"sub", [](const Tensor& a, const Tensor& b) { return sub(a, b, -3); }},
      {"mul", [](const Tensor& a, const Tensor& b) { return a * b; }},
      {"div", [](const Tensor& a, const Tensor& b) { return a / b; }},
      {"add_scalar", [](const Tensor& a, const Tensor& b) { return (a + 2) + (3 + b); }},
      {"sub_scalar", [](const Tensor& a, const Tensor& b) { return (a - 2) + (3 - b); }},
      {"mul_scalar", [](const Tensor& a, const Tensor& b) { return (a * 2) + (3 * b); }},
      {"div_scalar", [](const Tensor& a, const Tensor& b) { return (a / 2) + (3 / b); }},
  };
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    const Tensor p = leaf(golden.get("gradients", "p")), q = leaf(golden.get("gradients", "q"));
    const Tensor y = f(p, q);
    y.backward(golden.get("gradients", "grad"));
    check_close(y, golden.get("gradient_" + name, "out"), 1e-12, 1e-14);
    check_close(p.grad(), golden.get("gradient_" + name, "p_grad"), 1e-12, 1e-14);
    check_close(q.grad(), golden.get("gradient_" + name, "q_grad"), 1e-12, 1e-14);
  }
}

TEST_CASE("golden: gradients of functions of one tensor") {
  const Golden golden("elementwise");
  const std::map<std::string, Unary> functions{
      {"neg", neg},       {"abs", abs},     {"sign", sign},
      {"square", square}, {"floor", floor}, {"ceil", ceil},
      {"round", round},   {"trunc", trunc}, {"exp", exp},
      {"exp2", exp2},     {"expm1", expm1}, {"log", log},
      {"log1p", log1p},   {"log2", log2},   {"sqrt", sqrt},
      {"rsqrt", rsqrt},   {"sin", sin},     {"cos", cos},
      {"tan", tan},       {"erf", erf},     {"reciprocal", reciprocal},
  };
  const Tensor smooth = golden.get("smooth", "x"), grad = golden.get("smooth", "grad");
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    const bool positive = name == "log" || name == "log1p" || name == "log2" || name == "sqrt" ||
                          name == "rsqrt" || name == "reciprocal";
    const Tensor x = leaf(positive ? abs(smooth) + 0.1 : smooth);
    f(x).backward(grad);
    check_close(x.grad(), golden.get(name, "smooth_grad"), 1e-11, 1e-13);
  }
}

TEST_CASE("golden: where") {
  const Golden golden("elementwise");
  const Tensor p = leaf(golden.get("where", "p")), q = leaf(golden.get("where", "q"));
  const Tensor y = where(golden.get("where", "condition"), p, q);
  y.backward(golden.get("binary", "grad").reshape(y.shape()));
  check_equal(y, golden.get("where", "out"));
  check_equal(p.grad(), golden.get("where", "p_grad"));
  check_close(q.grad(), golden.get("where", "q_grad"), 1e-5, 1e-6);
}

TEST_CASE("golden: joins and parts") {
  const Golden golden("views");
  const std::map<std::string, Binary> functions{
      {"cat",
       [](const Tensor& x, const Tensor& y) {
         return cat({x, y, x.slice(1, 1)}, 1);
       }},
      {"cat_last",
       [](const Tensor& x, const Tensor& y) {
         return cat({x, y}, -1);
       }},
      {"stack",
       [](const Tensor& x, const Tensor& y) {
         return stack({x, y, x});
       }},
      {"stack_inner",
       [](const Tensor& x, const Tensor& y) {
         return stack({x, y}, -2);
       }},
      {"split_sizes",
       [](const Tensor& x, const Tensor&) {
         const auto parts = split(x, {1, 0, 3}, 2);
         return parts[2] * parts[0] + sum(parts[1]);
       }},
      {"split",
       [](const Tensor&, const Tensor& y) {
         const auto parts = split(y, 2, 1);
         return parts[0] * parts[0] + parts[1];
       }},
      {"chunk",
       [](const Tensor&, const Tensor& y) {
         const auto parts = chunk(y, 3, -1);
         return cat(std::vector<Tensor>(parts.rbegin(), parts.rend()), 2);
       }},
      {"unbind",
       [](const Tensor& x, const Tensor& y) {
         return stack({unbind(x, 1)[2], unbind(y, 1)[0]});
       }},
      {"unflatten",
       [](const Tensor& x, const Tensor& y) {
         return unflatten(x, 2, {2, -1}).transpose(1, 2).reshape(y.shape()) * y;
       }},
  };
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    const Tensor a = leaf(golden.get("input", "x")), b = leaf(golden.get("other", "x"));
    const Tensor y = f(a, b);
    check_close(y, golden.get("join_" + name, "out"), 1e-12, 1e-14);
    const Tensor weights = linspace(-1, 2, y.numel(), {.dtype = kFloat64}).reshape(y.shape());
    sum(y * weights).backward();
    for (const auto& [key, t] : {std::pair{"grad_x", a}, {"grad_y", b}}) {
      CHECK(t.grad().defined() == golden.has("join_" + name, key));
      if (t.grad().defined()) check_close(t.grad(), golden.get("join_" + name, key), 1e-12, 1e-14);
    }
  }
}

TEST_CASE("golden: products of matrices and vectors") {
  using Function = std::function<Tensor(const std::vector<Tensor>&)>;
  const Function product = [](const auto& x) { return matmul(x[0], x[1]); };
  const Function with_bias = [](const auto& x) { return linear(x[0], x[1], x[2]); };
  const std::map<std::string, Function> functions{
      {"mm", [](const auto& x) { return mm(x[0], x[1]); }},
      {"mm_transposed", [](const auto& x) { return mm(x[0].t(), x[1].t()); }},
      {"bmm", [](const auto& x) { return bmm(x[0], x[1]); }},
      {"mv", [](const auto& x) { return mv(x[0], x[1]); }},
      {"dot", [](const auto& x) { return dot(x[0], x[1]); }},
      {"outer", [](const auto& x) { return outer(x[0], x[1]); }},
      {"matmul_1_1", product},
      {"matmul_1_2", product},
      {"matmul_2_1", product},
      {"matmul_3_2", product},
      {"matmul_2_3", product},
      {"matmul_1_3", product},
      {"matmul_4_3", product},
      {"linear", with_bias},
      {"linear_vector", with_bias},
      {"addmm", [](const auto& x) { return addmm(x[0], x[1], x[2]); }},
      {"addmm_scaled", [](const auto& x) { return addmm(x[0], x[1], x[2], 0.5, -2); }},
  };
  const Golden golden("matmul");
  for (const auto& [name, f] : functions)
    for (const DType dtype : {kFloat64, kFloat32}) {
      CAPTURE(name);
      const double tolerance = dtype == kFloat64 ? 1e-12 : 1e-5;
      std::vector<Tensor> in;
      for (int i = 0; golden.has(name, "x" + std::to_string(i)); ++i)
        in.push_back(leaf(golden.get(name, "x" + std::to_string(i)).to(dtype)));
      const Tensor y = f(in);
      y.backward(golden.get(name, "grad").to(dtype));
      check_close(y, golden.get(name, "out"), tolerance, tolerance);
      for (std::size_t i = 0; i < in.size(); ++i)
        check_close(in[i].grad(), golden.get(name, "grad" + std::to_string(i)), tolerance,
                    tolerance);
    }
}

namespace {

using Convolution = std::function<Tensor(const Tensor& x, const Tensor& w, const Tensor& b)>;

/// Sums of multiples of 1/64 that float32 holds: nothing rounds, whatever the order. 16-bit types
/// round once, at the end.
void check_convolutions(const std::string& family, const std::vector<Convolution>& cases) {
  const Golden golden("conv");
  for (std::size_t i = 0; i < cases.size(); ++i)
    for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16})
      for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
        const std::string name = family + std::to_string(i);
        CAPTURE(name);
        CAPTURE(dtype);
        const Tensor given = golden.get(name, "x");
        if (format == kChannelsLast && given.dim() != 4) continue;
        const Tensor x = leaf(given.to(dtype).contiguous(format));
        const Tensor w = leaf(golden.get(name, "w").to(dtype));
        const Tensor b = leaf(golden.get(name, "b").to(dtype));
        const Tensor y = cases[i](x, w, b);
        y.backward(golden.get(name, "grad").to(dtype));
        const double tolerance = dtype == kFloat16 || dtype == kBFloat16 ? rounding_of(dtype) : 0;
        check_close(y, golden.get(name, "out"), tolerance);
        check_close(x.grad(), golden.get(name, "dx"), tolerance);
        check_close(w.grad(), golden.get(name, "dw"), tolerance);
        check_close(b.grad(), golden.get(name, "db"), tolerance);
      }
}

Convolution conv2d_with(const Conv2dFuncOptions& o) {
  return [o](const Tensor& x, const Tensor& w, const Tensor& b) { return conv2d(x, w, b, o); };
}
Convolution transposed_with(const ConvTranspose2dFuncOptions& o) {
  return [o](const Tensor& x, const Tensor& w, const Tensor& b) {
    return conv_transpose2d(x, w, b, o);
  };
}
Convolution conv1d_with(const Conv1dFuncOptions& o) {
  return [o](const Tensor& x, const Tensor& w, const Tensor& b) { return conv1d(x, w, b, o); };
}

}  // namespace

TEST_CASE("golden: convolutions, to the last bit in float32") {
  check_convolutions("conv2d",
                     {conv2d_with({}), conv2d_with({.stride = {2, 1}, .padding = {1, 0}}),
                      conv2d_with({.padding = 2, .dilation = 2, .groups = 2}),
                      conv2d_with({.padding = 1, .groups = 6}), conv2d_with({.stride = 2}),
                      conv2d_with({.padding = Padding::same}),
                      conv2d_with({.stride = {1, 2}, .padding = {0, 2}, .dilation = {3, 1}})});
  check_convolutions(
      "transposed",
      {transposed_with({}), transposed_with({.stride = 2, .padding = 1, .output_padding = {1, 0}}),
       transposed_with({.stride = {1, 3}, .groups = 2, .dilation = {2, 1}})});
  check_convolutions(
      "conv1d",
      {conv1d_with({}), conv1d_with({.stride = 2, .padding = 2, .dilation = 2, .groups = 2})});
}
