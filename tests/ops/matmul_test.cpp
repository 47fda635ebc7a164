#include "ferrite/ops/matmul.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/core/stream.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using ferrite::test::check_close;
using ferrite::test::check_equal;
using ferrite::test::message_of;
using ferrite::test::rounding_of;

namespace {

/// Values in [-1, 1) (in [-4, 4] for integers).
Tensor values(const Shape& shape, DType dtype = kFloat32, std::uint64_t seed = 1) {
  Generator generator(seed);
  std::vector<double> v(static_cast<std::size_t>(shape.numel()));
  for (double& x : v) {
    x = 2 * generator.next_double() - 1;
    if (!is_floating(dtype)) x = std::floor(4 * x);
  }
  return from_vector(v, shape).to(dtype);
}

/// The product of two matrices in float64, row-major.
std::vector<double> reference(const Tensor& a, const Tensor& b) {
  const std::int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  std::vector<double> out(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t l = 0; l < k; ++l)
      for (std::int64_t j = 0; j < n; ++j)
        out[static_cast<std::size_t>(i * n + j)] +=
            x[static_cast<std::size_t>(i * k + l)] * y[static_cast<std::size_t>(l * n + j)];
  return out;
}

/// Rounding of a sum of `depth` products of size up to 1.
double tolerance(DType dtype, std::int64_t depth) {
  const double sums = dtype == kFloat64 ? 1e-15 : 1e-7;
  return 4 * sums * std::sqrt(static_cast<double>(depth) + 1);
}

void check_product(const Tensor& a, const Tensor& b) {
  INFO(a.describe(), " strides ", a.strides().str(), " times ", b.describe(), " strides ",
       b.strides().str());
  const Tensor out = mm(a, b);
  CHECK(out.dtype() == a.dtype());
  check_close(out, reference(a, b), rounding_of(a.dtype()), tolerance(a.dtype(), a.size(1)));
}

Tensor transposed_copy(const Tensor& t) { return t.t().contiguous().t(); }
/// The same values with gaps between rows and between columns.
Tensor spread(const Tensor& t) {
  Tensor wide = empty({t.size(0) * 2, t.size(1) * 3}, {.dtype = t.dtype()});
  Tensor view = wide.slice(0, 0, INT64_MAX, 2).slice(1, 0, INT64_MAX, 3);
  view.copy_(t);
  return view;
}

struct Threads {
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(before); }
  int before = num_threads();
};

}  // namespace

TEST_CASE("mm: sizes around every block edge, every layout") {
  const Shape sizes[] = {{1, 1, 1},    {2, 3, 4},      {5, 1, 7},     {1, 70, 130},   {130, 70, 1},
                         {3, 500, 65}, {4, 33, 200},   {14, 16, 32},  {15, 17, 33},   {29, 385, 48},
                         {57, 40, 49}, {120, 400, 84}, {256, 84, 10}, {300, 130, 270}};
  for (const Shape& s : sizes)
    for (const DType dtype : {kFloat32, kFloat64}) {
      const Tensor a = values({s[0], s[1]}, dtype), b = values({s[1], s[2]}, dtype, 2);
      check_product(a, b);
      check_product(transposed_copy(a), b);
      check_product(a, transposed_copy(b));
      check_product(transposed_copy(a), transposed_copy(b));
      check_product(spread(a), spread(b));
    }
}

TEST_CASE("mm: strides that fall into few cache sets") {
  const Tensor a = values({40, 1024}), b = values({1024, 40}, kFloat32, 2);
  check_product(a, b);
  check_product(values({1024, 40}).t(), b);
}

TEST_CASE("mm: long sums into few results are cut by length") {
  check_product(values({3, 20000}), values({20000, 2}, kFloat32, 2));
  check_product(values({20, 9000}), values({9000, 17}, kFloat32, 2));
  check_product(values({9000, 20}).t(), values({9000, 17}, kFloat32, 2));
}

TEST_CASE("mm: every dtype") {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32})
    for (const Shape& s : {Shape{17, 40, 33}, Shape{1, 40, 33}, Shape{9, 5, 1}}) {
      const Tensor a = values({s[0], s[1]}, dtype), b = values({s[1], s[2]}, dtype, 2);
      check_product(a, b);
      check_product(transposed_copy(a), transposed_copy(b));
    }
}

