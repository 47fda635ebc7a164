#include "ferrite/nn/init.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "ferrite/nn/layers.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::nn;
using test::check_close;

namespace {

struct Moments {
  double mean = 0, std = 0, min = INFINITY, max = -INFINITY;

  explicit Moments(const Tensor& t) {
    const std::vector<double> v = t.to_vector<double>();
    for (double x : v) {
      mean += x;
      min = std::min(min, x);
      max = std::max(max, x);
    }
    mean /= static_cast<double>(v.size());
    for (double x : v) std += (x - mean) * (x - mean);
    std = std::sqrt(std / static_cast<double>(v.size()));
  }
};

/// Checks the uniform distribution within +-bound: the extremes are close to it, and the moments
/// are correct.
void check_uniform(const Tensor& t, double bound) {
  const Moments m(t);
  CHECK(m.min >= -bound);
  CHECK(m.max <= bound * (1 + 1e-6));
  CHECK(m.max > 0.98 * bound);
  CHECK(m.min < -0.98 * bound);
  CHECK(std::abs(m.mean) < 0.03 * bound);
  CHECK(m.std == doctest::Approx(bound / std::sqrt(3)).epsilon(0.03));
}

void check_normal(const Tensor& t, double std) {
  const Moments m(t);
  CHECK(std::abs(m.mean) < 0.03 * std);
  CHECK(m.std == doctest::Approx(std).epsilon(0.03));
  CHECK(m.max > 2.5 * std);
}

}  // namespace

TEST_CASE("bounds and deviations") {
  manual_seed(0);
  const Tensor w = empty({40, 20, 3, 3});  // fan in 180, fan out 360
  using init::FanMode;
  using init::Nonlinearity;
  check_uniform(init::uniform_(w, -2, 2), 2);
  check_normal(init::normal_(w, 0, 0.5), 0.5);
  check_uniform(init::xavier_uniform_(w, 2), 2 * std::sqrt(6.0 / 540));
  check_normal(init::xavier_normal_(w), std::sqrt(2.0 / 540));
  check_uniform(init::kaiming_uniform_(w, std::sqrt(5.0)), 1 / std::sqrt(180.0));
  check_uniform(init::kaiming_uniform_(w), std::sqrt(6.0 / 180));
  check_normal(init::kaiming_normal_(w, 0, FanMode::fan_out, Nonlinearity::relu),
               std::sqrt(2.0 / 360));
  check_normal(init::kaiming_normal_(w, 0, FanMode::fan_in, Nonlinearity::tanh),
               5.0 / 3 / std::sqrt(180.0));
  check_close(init::constant_(w, 1.5), full(w.shape(), 1.5), 0);
  check_close(init::ones_(w), ones(w.shape()), 0);
  check_close(init::zeros_(w), zeros(w.shape()), 0);
}

TEST_CASE("truncated normal numbers") {
  manual_seed(1);
  const Tensor w = empty({100, 100});
  Moments m(init::trunc_normal_(w, 1, 2, -1, 3));  // one deviation to each side
  CHECK(m.min >= -1);
  CHECK(m.max <= 3);
  CHECK(m.min < -0.98);
  CHECK(m.mean == doctest::Approx(1).epsilon(0.03));
  // The variance within +-1 deviation is 1 - 2 phi(1) / (2 Phi(1) - 1).
  CHECK(m.std == doctest::Approx(2 * std::sqrt(1 - 2 * 0.24197072 / 0.68268949)).epsilon(0.02));
  m = Moments(init::trunc_normal_(w, 0, 1, 3, 8));  // the tail
  CHECK(m.min >= 3);
  CHECK(m.mean == doctest::Approx(0.004431848 / 0.001349898).epsilon(0.01));
  // Far in a tail, on either side: by the ratio of its integrals.
  m = Moments(init::trunc_normal_(w, 0, 1, 9, 12));
  CHECK(m.min >= 9);
  CHECK(m.mean == doctest::Approx(9.108520).epsilon(0.001));
  m = Moments(init::trunc_normal_(w, 0, 1, -12, -9));
  CHECK(m.mean == doctest::Approx(-9.108520).epsilon(0.001));
  m = Moments(init::trunc_normal_(w, 20, 1, -1, 0));
  CHECK(m.min >= -1);
  CHECK(m.max <= 0);
  CHECK(m.mean / -0.04988 == doctest::Approx(1).epsilon(0.02));
  m = Moments(init::trunc_normal_(w, 38.42, 1, -1, 0));  // at the end of what doubles resolve
  CHECK(m.min >= -1);
  CHECK(m.mean <= 0);
  CHECK_THROWS_AS(init::trunc_normal_(w, 0, 1, 2, 2), ValueError);
}

TEST_CASE("orthogonal rows, or columns") {
  manual_seed(2);
  for (const Shape& shape :
       {Shape{5, 8}, Shape{8, 5}, Shape{4, 3, 2, 2}, Shape{6, 6}, Shape{1, 1}}) {
    const Tensor w = init::orthogonal_(empty(shape, {.dtype = kFloat64}), 2);
    const auto rows = static_cast<std::size_t>(shape[0]),
               cols = static_cast<std::size_t>(w.numel()) / rows;
    const std::vector<double> v = w.to_vector<double>();
    const std::size_t count = std::min(rows, cols), length = std::max(rows, cols);
    const auto at = [&](std::size_t i, std::size_t k) {
      return rows <= cols ? v[i * cols + k] : v[k * cols + i];
    };
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < count; ++j) {
        double dot = 0;
        for (std::size_t k = 0; k < length; ++k) dot += at(i, k) * at(j, k);
        CHECK(dot == doctest::Approx(i == j ? 4.0 : 0.0).epsilon(1e-12));
      }
  }
  CHECK_THROWS_AS(init::orthogonal_(empty({3})), ShapeError);
}

