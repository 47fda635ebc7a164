#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/tests/ops/reduce_util.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;
using autograd::gradcheck;

namespace {

using Function = std::function<Tensor(const Tensor&)>;
const double kInf = INFINITY;
const std::vector<Shape> kDims = {{}, {0}, {2}, {0, 2}, {1, 3}, {1, 2, 3}};

double variance(const std::vector<double>& v, int correction) {
  const double n = static_cast<double>(v.size()), mean = total(v) / n;
  double sum = 0;
  for (double x : v) sum += (x - mean) * (x - mean);
  return sum / (n - correction);
}

double norm_of(const std::vector<double>& v, double p) {
  double sum = 0, most = 0, least = kInf;
  for (double x : v) {
    most = std::max(most, std::abs(x));
    least = std::min(least, std::abs(x));
    sum += p == 0 ? x != 0 : std::pow(std::abs(x), p);
  }
  return p == kInf ? most : p == -kInf ? least : p == 0 ? sum : std::pow(sum, 1 / p);
}

double product(const std::vector<double>& v) {
  double result = 1;
  for (double x : v) result *= x;
  return result;
}

}  // namespace

TEST_CASE("var, std and norm agree with a float64 reference") {
  for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    CAPTURE(dtype);
    const double rtol = rounding_of(dtype);
    const Tensor base = numbers({3, 5, 4, 7}, dtype);
    for (const Tensor& t :
         {base, base.contiguous(kChannelsLast), base.permute({3, 1, 0, 2}), base.slice(3, 0, 7, 2)})
      for (const Shape& dims : kDims) {
        CAPTURE(dims.str());
        for (int correction : {0, 1, 2})
          check_close(var(t, dims, correction),
                      reference(t, dims, [&](const auto& v) { return variance(v, correction); }),
                      rtol, 1e-7);
        check_close(ferrite::std(t, dims, 1, true),
                    reference(t, dims, [](const auto& v) { return std::sqrt(variance(v, 1)); }),
                    rtol, 1e-7);
        for (double p : {2.0, 1.0, 3.0, 0.8, 0.0, kInf, -kInf}) {
          CAPTURE(p);
          check_close(norm(t, p, dims),
                      reference(t, dims, [&](const auto& v) { return norm_of(v, p); }), rtol, 1e-6);
        }
      }
  }
}

TEST_CASE("variance far from zero, and of too few") {
  // Sums of squares would lose all digits.
  const Tensor far = from_vector<float>({1e4f + 1, 1e4f + 2, 1e4f + 3}, {3});
  check_close(var(far), {1.0}, 1e-5);
  check_close(var(full({1}, 3.0)), {NAN});
  check_close(var(full({1}, 3.0), {}, 0), {0.0});
  check_close(var(empty({0})), {NAN});
  check_close(var(numbers({2, 3}), {0}, false), var(numbers({2, 3}), {0}, 0));
}

TEST_CASE("norms neither overflow nor vanish in float32") {
  check_close(norm(full({4}, 1e30f)), {2e30}, 1e-6);
  check_close(norm(full({4}, 1e-30f)), {2e-30}, 1e-6);
  check_close(norm(empty({0})), {0.0});
}

TEST_CASE("products and counts agree with a reference for every dtype") {
  for (DType dtype :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool}) {
    CAPTURE(dtype);
    const Tensor t = numbers({3, 5, 2}, dtype);
    const Tensor x = t.slice(1, 0, 3);
    CHECK(prod(x).dtype() == (is_floating(dtype) ? dtype : kInt64));
    const auto nonzeros = [](const auto& v) {
      double n = 0;
      for (double e : v) n += e != 0;
      return n;
    };
    for (int dim = 0; dim < 3; ++dim) {
      check_close(prod(x, dim), reference(x, {dim}, product), rounding_of(dtype), 1e-9);
      check_close(any(t, dim), reference(t, {dim}, [&](auto& v) { return nonzeros(v) > 0; }), 0);
      check_close(all(t, dim, true),
                  reference(t, {dim},
                            [&](auto& v) { return nonzeros(v) == static_cast<double>(v.size()); }),
                  0);
      check_close(count_nonzero(t, {dim}), reference(t, {dim}, nonzeros), 0);
    }
    CHECK(any(t).dtype() == (dtype == kUInt8 ? kUInt8 : kBool));
    CHECK(count_nonzero(t).dtype() == kInt64);
    check_close(count_nonzero(t), reference(t, {}, nonzeros), 0);
  }
  check_close(prod(empty({0})), {1.0});
  check_close(any(empty({0})), {0.0});
  check_close(all(empty({0})), {1.0});
  check_close(all(empty({0, 2}), 0), {1.0, 1.0});
  CHECK(all(full({}, 2.0)).item<bool>());
  check_close(prod(full({20}, 10.0f)), {1e20}, 1e-6);
  check_close(prod(from_vector<float>({1e30f, 1e30f, 1e-30f, 1e-30f}, {4})), {1.0}, 1e-5);
}

