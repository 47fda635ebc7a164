#include "ferrite/ops/mixup.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"
#include "ferrite/tests/support/hash.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;

TEST_CASE("Beta has its mean and variance") {
  Generator random(4);
  for (const auto& [a, b] : {std::pair(0.2, 0.2), {1.0, 1.0}, {2.0, 5.0}, {0.5, 3.0}}) {
    CAPTURE(a);
    double sum = 0, squares = 0;
    constexpr int kCount = 20000;
    for (int i = 0; i < kCount; ++i) {
      const double v = sample_beta(a, b, random);
      REQUIRE((v >= 0 && v <= 1));
      sum += v, squares += v * v;
    }
    const double mean = sum / kCount, variance = squares / kCount - mean * mean;
    CHECK(mean == doctest::Approx(a / (a + b)).epsilon(0.03));
    CHECK(variance == doctest::Approx(a * b / ((a + b) * (a + b) * (a + b + 1))).epsilon(0.05));
  }
  CHECK_THROWS_AS(sample_beta(0, 1, random), ValueError);
}

TEST_CASE("MixUp mixes each sample with the one before, and its label") {
  const Tensor x = tensor({1.0, 2.0, 4.0}).reshape({3, 1});
  const Tensor labels = tensor({0, 2, 1}, kInt64);
  const MixUp mixup({.num_classes = 3, .alpha = 0.4});
  const auto [images, mixed] = mixup.mix(x, labels, 0.75);
  check_close(images, {0.75 + 0.25 * 4, 1.5 + 0.25, 3 + 0.5});
  check_close(mixed, {0.75, 0.25, 0, 0.25, 0, 0.75, 0, 0.75, 0.25});
  check_equal(mixup.mix(x, mixed, 1).labels, mixed);  // probabilities stay such
  Generator a(1), b(1);
  check_equal(mixup(x, labels, a).images, mixup(x, labels, b).images);
  CHECK(a.next_double() == b.next_double());

  CHECK_THROWS_AS(MixUp({.num_classes = 0}), ValueError);
  CHECK_THROWS_AS(CutMix({.num_classes = 3, .alpha = 0}), ValueError);
  CHECK_THROWS_AS(mixup.mix(labels, labels, 0.5), DTypeError);
  CHECK_THROWS_AS(mixup.mix(x, tensor({0, 1}, kInt64), 0.5), ShapeError);
}

TEST_CASE("CutMix puts a rectangle of the sample before into an image") {
  const Tensor x = cat({zeros({1, 2, 4, 6}), ones({1, 2, 4, 6})}, 0);
  const CutMix cutmix({.num_classes = 2});
  // Half of the sides, sqrt(1 - 0.75): 1 of 4 and 1.5, truncated, of 6 on each side.
  const auto [images, labels] = cutmix.cut(x, tensor({0, 1}, kInt64), 0.75, 0, 2);
  for (int n = 0; n < 2; ++n) {
    Tensor expected = full({2, 4, 6}, static_cast<double>(n));
    expected.narrow(1, 1, 2).narrow(2, 0, 1).fill_(1 - n);
    check_equal(images[n], expected);
  }
  const double share = 2.0 / 24;
  check_close(labels, {1 - share, share, share, 1 - share});
  check_close(x[0], zeros({2, 4, 6}));  // the input is unchanged

  Generator random(2);
  for (int i = 0; i < 50; ++i) {
    const auto [cut, probabilities] = cutmix(x, tensor({0, 1}, kInt64), random);
    CHECK(cut[0].mean().item<double>() ==
          doctest::Approx(probabilities[0][1].item<double>()).epsilon(1e-5));
  }
  CHECK_THROWS_AS(cutmix(x[0], tensor({0, 1}, kInt64), random), ShapeError);
}

TEST_CASE("MixUp and CutMix are torchvision's") {
  const test::Golden golden("transforms");  // record_transforms.py makes the same images
  std::vector<float> pixels;
  for (const std::uint32_t seed : {1, 2, 3})
    for (int i = 0; i < 2 * 4 * 6; ++i)
      pixels.push_back(static_cast<float>(test::hash32(seed, i) % 208 + 16) / 255);
  const Tensor batch = from_vector(pixels, {3, 2, 4, 6}), labels = tensor({0, 2, 1}, kInt64);
  const MixUp mixup({.num_classes = 4});
  const CutMix cutmix({.num_classes = 4});
  for (const auto& [text, lam] : {std::pair("0.3", 0.3), {"0.75", 0.75}}) {
    CAPTURE(text);
    const auto [images, mixed] = mixup.mix(batch, labels, lam);
    const std::string name = std::string("mixup") + text;
    check_equal(images, golden.get(name, "images"));
    check_equal(mixed, golden.get(name, "labels"));
    for (const auto& [x, y] : {std::pair(0, 2), {3, 1}, {5, 3}}) {
      const auto [cut, probabilities] = cutmix.cut(batch, labels, lam, x, y);
      const std::string box = fmt::format("cutmix{}_{}_{}", text, x, y);
      CAPTURE(box);
      check_equal(cut, golden.get(box, "images"));
      check_equal(probabilities, golden.get(box, "labels"));
    }
  }
}

TEST_CASE("batches on devices stay there") {
  const Device device("cpu:1");
  const Tensor x = ones({2, 1, 4, 4}, {.device = device});
  const Tensor labels = tensor({0, 1}, kInt64).to(device);
  Generator random(1);
  const auto [images, mixed] = CutMix({.num_classes = 2})(x, labels, random);
  CHECK(images.device() == device);
  CHECK(MixUp({.num_classes = 2})(x, labels, random).labels.device() == device);
  CHECK(cross_entropy(images.flatten(1).narrow(1, 0, 2), mixed).item<float>() > 0);
}