TEST_CASE("expanded tensors are refused before their elements are drawn") {
  const Tensor large = zeros({1, 1}).expand({std::int64_t{1} << 30, std::int64_t{1} << 20});
  CHECK_THROWS_AS(init::trunc_normal_(large), ValueError);
  CHECK_THROWS_AS(init::orthogonal_(large), ValueError);
}

TEST_CASE("identities and sparse weights") {
  const Tensor matrix = full({2, 3}, 7);
  CHECK(init::eye_(matrix).to_vector<double>() == std::vector<double>{1, 0, 0, 0, 1, 0});
  const Tensor kernel = full({4, 2, 3}, 7).set_requires_grad();
  init::dirac_(kernel);
  CHECK(kernel.select(2, 1).to_vector<double>() == std::vector<double>{1, 0, 0, 1, 0, 0, 0, 0});
  CHECK(kernel.sum().item<double>() == 2);
  init::dirac_(kernel, 2);
  CHECK(kernel.select(2, 1).to_vector<double>() == std::vector<double>{1, 0, 0, 1, 1, 0, 0, 1});
  const Tensor images = randn({2, 3, 5, 5}), same = empty({3, 3, 3, 3});
  init::dirac_(same);
  check_close(conv2d(images, same, {}, {.padding = 1}), images, 0, 0);

  const Tensor sparse = empty({10, 200});
  init::sparse_(sparse, 0.25, 2);
  for (const double zeros : (sparse == 0).sum(0).to_vector<double>()) CHECK(zeros == 3);
  CHECK(sparse.index({sparse != 0}).std().item<double>() == doctest::Approx(2).epsilon(0.1));
  CHECK_THROWS_AS(init::eye_(empty({3})), ShapeError);
  CHECK_THROWS_AS(init::dirac_(matrix), ShapeError);
  CHECK_THROWS_AS(init::dirac_(kernel, 3), ValueError);
  CHECK_THROWS_AS(init::sparse_(kernel, 0.1), ShapeError);
  CHECK_THROWS_AS(init::sparse_(matrix, 1.5), ValueError);
}

TEST_CASE("fans and gains") {
  CHECK(init::calculate_fans(empty({4, 3, 5, 2})).in == 30);
  CHECK(init::calculate_fans(empty({4, 3, 5, 2})).out == 40);
  CHECK_THROWS_AS(init::calculate_fans(empty({4})), ShapeError);
  CHECK(init::calculate_gain(init::Nonlinearity::relu) == doctest::Approx(std::sqrt(2.0)));
  CHECK(init::calculate_gain(init::Nonlinearity::leaky_relu, 1) == doctest::Approx(1));
}

TEST_CASE("a seed gives the same weights on every device; layers are initialised as in PyTorch") {
  const auto draw = [](const Device& device) {
    manual_seed(7);
    const Tensor t = empty({50, 3}, {.device = device});
    std::vector<double> all;
    const auto append = [&](const Tensor& values) {
      const std::vector<double> v = values.to_vector<double>();
      all.insert(all.end(), v.begin(), v.end());
    };
    append(init::xavier_uniform_(t));
    append(init::kaiming_normal_(t));
    append(init::orthogonal_(t));
    return all;
  };
  CHECK(draw("cpu") == draw("cpu:1"));

  manual_seed(3);
  nn::Linear linear(100, 400);
  check_uniform(linear.weight, 0.1);
  check_uniform(linear.bias, 0.1);
  CHECK(linear.weight.requires_grad());
  nn::Conv2d conv(8, 600, {2, 1}, {.groups = 2});
  check_uniform(conv.weight, 1 / std::sqrt(8.0));
  check_uniform(conv.bias, 1 / std::sqrt(8.0));
  nn::ConvTranspose2d transposed(600, 8, {2, 1});
  check_uniform(transposed.weight, 1 / std::sqrt(16.0));
  nn::Embedding embedding(100, 50, {.padding_idx = -1});
  check_normal(embedding.weight, 1);
  check_close(embedding.weight[99], zeros({50}), 0);
  nn::BatchNorm2d norm(3);
  check_close(norm.weight, {1, 1, 1});
  check_close(norm.running_var, {1, 1, 1});
  CHECK(norm.num_batches_tracked.item<int>() == 0);
}

TEST_CASE("under a SkipGuard weights are not drawn") {
  manual_seed(5);
  const Tensor first = Linear(3, 4).weight.clone();
  manual_seed(5);
  {
    const init::SkipGuard skip;
    const Tensor w = full({4, 3}, 7.0);
    for (const auto& draw : {+[](const Tensor& t) { init::uniform_(t); },
                             +[](const Tensor& t) { init::kaiming_normal_(t); },
                             +[](const Tensor& t) { init::trunc_normal_(t); },
                             +[](const Tensor& t) { init::orthogonal_(t); }}) {
      draw(w);
      check_close(w, full({4, 3}, 7.0));
    }
    { const init::SkipGuard nested; }
    const Linear skipped(3, 4);
    CHECK(skipped.weight.shape() == Shape{4, 3});
    CHECK(BatchNorm2d(2).weight.to_vector<float>() == std::vector<float>{1, 1});
  }
  check_close(Linear(3, 4).weight.detach(), first.detach());  // and no numbers were used up
}
