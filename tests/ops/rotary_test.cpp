#include "ferrite/ops/rotary.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;

TEST_CASE("rotary_embedding by its definition, in both conventions") {
  const Tensor x = randn({2, 3, 6}, {.dtype = kFloat64});
  std::vector<double> expected;
  const auto in = x.to_vector<double>();
  for (std::size_t row = 0; row < 6; ++row)
    for (std::size_t i = 0; i < 3; ++i) {
      const double angle =
          static_cast<double>(row % 3 + 4) * std::pow(100.0, -2 * static_cast<double>(i) / 6);
      const double a = in[row * 6 + 2 * i], b = in[row * 6 + 2 * i + 1];
      expected.push_back(a * std::cos(angle) - b * std::sin(angle));
      expected.push_back(a * std::sin(angle) + b * std::cos(angle));
    }
  check_close(rotary_embedding(x, {.interleaved = true, .base = 100, .offset = 4}), expected, 1e-13,
              1e-14);
  // The halves are the pairs of the other convention, in another order.
  const Tensor order = tensor({0, 2, 4, 1, 3, 5});
  const Tensor halves = rotary_embedding(x.index_select(2, order), {.base = 100, .offset = 4});
  check_close(halves, from_vector(expected, {2, 3, 6}).index_select(2, order), 1e-13, 1e-14);
  const Tensor positions = tensor({{9, 1, 0}, {4, 4, 4}});
  const Tensor y = rotary_embedding(x, {.positions = positions});
  check_close(y[0][0], rotary_embedding(x[0][0].unsqueeze(0), {.offset = 9})[0], 1e-13, 1e-14);
  check_close(y[0][2], x[0][2], 1e-14);
  CHECK(rotary_embedding(x.to(kBFloat16)).dtype() == kBFloat16);
}

TEST_CASE("rotary_embedding: products depend on distances; gradients; errors") {
  const Tensor q = randn({1, 8}, {.dtype = kFloat64}), k = randn({1, 8}, {.dtype = kFloat64});
  const auto product = [&](std::int64_t at, std::int64_t other) {
    return matmul(rotary_embedding(q, {.offset = at}),
                  rotary_embedding(k, {.offset = other}).transpose(0, 1));
  };
  check_close(product(7, 3), product(104, 100), 1e-12, 1e-12);
  for (const bool interleaved : {false, true})
    CHECK(autograd::gradcheck(
        [&](const std::vector<Tensor>& in) {
          return rotary_embedding(in[0], {.interleaved = interleaved});
        },
        {randn({2, 3, 4}, {.dtype = kFloat64}).set_requires_grad()}, {.second_order = true}));
  CHECK_THROWS_AS(rotary_embedding(ones({3, 5})), ShapeError);
  CHECK_THROWS_AS(rotary_embedding(ones({4})), ShapeError);
  CHECK_THROWS_AS(rotary_embedding(ones({3, 4}, {.dtype = kInt64})), DTypeError);
  CHECK_THROWS_AS(rotary_embedding(ones({3, 4}), {.positions = arange(2)}), ShapeError);
  CHECK_THROWS_AS(rotary_embedding(ones({3, 4}), {.positions = zeros({3})}), DTypeError);
  CHECK_THROWS_AS(rotary_embedding(ones({3, 4}), {.base = 0}), ValueError);
  CHECK_THROWS_AS(rotary_embedding(Tensor()), ValueError);
}