TEST_CASE("mm: nothing to sum gives zeros, no rows give an empty matrix") {
  check_close(mm(empty({2, 0}), empty({0, 3})), std::vector<double>(6, 0.0));
  CHECK(mm(empty({0, 4}), empty({4, 3})).shape() == Shape{0, 3});
  CHECK(mm(empty({4, 0}), empty({0, 0})).shape() == Shape{4, 0});
  check_close(linear(empty({2, 0}), empty({3, 0}), values({3})).select(0, 1), values({3}));
}

TEST_CASE("mm: infinities and NaN in what is not used do not leak") {
  Tensor a = values({3, 5}), b = values({5, 6}, kFloat32, 2);
  const Tensor padded = empty({5, 20});  // poisoned
  Tensor view = padded.narrow(1, 0, 6);
  view.copy_(b);
  check_close(mm(a, view), reference(a, b), 1e-5, 1e-6);
}

TEST_CASE("the same bits for every number of threads") {
  const Tensor a = values({200, 700}), b = values({700, 300}, kFloat32, 2);
  const Tensor thin = values({8000, 6}), bias = values({300});
  Tensor one, one_thin, one_linear;
  {
    Threads threads(1);
    one = mm(a, b);
    one_thin = mm(thin.t(), thin);
    one_linear = linear(a, b.t(), bias);
  }
  for (const int count : {2, 3, 5}) {
    Threads threads(count);
    check_equal(mm(a, b), one);
    check_equal(mm(thin.t(), thin), one_thin);
    check_equal(linear(a, b.t(), bias), one_linear);
  }
}

TEST_CASE("bmm and broadcast batches") {
  const Tensor a = values({3, 4, 5}), b = values({3, 5, 6}, kFloat32, 2);
  const Tensor out = bmm(a, b);
  for (int i = 0; i < 3; ++i) check_close(out[i], reference(a[i], b[i]), 1e-5, 1e-6);

  const Tensor c = values({2, 1, 4, 5}), d = values({3, 5, 6}, kFloat32, 2);
  const Tensor wide = matmul(c, d);
  REQUIRE(wide.shape() == Shape{2, 3, 4, 6});
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) check_close(wide[i][j], reference(c[i][0], d[j]), 1e-5, 1e-6);
  const Tensor many = values({300, 20, 30}), others = values({300, 30, 20}, kFloat32, 2);
  check_close(bmm(many, others)[299], reference(many[299], others[299]), 1e-5, 1e-6);
  CHECK(bmm(empty({0, 2, 3}), empty({0, 3, 4})).shape() == Shape{0, 2, 4});
}

TEST_CASE("matmul: the rules for each rank") {
  const Tensor v = values({5}), w = values({5}, kFloat32, 3), m = values({4, 5}, kFloat32, 2);
  const Tensor t = values({2, 3, 5}, kFloat32, 4), n = values({5, 6}, kFloat32, 5);
  CHECK(matmul(v, w).shape() == Shape{});
  CHECK(matmul(m, v).shape() == Shape{4});
  CHECK(matmul(v, n).shape() == Shape{6});
  CHECK(matmul(t, n).shape() == Shape{2, 3, 6});
  CHECK(matmul(t, v).shape() == Shape{2, 3});
  CHECK(matmul(v, values({2, 5, 6})).shape() == Shape{2, 6});
  CHECK(matmul(m, values({2, 5, 6})).shape() == Shape{2, 4, 6});
  CHECK(v.matmul(w).item<float>() == doctest::Approx(reference(v.unsqueeze(0), w.unsqueeze(1))[0]));
  check_close(m.matmul(v), reference(m, v.unsqueeze(1)), 1e-5, 1e-6);
  check_close(mv(m, v), reference(m, v.unsqueeze(1)), 1e-5, 1e-6);
  check_close(matmul(t, n), reference(t.reshape({6, 5}), n), 1e-5, 1e-6);
  check_close(outer(v, w), reference(v.unsqueeze(1), w.unsqueeze(0)), 1e-5, 1e-6);
  check_close(m.mm(n), reference(m, n), 1e-5, 1e-6);
}

