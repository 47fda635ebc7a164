#include "ferrite/ops/activation.h"

#include <cmath>
#include <functional>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/kernels/unary.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

struct Case {
  const char* name;
  std::function<Tensor(const Tensor&)> f;
  std::function<double(double)> reference;
  std::function<void(const Tensor&)> inplace = nullptr;
};

double cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

const std::vector<Case> kCases = {
    {"relu", [](const Tensor& x) { return relu(x); }, [](double x) { return std::max(x, 0.0); },
     [](const Tensor& x) { relu_(x); }},
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.1); },
     [](double x) { return x > 0 ? x : 0.1 * x; }, [](const Tensor& x) { leaky_relu_(x, 0.1); }},
    {"elu", [](const Tensor& x) { return elu(x, 0.7); },
     [](double x) { return x > 0 ? x : 0.7 * std::expm1(x); },
     [](const Tensor& x) { elu_(x, 0.7); }},
    {"gelu", [](const Tensor& x) { return gelu(x); }, [](double x) { return x * cdf(x); }},
    {"gelu_tanh", [](const Tensor& x) { return gelu(x, GeluApproximation::tanh); },
     [](double x) {
       return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
     }},
    {"silu", [](const Tensor& x) { return silu(x); },
     [](double x) { return x / (1 + std::exp(-x)); }, [](const Tensor& x) { silu_(x); }},
    {"sigmoid", [](const Tensor& x) { return sigmoid(x); },
     [](double x) { return 1 / (1 + std::exp(-x)); }, [](const Tensor& x) { sigmoid_(x); }},
    {"tanh", [](const Tensor& x) { return tanh(x); }, [](double x) { return std::tanh(x); },
     [](const Tensor& x) { tanh_(x); }},
    {"softplus", [](const Tensor& x) { return softplus(x, 2, 5); },
     [](double x) { return 2 * x > 5 ? x : std::log1p(std::exp(2 * x)) / 2; }},
    {"hardtanh", [](const Tensor& x) { return hardtanh(x, -0.5, 1.5); },
     [](double x) { return std::clamp(x, -0.5, 1.5); },
     [](const Tensor& x) { hardtanh_(x, -0.5, 1.5); }},
    {"clamp", [](const Tensor& x) { return clamp(x, -0.5, 1.5); },
     [](double x) { return std::clamp(x, -0.5, 1.5); },
     [](const Tensor& x) { x.clamp_(-0.5, 1.5); }},
};

Tensor numbers(const Shape& shape, DType dtype, double std = 2) {
  Generator generator(3);
  return normal(0, std, shape, {.dtype = kFloat64}, &generator).to(dtype);
}

std::vector<double> mapped(const Tensor& x, const std::function<double(double)>& f) {
  std::vector<double> values = x.to_vector<double>();
  for (double& v : values) v = f(v);
  return values;
}

/// f(x) loses digits where 1 + erf(x) or 1 + tanh(x) cancel: an absolute tolerance covers that.
double atol_of(DType dtype) { return rounding_of(dtype) * 0.1; }

}  // namespace

TEST_CASE("activation: values against float64, dtypes, sizes and layouts") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
      CAPTURE(dtype);
      const double rtol = rounding_of(dtype), atol = atol_of(dtype);
      for (std::int64_t n : {0, 1, 5, 255, 33333}) {
        const Tensor x = numbers({n}, dtype);
        CHECK(c.f(x).dtype() == dtype);
        check_close(c.f(x), mapped(x, c.reference), rtol, atol);
      }
      const Tensor x = numbers({2, 3, 5, 7}, dtype);
      check_close(c.f(x.transpose(1, 3)), mapped(x.transpose(1, 3), c.reference), rtol, atol);
      const Tensor nhwc = x.contiguous(kChannelsLast);
      CHECK(c.f(nhwc).is_contiguous(kChannelsLast));
      check_close(c.f(nhwc), mapped(x, c.reference), rtol, atol);
    }
  }
}

TEST_CASE("activation: small results keep their digits") {
  const std::vector<Case> cases = {
      {"elu", [](const Tensor& x) { return elu(x); },
       [](double x) { return x > 0 ? x : std::expm1(x); }},
      {"selu", [](const Tensor& x) { return selu(x); },
       [](double x) {
         return kernels::kSeluScale * (x > 0 ? x : kernels::kSeluAlpha * std::expm1(x));
       }},
      {"celu", [](const Tensor& x) { return celu(x, 0.5); },
       [](double x) { return x > 0 ? x : 0.5 * std::expm1(x / 0.5); }},
      {"celu of a negative alpha", [](const Tensor& x) { return celu(x, -2); },
       [](double x) { return x > 0 ? x : -2 * std::expm1(x / -2); }},
      {"expm1", [](const Tensor& x) { return expm1(x); }, [](double x) { return std::expm1(x); }},
      {"softplus", [](const Tensor& x) { return softplus(x); },
       [](double x) { return x > 20 ? x : std::log1p(std::exp(x)); }},
      {"logsigmoid", [](const Tensor& x) { return logsigmoid(x); },
       [](double x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); }},
      {"mish", [](const Tensor& x) { return mish(x); },
       [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }}};
  std::vector<double> xs = {0};
  for (double x = 1e-30; x < 80; x *= 1.37) xs.insert(xs.end(), {x, -x});
  for (const DType dtype : {kFloat32, kFloat64})
    for (const Case& c : cases) {
      CAPTURE(c.name);
      CAPTURE(dtype);
      const Tensor x = tensor(xs).to(dtype);
      check_close(c.f(x), mapped(x, c.reference), dtype == kFloat64 ? 4e-15 : 1e-6, 0);
    }
}

