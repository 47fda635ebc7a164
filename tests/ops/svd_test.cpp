// Singular values that iterations find hard, and systems that are solved without a decomposition.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/linalg.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

const TensorOptions kOptions{.dtype = kFloat64};

Tensor orthonormal(std::int64_t rows, std::int64_t columns, Generator& generator) {
  return std::get<0>(linalg::qr(randn({rows, columns}, kOptions, &generator)));
}

void check_orthonormal(const Tensor& columns) {
  check_close(matmul(columns.mT(), columns), eye(columns.size(1), kOptions), 0, 1e-13);
}

/// Values from u, uniform in [0, 1), at `place` = i / n.
const struct Kind {
  const char* name;
  double (*value)(double place, double u);
} kinds[] = {
    {"random", [](double, double u) { return u; }},
    {"equal", [](double, double) { return 1.0; }},
    {"two values", [](double place, double) { return place < 0.5 ? 1.0 : 0.5; }},
    {"graded", [](double, double u) { return std::pow(10, -18 * u); }},
    {"one", [](double, double u) { return 1e-14 * u; }},
    {"deficient", [](double place, double u) { return place < 0.5 ? 0.1 + 0.9 * u : 0.0; }},
};

/// Descending; the first is 1.
std::vector<double> draw_values(const Kind& kind, std::int64_t n, std::mt19937& random) {
  std::uniform_real_distribution<double> uniform;
  std::vector<double> values{1};
  for (std::int64_t i = 1; i < n; ++i)
    values.push_back(kind.value(static_cast<double>(i) / static_cast<double>(n), uniform(random)));
  std::sort(values.begin(), values.end(), std::greater<>());
  return values;
}

}  // namespace

TEST_CASE("svd finds singular values that are equal, zero, graded, huge and tiny") {
  std::mt19937 random(3);
  Generator generator(5);
  std::uniform_int_distribution<std::int64_t> size(1, 24);
  for (const Kind& kind : kinds)
    for (const double scale : {1.0, 1e300, 1e-300})
      for (int repeat = 0; repeat < 8; ++repeat) {
        const std::int64_t rows = size(random), columns = size(random), n = std::min(rows, columns);
        CAPTURE(kind.name);
        CAPTURE(scale);
        CAPTURE(rows);
        CAPTURE(columns);
        const Tensor values = tensor(draw_values(kind, n, random), kFloat64);
        const Tensor x = matmul(orthonormal(rows, n, generator) * values,
                                orthonormal(columns, n, generator).mT());
        for (const bool full : {false, true}) {
          const auto [u, s, vh] = linalg::svd(x * scale, full);
          check_close(s / scale, values, 0, 1e-14);
          check_close(matmul(u.narrow(1, 0, n) * (s / scale), vh.narrow(0, 0, n)), x, 0, 1e-14);
          check_orthonormal(u);
          check_orthonormal(vh.mT());
          for (std::int64_t i = 1; i < n; ++i)
            CHECK(s[i - 1].item<double>() >= s[i].item<double>());
        }
        if (kind.name == std::string_view("deficient"))
          CHECK(linalg::matrix_rank(x).item<std::int64_t>() == (n + 1) / 2);
      }
}

TEST_CASE("svd of zeros, and of rows and columns that are zero or repeat") {
  const auto [u, s, vh] = linalg::svd(zeros({3, 2}, kOptions), true);
  check_close(s, {0, 0}, 0);
  check_orthonormal(u);
  check_orthonormal(vh);
  // Column 1 is 0; columns 0 and 2 are equal: of rank 1, |column| sqrt(2) its singular value.
  const Tensor x =
      tensor({{3.0, 0.0, 3.0}, {4.0, 0.0, 4.0}, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}}, kFloat64);
  for (const Tensor& m : {x, x.mT()}) {
    const auto [left, values, right] = linalg::svd(m, true);
    check_close(values, {5 * std::sqrt(2.0), 0, 0}, 1e-15, 1e-15);
    check_orthonormal(left);
    check_orthonormal(right.mT());
    CHECK(linalg::matrix_rank(m).item<std::int64_t>() == 1);
  }
}

TEST_CASE("solve of triangular and diagonal matrices") {
  Generator generator(1);
  for (const std::int64_t n : {1, 2, 7, 33}) {
    const Tensor m = randn({n, n}, kOptions, &generator) + eye(n, kOptions) * 8.0;
    const Tensor b = randn({n, 3}, kOptions, &generator);
    for (const Tensor& a : {tril(m), triu(m), m * eye(n, kOptions), m})
      check_close(matmul(a, linalg::solve(a, b)), b, 0, 1e-12);
  }
  const Tensor b = ones({2, 1}, kOptions);
  for (const Tensor& a : {tensor({{0.0, 0.0}, {3.0, 1.0}}, kFloat64),
                          tensor({{1.0, 3.0}, {0.0, 0.0}}, kFloat64), zeros({2, 2}, kOptions)})
    CHECK(contains(message_of<ValueError>([&] { linalg::solve(a, b); }),
                   "[linalg_solve] matrix 0 of the batch is singular"));
  // A NaN is no zero: in neither triangle is it left out.
  const double nan = std::nan("");
  for (const Tensor& a :
       {tensor({{2.0, nan}, {0.0, 1.0}}, kFloat64), tensor({{2.0, 0.0}, {nan, 1.0}}, kFloat64)})
    CHECK(std::isnan(linalg::solve(a, b).sum().item<double>()));
}