TEST_CASE("addmm: scales, and inputs that broadcast") {
  const Tensor a = values({9, 7}, kFloat64), b = values({7, 5}, kFloat64, 2);
  const std::vector<double> product = reference(a, b);
  for (const Shape& shape : {Shape{9, 5}, Shape{5}, Shape{1, 5}, Shape{9, 1}, Shape{}})
    for (const double beta : {0.0, 1.0, -0.5})
      for (const double alpha : {1.0, 2.5}) {
        const Tensor input = values(shape, kFloat64, 3);
        std::vector<double> expected = input.expand({9, 5}).to_vector<double>();
        for (std::size_t i = 0; i < expected.size(); ++i)
          expected[i] = beta * expected[i] + alpha * product[i];
        check_close(addmm(input, a, b, beta, alpha), expected, 1e-12, 1e-14);
      }
  // A beta of 0 hides what the input holds.
  check_close(addmm(from_vector(std::vector<double>(5, NAN), {5}), a, b, 0), product, 1e-12, 1e-14);
  const Tensor i = values({2, 3}, kInt64), j = values({3, 2}, kInt64, 2);
  check_close(addmm(values({2, 2}, kInt64), i, j, 0, 3), [&] {
    std::vector<double> e = reference(i, j);
    for (double& x : e) x *= 3;
    return e;
  }());
}

TEST_CASE("linear: bias, ranks, dtypes") {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16})
    for (const std::int64_t rows : {1, 3, 37}) {
      const Tensor x = values({rows, 50}, dtype), w = values({20, 50}, dtype, 2),
                   bias = values({20}, dtype, 3);
      std::vector<double> expected = reference(x, w.t());
      check_close(linear(x, w), expected, rounding_of(dtype), tolerance(dtype, 50));
      const std::vector<double> added = bias.to_vector<double>();
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i % 20];
      check_close(linear(x, w, bias), expected, rounding_of(dtype), tolerance(dtype, 50));
      check_close(linear(x, w, bias), linear(transposed_copy(x), spread(w), bias),
                  rounding_of(dtype), tolerance(dtype, 50));
    }
  const Tensor w = values({4, 3}), bias = values({4});
  CHECK(linear(values({3}), w, bias).shape() == Shape{4});
  CHECK(linear(values({2, 5, 3}), w, bias).shape() == Shape{2, 5, 4});
  CHECK(linear(empty({0, 3}), w, bias).shape() == Shape{0, 4});
}

TEST_CASE("linear with an activation is the activation of linear") {
  const auto exact = GeluApproximation::none, tanh = GeluApproximation::tanh;
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64})
    for (const std::int64_t rows : {0, 1, 3, 37}) {
      CAPTURE(rows);
      const Tensor x = values({rows, 50}, dtype), w = values({20, 50}, dtype, 2),
                   bias = values({20}, dtype, 3);
      for (const Tensor& b : {bias, Tensor()}) {
        // Rounding a sum and then its maximum with 0 is the same as the other way round.
        check_equal(linear_relu(x, w, b), relu(linear(x, w, b)));
        for (const auto kind : {exact, tanh}) {
          const Tensor fused = linear_gelu(x, w, b, kind), apart = gelu(linear(x, w, b), kind);
          CHECK(fused.dtype() == apart.dtype());
          const double rounding = is_floating(dtype) ? rounding_of(dtype) : 0;
          check_close(fused, apart, rounding, rounding);
        }
      }
    }
  for (const DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64}) {
    const Tensor a = values({9, 30}, dtype), b = values({30, 7}, dtype, 2);
    for (const Shape& shape : {Shape{7}, Shape{1}, Shape{1, 7}, Shape{9, 1}, Shape{9, 7}}) {
      const Tensor input = values(shape, dtype, 3);
      const double rounding = is_floating(dtype) ? rounding_of(dtype) : 0;
      check_close(addmm_relu(input, a, b), relu(addmm(input, a, b)), rounding, rounding);
    }
  }
  const Tensor w = values({4, 3}), bias = values({4});
  CHECK(linear_relu(values({3}), w, bias).shape() == Shape{4});
  CHECK(linear_gelu(values({2, 5, 3}), w, bias).shape() == Shape{2, 5, 4});
}