TEST_CASE("activation: PyTorch's values and gradients") {
  const Golden golden("elementwise");
  const Tensor x = golden.get("activation", "x"), grad = golden.get("activation", "grad");
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    check_close(c.f(golden.get("activation", "edge")), golden.get(c.name, "edge"), 1e-5, 1e-6);
    const Tensor leaf = x.clone().set_requires_grad();
    const Tensor y = c.f(leaf);
    check_close(y, golden.get(c.name, "y"), 1e-5, 1e-6);
    y.backward(grad);
    check_close(leaf.grad(), golden.get(c.name, "grad"), 1e-5, 1e-6);
    if (!c.inplace) continue;
    const Tensor other = x.clone().set_requires_grad(), z = other * 1;
    c.inplace(z);
    z.backward(grad);
    check_close(other.grad(), golden.get(c.name, "grad"), 1e-5, 1e-6);
  }
}

TEST_CASE("activation: gradients to second order; the one-pass form agrees with the formula") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const Tensor x = numbers({3, 5}, kFloat64, 1.5).set_requires_grad();
    CHECK(autograd::gradcheck([&](const auto& in) { return c.f(in[0]); }, {x},
                              {.second_order = true}));
    if (c.inplace)
      CHECK(autograd::gradcheck(
          [&](const auto& in) {
            const Tensor y = in[0] * 1;
            c.inplace(y);
            return y;
          },
          {x}, {.second_order = true}));
    // Kinks included.
    const Tensor edges = tensor({-30.0, -0.5, 0.0, 1.5, 2.5, 30.0}, {.dtype = kFloat64});
    edges.set_requires_grad();
    const std::vector<Tensor> in = {edges}, out = {sum(c.f(edges))};
    const Tensor one_pass = autograd::grad(out, in, {}, true)[0];
    check_close(autograd::grad(out, in, {}, true, true)[0], one_pass, 1e-12, 1e-15);
  }
}

TEST_CASE("activation: gradients of 16-bit types and of mixed layouts") {
  for (const Case& c : kCases) {
    CAPTURE(c.name);
    const Tensor x = numbers({2, 3, 4, 5}, kFloat64), grad = numbers({2, 3, 4, 5}, kFloat64, 1);
    const auto gradient = [&](const Tensor& leaf, const Tensor& g) {
      leaf.set_requires_grad();
      c.f(leaf).backward(g);
      return leaf.grad();
    };
    for (DType dtype : {kFloat32, kFloat16, kBFloat16}) {
      const Tensor rounded = x.to(dtype), g = grad.to(dtype);
      const Tensor expected = gradient(rounded.to(kFloat64), g.to(kFloat64));
      // Functions of the output see that rounded to the dtype.
      const double tol = 4 * rounding_of(dtype);
      check_close(gradient(rounded.clone(), g), expected, tol, tol);
      const Tensor nhwc = gradient(rounded.clone(kChannelsLast), g);
      CHECK(nhwc.is_contiguous(kChannelsLast));
      check_close(nhwc, expected, tol, tol);
      check_close(gradient(rounded.clone(), g.contiguous(kChannelsLast)), expected, tol, tol);
    }
  }
}

TEST_CASE("activation: relu of NaN, integers and views") {
  const Tensor x = tensor({NAN, -1.0f, 2.0f, -INFINITY, INFINITY});
  check_equal(relu(x), tensor({NAN, 0.0f, 2.0f, 0.0f, INFINITY}));
  check_equal(relu(tensor({-3, 4})), tensor({0, 4}));
  check_equal(relu(tensor({3, 4}, {.dtype = kUInt8})), tensor({3, 4}, {.dtype = kUInt8}));
  check_equal(hardtanh(tensor({-3, 0, 4})), tensor({-1, 0, 1}));
  check_equal(relu6(tensor({-3.0, 4.0, 7.0})), tensor({0.0, 4.0, 6.0}));
  CHECK(sigmoid(tensor({0, 1})).dtype() == kFloat32);
  CHECK_THROWS_AS(relu(tensor({true})), DTypeError);
  CHECK_THROWS_AS(sigmoid_(tensor({1, 2})), DTypeError);
  CHECK_THROWS_AS(relu(Tensor()), ValueError);
  CHECK_THROWS_AS(hardtanh(x, 1, -1), ValueError);
  CHECK_THROWS_AS(softplus(x, 0), ValueError);
}

TEST_CASE("activation: leaky_relu in place with a negative slope") {
  const Tensor x = tensor({-2.0, 3.0}).set_requires_grad(), y = x * 1;
  leaky_relu_(y, -0.5);
  check_close(y, {1, 3});
  sum(y).backward();
  check_close(x.grad(), {-0.5, 1});
}

TEST_CASE("activation: on a virtual device") {
  const Tensor x = numbers({4, 6}, kFloat32).set_requires_grad();
  const Tensor there = x.detach().to("cpu:0").set_requires_grad();
  sum(gelu(x) * gelu(x)).backward();
  sum(gelu(there) * gelu(there)).backward();
  check_equal(there.grad().cpu(), x.grad());
}
