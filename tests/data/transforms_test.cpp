#include "ferrite/data/transforms.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "ferrite/core/views.h"

using namespace ferrite;
using namespace ferrite::data;

namespace {

using Values = std::vector<std::int64_t>;

Tensor bytes(const std::vector<std::uint8_t>& v, const Shape& shape) {
  return from_vector(v, shape);
}
Values values(const Tensor& t) { return t.to_vector<std::int64_t>(); }

Tensor counting(const Shape& shape) {
  Tensor t = empty(shape, {.dtype = kUInt8});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i + 1);
  return t;
}

}  // namespace

TEST_CASE("transforms: ToTensor and Normalize") {
  const Tensor image = bytes({0, 51, 255, 102}, {2, 1, 2});
  const Tensor f = ToTensor()(image);
  CHECK(f.dtype() == kFloat32);
  CHECK(f.to_vector<float>() == std::vector<float>{0, 0.2f, 1, 0.4f});
  const Tensor n = Normalize({0, 0.5}, {1, 0.25})(f);
  CHECK(n.to_vector<float>() == std::vector<float>{0, 0.2f, 2, (0.4f - 0.5f) / 0.25f});
  CHECK(Normalize(1, 2)(f).to_vector<float>()[0] == -0.5f);
  CHECK_THROWS_AS(Normalize(0, 1)(image), DTypeError);
  CHECK_THROWS_AS(Normalize({0, 0, 0}, {1, 1, 1})(f), ShapeError);
  CHECK_THROWS_AS(Normalize({0, 0}, {1}), ValueError);
  CHECK_THROWS_AS(Normalize({}, {}), ValueError);
  CHECK_THROWS_AS(Normalize(0, 0), ValueError);
  CHECK_THROWS_AS(ToTensor()(empty({1, 1, 1}, {.dtype = kInt64})), DTypeError);
  CHECK_THROWS_AS(ToTensor()(bytes({1}, {1})), ShapeError);
}

TEST_CASE("transforms: a crop is a window of the padded image") {
  const Tensor image = counting({2, 3, 4});
  const auto at = [&](std::int64_t c, std::int64_t y, std::int64_t x) -> std::int64_t {
    const bool inside = y >= 0 && y < 3 && x >= 0 && x < 4;
    return inside ? image.data<std::uint8_t>()[(c * 3 + y) * 4 + x] : 0;
  };
  std::vector<bool> seen(4 * 5);
  Generator random(1);
  for (int round = 0; round < 400; ++round) {
    const Tensor crop = RandomCrop(4, 4, 2).apply(image, random);
    REQUIRE(crop.shape() == Shape{2, 4, 4});
    bool found = false;
    for (std::int64_t top = -2; top <= 1 && !found; ++top)
      for (std::int64_t left = -2; left <= 2 && !found; ++left) {
        found = true;
        for (std::int64_t i = 0; i < 32 && found; ++i)
          found = crop.data<std::uint8_t>()[i] == at(i / 16, i / 4 % 4 + top, i % 4 + left);
        if (found) seen[static_cast<std::size_t>((top + 2) * 5 + left + 2)] = true;
      }
    CHECK(found);
  }
  CHECK(std::ranges::count(seen, true) == 20);  // every position occurs
  CHECK_THROWS_AS(RandomCrop(5).apply(image, random), ShapeError);
  CHECK_THROWS_AS(RandomCrop(0), ValueError);
  // More padding than window: parts or all of the window are outside.
  for (int round = 0; round < 50; ++round)
    CHECK(RandomCrop(2, 2, 9).apply(image, random).numel() == 8);
  // float32 uses the same code.
  const Tensor f = RandomCrop(3, 4, 0).apply(ToTensor().apply(image, random), random);
  CHECK(f.to_vector<float>() == ToTensor().apply(image, random).to_vector<float>());
}