TEST_CASE("gradients of linear with an activation") {
  const auto leaf = [](const Shape& shape, std::uint64_t seed) {
    return values(shape, kFloat64, seed).set_requires_grad();
  };
  using Inputs = std::vector<Tensor>;
  const autograd::GradcheckOptions twice{.second_order = true};
  const std::vector<Tensor> inputs = {leaf({5, 4}, 1), leaf({3, 4}, 2), leaf({3}, 3)};
  CHECK(autograd::gradcheck([](const Inputs& t) { return linear_relu(t[0], t[1], t[2]); }, inputs,
                            twice));
  CHECK(autograd::gradcheck([](const Inputs& t) { return linear_gelu(t[0], t[1], t[2]); }, inputs,
                            twice));
  CHECK(autograd::gradcheck(
      [](const Inputs& t) { return linear_gelu(t[0], t[1], t[2], GeluApproximation::tanh); },
      inputs, twice));
  const std::vector<Tensor> added = {leaf({3}, 1), leaf({5, 4}, 2), leaf({4, 3}, 3)};
  CHECK(autograd::gradcheck([](const Inputs& t) { return addmm_relu(t[0], t[1], t[2]); }, added,
                            twice));
  CHECK(autograd::gradcheck([](const Inputs& t) { return linear_gelu(t[0], t[1]); },
                            {leaf({2, 3, 4}, 1), leaf({3, 4}, 2)}, twice));
}

TEST_CASE("gradients of linear with an activation, one input at a time") {
  const auto grads = [](const auto& f, unsigned wanted) {
    const std::vector<Tensor> in = {values({9, 5}), values({6, 5}, kFloat32, 2), values({6})};
    for (unsigned i = 0; i < 3; ++i)
      if (wanted >> i & 1) in[i].set_requires_grad();
    f(in).backward(values({9, 6}, kFloat32, 4));
    std::vector<Tensor> result;
    for (const Tensor& t : in) result.push_back(t.grad());
    return result;
  };
  using Inputs = std::vector<Tensor>;
  for (unsigned wanted = 1; wanted < 8; ++wanted) {
    CAPTURE(wanted);
    const auto check = [&](const auto& fused, const auto& apart) {
      const std::vector<Tensor> got = grads(fused, wanted), expected = grads(apart, wanted);
      for (std::size_t i = 0; i < 3; ++i) {
        REQUIRE(got[i].defined() == expected[i].defined());
        if (got[i].defined()) check_close(got[i], expected[i], 1e-6, 1e-6);
      }
    };
    check([](const Inputs& t) { return linear_relu(t[0], t[1], t[2]); },
          [](const Inputs& t) { return relu(linear(t[0], t[1], t[2])); });
    check([](const Inputs& t) { return linear_gelu(t[0], t[1], t[2]); },
          [](const Inputs& t) { return gelu(linear(t[0], t[1], t[2])); });
    check([](const Inputs& t) { return addmm_relu(t[2], t[0], t[1].t()); },
          [](const Inputs& t) { return relu(mm(t[0], t[1].t()) + t[2]); });
    check([](const Inputs& t) { return addmm(t[2], t[0], t[1].t()); },
          [](const Inputs& t) { return mm(t[0], t[1].t()) + t[2]; });
  }
}

TEST_CASE("gradients") {
  const auto leaf = [](const Shape& shape, std::uint64_t seed) {
    return values(shape, kFloat64, seed).set_requires_grad();
  };
  using Inputs = std::vector<Tensor>;
  const autograd::GradcheckOptions twice{.second_order = true};
  CHECK(autograd::gradcheck([](const Inputs& t) { return mm(t[0], t[1]); },
                            {leaf({3, 4}, 1), leaf({4, 2}, 2)}, twice));
  CHECK(autograd::gradcheck([](const Inputs& t) { return bmm(t[0], t[1]); },
                            {leaf({2, 3, 4}, 1), leaf({2, 4, 2}, 2)}, twice));
  CHECK(autograd::gradcheck([](const Inputs& t) { return matmul(t[0], t[1]); },
                            {leaf({2, 1, 3, 4}, 1), leaf({3, 4, 2}, 2)}, twice));
  CHECK(autograd::gradcheck([](const Inputs& t) { return matmul(t[0], t[1]); },
                            {leaf({2, 3, 4}, 1), leaf({4}, 2)}, twice));
  CHECK(autograd::gradcheck([](const Inputs& t) { return dot(t[0], t[1]); },
                            {leaf({4}, 1), leaf({4}, 2)}, twice));
  CHECK(autograd::gradcheck([](const Inputs& t) { return outer(t[0], t[1]); },
                            {leaf({4}, 1), leaf({3}, 2)}, twice));
  CHECK(autograd::gradcheck([](const Inputs& t) { return addmm(t[0], t[1], t[2], 0.5, -2); },
                            {leaf({3}, 1), leaf({2, 4}, 2), leaf({4, 3}, 3)}, twice));
  CHECK(autograd::gradcheck([](const Inputs& t) { return linear(t[0], t[1], t[2]); },
                            {leaf({5, 4}, 1), leaf({3, 4}, 2), leaf({3}, 3)}, twice));
  CHECK(autograd::gradcheck([](const Inputs& t) { return linear(t[0], t[1]); },
                            {leaf({2, 3, 4}, 1), leaf({3, 4}, 2)}, twice));
}

