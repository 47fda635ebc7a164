#include "ferrite/ops/softmax.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/core/stream.h"
#include "ferrite/tests/ops/reduce_util.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;
using autograd::gradcheck;

namespace {

/// softmax along the last dimension of `t`, in float64.
std::vector<double> last_softmax(const Tensor& t, bool log) {
  std::vector<double> result;
  for (const auto& row : groups(t, {-1})) {
    const double top = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (double x : row) sum += std::exp(x - top);
    for (double x : row) result.push_back(log ? x - top - std::log(sum) : std::exp(x - top) / sum);
  }
  return result;
}

/// Of the absolute error: results lie in [0, 1], or are logarithms of some units.
double atol_of(DType dtype, bool log) { return rounding_of(dtype) * (log ? 10 : 1) / 10; }

}  // namespace

TEST_CASE("softmax and log_softmax agree with a float64 reference") {
  for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    CAPTURE(dtype);
    for (const Shape& shape : std::vector<Shape>{
             {256, 10}, {3, 1}, {1, 7}, {5, 1000}, {2, 1024}, {2, 1025}, {3, 5000}, {2, 5, 3, 4}}) {
      CAPTURE(shape.str());
      const Tensor base = numbers(shape, dtype) * 4;
      std::vector<Tensor> layouts = {base, base.transpose(0, base.dim() - 1),
                                     base.slice(0, 0, 3, 2)};
      if (base.dim() == 4) layouts.push_back(base.contiguous(kChannelsLast));
      for (const Tensor& t : layouts)
        for (int dim = 0; dim < t.dim(); ++dim) {
          CAPTURE(dim);
          const Tensor moved = t.transpose(dim, t.dim() - 1);
          for (bool log : {false, true}) {
            const Tensor out = log ? log_softmax(t, dim) : softmax(t, dim);
            CHECK(out.dtype() == dtype);
            check_close(out.transpose(dim, t.dim() - 1), last_softmax(moved, log),
                        rounding_of(dtype), atol_of(dtype, log));
          }
        }
    }
  }
}

TEST_CASE("softmax keeps the memory format") {
  const Tensor t = numbers({2, 5, 3, 4}, kFloat32).contiguous(kChannelsLast);
  CHECK(softmax(t, 1).is_contiguous(kChannelsLast));
  const Tensor leaf = t.detach().set_requires_grad();
  log_softmax(leaf, 1).sum().backward();
  CHECK(leaf.grad().is_contiguous(kChannelsLast));
}

TEST_CASE("softmax at the ends of the number range") {
  const float inf = INFINITY;
  const Tensor t = from_vector<float>(
      {1e4f, 0, -1e4f, -inf, 0, 0, -inf, -inf, -inf, inf, 0, 1, NAN, 0, 1, -90, -200, 0}, {6, 3});
  check_close(softmax(t, 1),
              {1, 0, 0, 0, .5, .5, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0, 0, 1});
  check_close(log_softmax(t, 1).slice(0, 0, 2), {0, -1e4, -2e4, -inf, std::log(.5), std::log(.5)});
  check_close(softmax(t.t().contiguous(), 0).t(), softmax(t, 1), 1e-6);
  // Large logits lose no digits to their size.
  check_close(log_softmax(from_vector<float>({1e6f, 1e6f}, {2}), 0), {std::log(.5), std::log(.5)},
              1e-6);
}

TEST_CASE("empty, 0-dimensional and converted inputs of softmax") {
  CHECK(softmax(empty({0, 3}), 1).shape() == Shape({0, 3}));
  CHECK(log_softmax(empty({3, 0}), 1).shape() == Shape({3, 0}));
  check_close(softmax(full({}, 3.0), 0), {1.0});
  CHECK(softmax(full({}, 3.0), -1).shape() == Shape());
  const Tensor i = from_vector<std::int64_t>({0, 0}, {2});
  check_close(softmax(i, 0, kFloat32), {0.5, 0.5});
  CHECK(softmax(numbers({3}, kFloat16), 0, kFloat32).dtype() == kFloat32);
}

TEST_CASE("softmax does not depend on the number of threads") {
  const int before = num_threads();
  const Tensor t = randn({500, 300});
  set_num_threads(1);
  const Tensor one = softmax(t, 1), columns = log_softmax(t, 0);
  set_num_threads(4);
  check_equal(softmax(t, 1), one);
  check_equal(log_softmax(t, 0), columns);
  set_num_threads(before);
}

TEST_CASE("gradients of softmax") {
  const autograd::GradcheckOptions second{.second_order = true};
  const Tensor x = randn({3, 4, 2}, {.dtype = kFloat64}).set_requires_grad();
  for (int dim = 0; dim < 3; ++dim) {
    CHECK(gradcheck([&](const auto& in) { return softmax(in[0], dim); }, {x}, second));
    CHECK(gradcheck([&](const auto& in) { return log_softmax(in[0], dim); }, {x}, second));
  }
  const Tensor strided = randn({5, 3}, {.dtype = kFloat64}).t().set_requires_grad();
  CHECK(gradcheck([](const auto& in) { return softmax(in[0], 1); }, {strided}));
  const Tensor nhwc =
      randn({2, 3, 2, 2}, {.dtype = kFloat64}).contiguous(kChannelsLast).set_requires_grad();
  CHECK(gradcheck([](const auto& in) { return log_softmax(in[0], 1); }, {nhwc}));
  const Tensor scalar = full({}, 2.0, {.dtype = kFloat64}).set_requires_grad();
  CHECK(gradcheck([](const auto& in) { return log_softmax(in[0], 0); }, {scalar}));
}

TEST_CASE("gradients of long rows, in every floating type") {
  for (std::int64_t n : {10, 1024, 1025, 3000})
    for (DType dtype : {kFloat32, kFloat16, kBFloat16}) {
      const Tensor wide = numbers({3, n}, kFloat64);
      for (bool log : {false, true})
        for (int dim : {0, 1}) {
          const auto f = [&](const Tensor& t) {
            return log ? log_softmax(t, dim) : softmax(t, dim);
          };
          const Tensor g = numbers({3, n}, kFloat64, 7);
          const auto gradient = [&](const Tensor& x) {
            const Tensor leaf = x.detach().set_requires_grad();
            f(leaf).backward(g.to(x.dtype()));
            return leaf.grad();
          };
          // log_softmax's subtracts a sum of n gradients, each rounded.
          const double scale = log ? 10 : 1;
          check_close(gradient(wide.to(dtype)), gradient(wide), 2 * rounding_of(dtype),
                      scale * rounding_of(dtype));
        }
    }
}

TEST_CASE("bad arguments to softmax") {
  CHECK(message_of<DTypeError>([] { softmax(numbers({3}, kInt64), 0); }) ==
        "[softmax] expected a floating type, got int64[3] on cpu");
  CHECK_THROWS_AS(log_softmax(numbers({3}), 1), IndexError);
  CHECK_THROWS_AS(softmax(Tensor(), 0), ValueError);
}

TEST_CASE("softmax against PyTorch") {
  const Golden golden("loss");
  const Tensor x = golden.get("softmax", "x");
  for (int dim = 0; dim < 3; ++dim)
    for (const std::string name : {"softmax", "log_softmax"}) {
      const std::string test_case = name + std::to_string(dim);
      CAPTURE(test_case);
      const auto f = [&](const Tensor& t) {
        return name == "softmax" ? t.softmax(dim) : t.log_softmax(dim);
      };
      check_close(f(x), golden.get(test_case, "out"), 1e-12);
      check_close(weighted_gradient(f, x), golden.get(test_case, "grad0"), 1e-10, 1e-13);
    }
}