TEST_CASE("gradients of statistics") {
  const Tensor x = randn({3, 4, 2}, {.dtype = kFloat64}).set_requires_grad();
  const autograd::GradcheckOptions second{.second_order = true};
  CHECK(gradcheck([](const auto& in) { return var(in[0], {0, 2}); }, {x}, second));
  CHECK(gradcheck([](const auto& in) { return var(in[0] * in[0], {}, 0, true); }, {x}, second));
  CHECK(gradcheck([](const auto& in) { return ferrite::std(in[0], {1}); }, {x}, second));
  for (double p : {2.0, 1.0, 3.0, 1.5, 0.5, kInf, -kInf}) {
    CAPTURE(p);
    CHECK(gradcheck(
        [&](const auto& in) {
          return norm(in[0], p, {0, 2});
        },
        {x}, {.atol = 1e-4, .second_order = std::isfinite(p)}));
  }
  // A float16 vector whose 1 / norm overflows.
  const Tensor shorter = tensor({3e-6, 4e-6}, {.dtype = kFloat16}).set_requires_grad();
  norm(shorter).backward();
  check_close(shorter.grad(), {0.6, 0.8}, 0.02);
  CHECK(gradcheck([](const auto& in) { return prod(in[0], 1); }, {x}));
  CHECK(gradcheck([](const auto& in) { return prod(in[0].select(0, 0)); }, {x}));
}

TEST_CASE("bad arguments to statistics") {
  const Tensor i = numbers({3}, kInt64);
  CHECK(message_of<DTypeError>([&] { var(i); }) ==
        "[var] expected a floating type, got int64[3] on cpu");
  CHECK_THROWS_AS(ferrite::std(i), DTypeError);
  CHECK_THROWS_AS(norm(i), DTypeError);
  CHECK_THROWS_AS(norm(numbers({3}), NAN), ValueError);
  CHECK_THROWS_AS(norm(empty({0}), kInf), ValueError);
  CHECK_THROWS_AS(norm(empty({0}), -1), ValueError);
  CHECK_THROWS_AS(var(numbers({3}), {1}), IndexError);
  CHECK_THROWS_AS(prod(numbers({3}), 1), IndexError);
  CHECK_THROWS_AS(any(numbers({3}), -2), IndexError);
  CHECK_THROWS_AS(count_nonzero(Tensor()), ValueError);
}

TEST_CASE("statistics against PyTorch") {
  const Golden golden("reduce");
  const Tensor x = golden.get("input", "x");
  const std::vector<std::pair<std::string, Function>> functions = {
      {"var",
       [](const Tensor& t) {
         return var(t, {0, 2});
       }},
      {"var0", [](const Tensor& t) { return var(t, {1}, false); }},
      {"std", [](const Tensor& t) { return ferrite::std(t, {0}); }},
      {"norm2",
       [](const Tensor& t) {
         return norm(t, 2, {0, 1});
       }},
      {"norm1", [](const Tensor& t) { return norm(t, 1, {2}); }},
      {"norm3", [](const Tensor& t) { return norm(t, 3, {0}); }},
      {"normhalf", [](const Tensor& t) { return norm(t, 0.5, {0}); }},
      {"norminf", [](const Tensor& t) { return norm(t, kInf, {1}); }},
      {"normninf", [](const Tensor& t) { return norm(t, -kInf, {1}); }},
      {"norm0", [](const Tensor& t) { return norm(t, 0, {1}); }},
      {"prod", [](const Tensor& t) { return prod(t, 1); }},
      {"prod_all", [](const Tensor& t) { return prod(t[0]); }}};
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    check_close(f(x), golden.get(name, "out"), 1e-12);
    check_close(weighted_gradient(f, x), golden.get(name, "grad"), 1e-11, 1e-14);
  }
  const Tensor z = golden.get("zeros", "x");
  const std::vector<std::pair<std::string, Function>> poles = {
      {"prod", [](const Tensor& t) { return prod(t, 1); }},
      {"norm2", [](const Tensor& t) { return norm(t, 2, {1}); }},
      {"norm1", [](const Tensor& t) { return norm(t, 1, {1}); }},
      {"norm3", [](const Tensor& t) { return norm(t, 3, {1}); }},
      {"norminf", [](const Tensor& t) { return norm(t, kInf, {1}); }},
      {"std", [](const Tensor& t) { return ferrite::std(t, {1}); }}};
  for (const auto& [name, f] : poles) {
    CAPTURE(name);
    check_close(f(z), golden.get("zeros_" + name, "out"), 1e-12);
    check_close(weighted_gradient(f, z), golden.get("zeros_" + name, "grad"), 1e-11, 1e-14);
  }
  check_close(weighted_gradient([](const Tensor& t) { return norm(t, kInf, {1}); },
                                golden.get("ties", "x")),
              golden.get("ties_norminf", "grad"));
  const Tensor n = golden.get("nan", "x");
  check_equal(any(n, 1), golden.get("nan", "any"));
  check_equal(all(n, 1), golden.get("nan", "all"));
  check_equal(count_nonzero(n, {1}), golden.get("nan", "count"));
  check_equal(norm(n, kInf, {1}), golden.get("nan", "norminf"));
  check_equal(prod(n, 1), golden.get("nan", "prod"));
  check_equal(prod(golden.get("uint8", "x"), 0), golden.get("uint8", "prod"));
  const Tensor b = golden.get("bool", "x");
  check_equal(all(b, 1), golden.get("bool", "all"));
  check_equal(any(b, 0), golden.get("bool", "any"));
  check_equal(count_nonzero(b), golden.get("bool", "count"));
  check_close(var(golden.get("half", "x")), golden.get("half", "var"), 1e-3);
}