TEST_CASE("gradients in float32, only where they are needed") {
  const Tensor x = values({30, 20}), w = values({10, 20}, kFloat32, 2), bias = values({10});
  w.set_requires_grad();
  bias.set_requires_grad();
  const Tensor grad = values({30, 10}, kFloat32, 3);
  linear(x, w, bias).backward(grad);
  check_close(w.grad(), reference(grad.t(), x), 1e-5, 1e-5);
  check_close(bias.grad(), reference(from_vector(std::vector<float>(30, 1), {1, 30}), grad), 1e-5,
              1e-5);
  CHECK_FALSE(x.grad().defined());
  const Tensor y = values({30, 20});
  y.set_requires_grad();
  linear(y, w.detach(), bias.detach()).backward(grad);
  check_close(y.grad(), reference(grad, w.detach()), 1e-5, 1e-5);
}

TEST_CASE("products on a virtual device") {
  const Tensor a = values({20, 30}), b = values({30, 10}, kFloat32, 2);
  const Tensor out = mm(a.to("cpu:1"), b.to("cpu:1"));
  CHECK(out.device() == Device("cpu:1"));
  check_equal(out.cpu(), mm(a, b));
}

TEST_CASE("errors") {
  const Tensor a = values({2, 3}), b = values({4, 5});
  CHECK(message_of<ShapeError>([&] { mm(a, b); }) ==
        "[mm] [2, 3] times [4, 5]: the first one's 3 columns do not fit the second one's 4 rows");
  CHECK_THROWS_AS(mm(a, values({3})), ShapeError);
  CHECK_THROWS_AS(bmm(a, b), ShapeError);
  CHECK_THROWS_AS(bmm(values({2, 2, 3}), values({3, 3, 2})), ShapeError);
  CHECK_THROWS_AS(matmul(a, values({})), ShapeError);
  CHECK_THROWS_AS(matmul(values({2, 3, 4}), values({3, 4, 5})), ShapeError);
  CHECK_THROWS_AS(dot(values({3}), values({4})), ShapeError);
  CHECK_THROWS_AS(mv(a, values({4})), ShapeError);
  CHECK_THROWS_AS(outer(a, b), ShapeError);
  CHECK_THROWS_AS(addmm(values({4, 4}), a, values({3, 4})), ShapeError);
  CHECK_THROWS_AS(linear(a, values({4, 2})), ShapeError);
  CHECK_THROWS_AS(linear(a, values({4, 3}), values({3})), ShapeError);
  CHECK_THROWS_AS(mm(a, values({3, 2}, kFloat64)), DTypeError);
  CHECK_THROWS_AS(mm(a.to(kBool), b.to(kBool)), DTypeError);
  CHECK_THROWS_AS(linear(a, values({4, 3}), values({4}, kFloat64)), DTypeError);
  CHECK_THROWS_AS(mm(a, values({3, 2}).to("cpu:1")), DeviceError);
  CHECK_THROWS_AS(mm(Tensor(), a), ValueError);
  CHECK_THROWS_AS(linear(a, Tensor()), ValueError);
  CHECK_THROWS_AS(linear_relu(a, values({4, 2})), ShapeError);
  CHECK_THROWS_AS(linear_gelu(a, values({4, 3}), values({3})), ShapeError);
}
