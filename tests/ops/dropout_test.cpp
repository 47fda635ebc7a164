#include "ferrite/ops/dropout.h"

#include <cmath>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("dropout: values are 0 or scaled, at the rate asked for") {
  for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16})
    for (double p : {0.1, 0.5, 0.9}) {
      Generator generator(1);
      const std::int64_t n = 100003;
      const Tensor y = dropout(full({n}, 3, {.dtype = dtype}), p, true, &generator);
      CHECK(y.dtype() == dtype);
      std::int64_t zeros = 0;
      for (double v : y.to_vector<double>()) {
        if (v == 0)
          ++zeros;
        else
          CHECK(v == doctest::Approx(3 / (1 - p)).epsilon(rounding_of(dtype)));
      }
      // Five standard deviations.
      CHECK(std::abs(static_cast<double>(zeros) - n * p) < 5 * std::sqrt(n * p * (1 - p)));
    }
}

TEST_CASE("dropout: the same seed drops the same elements, a second call others") {
  Generator a(5), b(5);
  const Tensor x = ones({70001});
  const Tensor first = dropout(x, 0.5, true, &a);
  const int threads = num_threads();
  set_num_threads(1);
  check_equal(dropout(x, 0.5, true, &b), first);
  set_num_threads(threads);
  CHECK(sum(dropout(x, 0.5, true, &a) * first).item<double>() < 1.1 * 70001);
  Generator c(5);
  check_equal(dropout(x.to("cpu:0"), 0.5, true, &c).cpu(), first);
  manual_seed(4);
  const Tensor by_default = dropout(x);
  manual_seed(4);
  check_equal(dropout(x), by_default);
}

TEST_CASE("dropout: backward drops what forward dropped") {
  const Tensor x = ones({2, 3, 4, 5}).set_requires_grad();
  const Tensor y = dropout(x, 0.4);
  sum(y).backward();
  check_equal(x.grad(), y);

  // Channels-last input, row-major gradient.
  const Tensor nhwc = ones({2, 3, 4, 5}, {.memory_format = kChannelsLast}).set_requires_grad();
  const Tensor z = dropout(nhwc, 0.4);
  CHECK(z.is_contiguous(kChannelsLast));
  z.backward(ones({2, 3, 4, 5}));
  check_equal(nhwc.grad(), z);

  const Tensor strided = ones({4, 6}).set_requires_grad();
  const Tensor w = dropout(strided.t(), 0.4);
  w.backward(ones({6, 4}));
  check_equal(strided.grad(), w.t());

  const Tensor d = randn({3, 7}, {.dtype = kFloat64}).set_requires_grad();
  CHECK(autograd::gradcheck(
      [](const auto& in) {
        Generator generator(9);
        return dropout(in[0], 0.5, true, &generator) * in[0];
      },
      {d}, {.second_order = true}));
}

TEST_CASE("dropout: p of 0 and 1, eval mode, empty, errors") {
  const Tensor x = ones({5});
  CHECK(dropout(x, 0.5, false).is_same(x));
  CHECK(dropout(x, 0).is_same(x));
  check_equal(dropout(x, 1), zeros({5}));
  const Tensor leaf = ones({5}).set_requires_grad();
  sum(dropout(leaf, 1)).backward();
  check_equal(leaf.grad(), zeros({5}));
  CHECK(dropout(zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(dropout(ones({})).dim() == 0);
  CHECK_THROWS_AS(dropout(x, -0.1), ValueError);
  CHECK_THROWS_AS(dropout(x, 1.1), ValueError);
  CHECK_THROWS_AS(dropout(x, NAN), ValueError);
  CHECK_THROWS_AS(dropout(arange(3)), DTypeError);
  CHECK_THROWS_AS(dropout(Tensor()), ValueError);
}

TEST_CASE("dropout2d: whole channels") {
  const Tensor x = ones({20, 30, 3, 2}, {.memory_format = kChannelsLast}).set_requires_grad();
  const Tensor y = dropout2d(x, 0.25);
  CHECK(y.is_contiguous(kChannelsLast));
  const std::vector<double> values = y.to_vector<double>();
  int dropped = 0;
  for (std::size_t channel = 0; channel < 600; ++channel) {
    const double first = values[channel * 6];
    CHECK((first == 0 || first == doctest::Approx(4.0 / 3)));
    dropped += first == 0;
    for (std::size_t i = 1; i < 6; ++i) CHECK(values[channel * 6 + i] == first);
  }
  CHECK(dropped > 90);
  CHECK(dropped < 210);
  sum(y).backward();
  check_equal(x.grad(), y);
  CHECK(dropout2d(ones({2, 3, 4}), 0.5).shape() == Shape{2, 3, 4});
  CHECK(dropout2d(x, 0.5, false).is_same(x));
  CHECK_THROWS_AS(dropout2d(ones({2, 3}), 0.5), ShapeError);
  CHECK_THROWS_AS(dropout2d(ones({2, 3, 4, 5}), 2), ValueError);
}

TEST_CASE("feature_dropout and dropout1d: the channels that dropout of one number each drops") {
  const auto dropped = [](const Shape& shape, const Shape& channels, auto f) {
    Generator a(3), b(3);
    const Tensor x = ones(shape).set_requires_grad();
    const Tensor y = f(x, &a);
    check_equal(y, dropout(ones(channels), 0.4, true, &b).expand(shape));
    sum(y).backward();
    check_equal(x.grad(), y);
  };
  const auto features = [](const Tensor& x, Generator* g) {
    return feature_dropout(x, 0.4, true, g);
  };
  const auto one_d = [](const Tensor& x, Generator* g) { return dropout1d(x, 0.4, true, g); };
  dropped({3, 4, 2, 2, 3}, {3, 4, 1, 1, 1}, features);
  dropped({3, 4}, {3, 4}, features);
  dropped({3, 4, 5}, {3, 4, 1}, one_d);
  dropped({6, 5}, {6, 1}, one_d);
  const Tensor x = ones({2, 3, 4});
  CHECK(feature_dropout(x, 0).is_same(x));
  CHECK(dropout1d(x, 0.5, false).is_same(x));
  check_equal(feature_dropout(x, 1), zeros({2, 3, 4}));
  CHECK(dropout1d(zeros({0, 3})).shape() == Shape{0, 3});
  CHECK_THROWS_AS(feature_dropout(ones({3})), ShapeError);
  CHECK_THROWS_AS(feature_dropout(x, NAN), ValueError);
  CHECK_THROWS_AS(dropout1d(ones({3})), ShapeError);
  CHECK_THROWS_AS(dropout1d(ones({1, 2, 3, 4})), ShapeError);
  CHECK_THROWS_AS(dropout1d(arange(4)), DTypeError);
}