TEST_CASE("transforms: mirrors with its probability") {
  const Tensor image = counting({1, 2, 3});
  Generator random(1);
  CHECK(values(RandomHorizontalFlip(1).apply(image, random)) == Values{3, 2, 1, 6, 5, 4});
  CHECK(values(RandomHorizontalFlip(0).apply(image, random)) == Values{1, 2, 3, 4, 5, 6});
  int flips = 0;
  for (int i = 0; i < 1000; ++i)
    flips += values(RandomHorizontalFlip().apply(image, random))[0] == 3;
  CHECK(flips > 430);
  CHECK(flips < 570);
  CHECK_THROWS_AS(RandomHorizontalFlip(1.5), ValueError);
}

TEST_CASE("transforms: rotation") {
  const Tensor image = counting({1, 3, 3});
  Generator random(1);
  CHECK(values(RandomRotation(0).apply(image, random)) == values(image));
  // A quarter turn counter-clockwise: the right column becomes the top row.
  const Tensor turned = RandomRotation(90, 90).apply(image, random);
  CHECK(values(turned) == Values{3, 6, 9, 2, 5, 8, 1, 4, 7});
  const Tensor f = RandomRotation(45, 45).apply(ToTensor().apply(image, random), random);
  const double expected = 5 / 255.0;
  CHECK(f.to_vector<float>()[4] == doctest::Approx(expected));
  // The corner comes from (centre - sqrt(2), centre), partly outside the image.
  CHECK(std::abs(f.to_vector<float>()[0]) < 5 / 255.0f);
  CHECK_THROWS_AS(RandomRotation(2, 1), ValueError);
}

TEST_CASE("transforms: erasing sets a rectangle") {
  const Tensor image = counting({2, 10, 10});
  Generator random(1);
  CHECK(values(RandomErasing({.p = 0}).apply(image, random)) == values(image));
  for (int round = 0; round < 100; ++round) {
    const Tensor erased = RandomErasing({.p = 1, .value = 255}).apply(image, random);
    std::vector<std::int64_t> ys, xs, changed;
    for (std::int64_t i = 0; i < 200; ++i)
      if (erased.data<std::uint8_t>()[i] != image.data<std::uint8_t>()[i]) {
        CHECK(erased.data<std::uint8_t>()[i] == 255);
        changed.push_back(i), ys.push_back(i / 10 % 10), xs.push_back(i % 10);
      }
    REQUIRE_FALSE(changed.empty());
    const std::int64_t height = 1 + *std::ranges::max_element(ys) - *std::ranges::min_element(ys);
    const std::int64_t width = 1 + *std::ranges::max_element(xs) - *std::ranges::min_element(xs);
    CHECK(static_cast<std::int64_t>(changed.size()) == 2 * height * width);
    CHECK(height * width <= 45);
  }
  CHECK(values(image) == values(counting({2, 10, 10})));  // the input is unchanged
  CHECK_THROWS_AS(RandomErasing({.scale = {0.5, 0.2}}), ValueError);
  CHECK_THROWS_AS(RandomErasing({.ratio = {0, 1}}), ValueError);
}

TEST_CASE("transforms: composed, nested and with lambdas") {
  int calls = 0;
  const Transform t = Compose{
      Compose{[](const Tensor& x) { return geometry::apply(x, geometry::transpose(x, 1, 2)); },
              ToTensor()},
      [&calls](const Tensor& x, Generator& random) {
        calls += random.next_below(2) < 2;
        return x;
      },
      Normalize(0, 2)};
  CHECK(t.parts().size() == 4);
  CHECK_FALSE(t.pointwise());
  const Tensor out = t(counting({1, 2, 3}));
  CHECK(out.shape() == Shape{1, 3, 2});
  CHECK(out.to_vector<float>()[1] == 4 / 255.0f / 2);
  CHECK(calls == 1);
  CHECK(Transform().parts().empty());
  CHECK(Transform(Compose{ToTensor(), Normalize(0, 1)}).pointwise());
}
