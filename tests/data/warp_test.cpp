// Transforms of an image together with its mask, boxes and points.
#include "ferrite/data/warp.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ferrite/data/dataloader.h"
#include "ferrite/data/transforms.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::data;
using ferrite::test::message_of;

namespace {

using Floats = std::vector<float>;
using Values = std::vector<std::int64_t>;

constexpr std::int64_t kHeight = 12, kWidth = 16;
/// A rectangle of ones, and the pixel of a point in it: left, top, right, bottom; x, y.
constexpr std::array<std::int64_t, 4> kBox{3, 2, 9, 8};
constexpr std::array<std::int64_t, 2> kPoint{5, 4};

/// The mask is int64 with ones in the box, and 7 at the point; the image has the same values.
Annotated scene() {
  Annotated all{.image = empty({2, kHeight, kWidth}, {.dtype = kUInt8}),
                .mask = empty({kHeight, kWidth}, {.dtype = kInt64})};
  for (std::int64_t i = 0; i < kHeight * kWidth; ++i) {
    const std::int64_t y = i / kWidth, x = i % kWidth;
    const bool inside = x >= kBox[0] && x < kBox[2] && y >= kBox[1] && y < kBox[3];
    const std::int64_t value = x == kPoint[0] && y == kPoint[1] ? 7 : inside ? 1 : 0;
    all.mask.data<std::int64_t>()[i] = value;
    for (std::int64_t c = 0; c < 2; ++c)
      all.image.data<std::uint8_t>()[c * kHeight * kWidth + i] = static_cast<std::uint8_t>(value);
  }
  all.boxes = from_vector<float>({kBox[0], kBox[1], kBox[2], kBox[3]}, {1, 4});
  all.points = from_vector<float>({kPoint[0] + 0.5f, kPoint[1] + 0.5f}, {1, 2});
  return all;
}

/// The box around the values of a mask that are not 0; zeros if there are none.
Floats box_around(const Tensor& mask) {
  const Values v = mask.to_vector<std::int64_t>();
  const std::int64_t width = mask.size(-1);
  std::int64_t left = width, top = mask.size(-2), right = 0, bottom = 0;
  for (std::int64_t i = 0; i < std::ssize(v); ++i) {
    if (v[static_cast<std::size_t>(i)] == 0) continue;
    left = std::min(left, i % width), right = std::max(right, i % width + 1);
    top = std::min(top, i / width), bottom = std::max(bottom, i / width + 1);
  }
  if (right == 0) return {0, 0, 0, 0};
  return {static_cast<float>(left), static_cast<float>(top), static_cast<float>(right),
          static_cast<float>(bottom)};
}

/// Whether the box and the point are where the mask has them.
void check_agrees(const Annotated& all) {
  const Floats box = all.boxes.to_vector<float>();
  if ((box[2] - box[0]) * (box[3] - box[1]) > 0) CHECK(box == box_around(all.mask));
  const Floats point = all.points.to_vector<float>();
  const auto x = static_cast<std::int64_t>(std::floor(point[0]));
  const auto y = static_cast<std::int64_t>(std::floor(point[1]));
  const std::int64_t height = all.mask.size(0), width = all.mask.size(1);
  const bool inside = x >= 0 && x < width && y >= 0 && y < height;
  const Values mask = all.mask.to_vector<std::int64_t>();
  CHECK((std::ranges::count(mask, 7) > 0) == inside);
  if (inside) CHECK(mask[static_cast<std::size_t>(y * width + x)] == 7);
}

}  // namespace

TEST_CASE("warp: image, mask, boxes and points stay together") {
  const Annotated all = scene();
  const std::vector<Transform> transforms = {RandomCrop(8, 10, 3),     RandomCrop(9),
                                             RandomHorizontalFlip(),   CenterCrop(6, 9),
                                             CenterCrop(20),           Resize(24, 32),
                                             Resize(24, 48),           RandomRotation(90, 90),
                                             RandomRotation(180, 180), RandomRotation(-90, -90)};
  for (std::size_t t = 0; t < transforms.size(); ++t)
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(t);
      CAPTURE(seed);
      Generator joint(seed), single(seed);
      const Annotated out = transforms[t](all, joint);
      // The image is what the transform makes of it alone, of the same random numbers.
      CHECK(out.image.to_vector<int>() == transforms[t](all.image, single).to_vector<int>());
      CHECK(joint.next_u64() == single.next_u64());
      CHECK(out.mask.size(0) == out.image.size(1));
      CHECK(out.mask.size(1) == out.image.size(2));
      // A turn of a quarter of a rectangle moves its sides, whose box is clipped, beyond its rows.
      check_agrees(out);
    }
  CHECK(all.mask.to_vector<int>() == scene().mask.to_vector<int>());  // the input is unchanged
}

TEST_CASE("warp: what a random part of the image contains") {
  const Annotated all = scene();
  const RandomResizedCrop crop(12, 12, {.scale = {0.3, 1}});
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Generator random(seed);
    const Annotated out = crop(all, random);
    CHECK(out.mask.shape() == Shape{12, 12});
    const Floats box = out.boxes.to_vector<float>(), around = box_around(out.mask);
    if (around[2] == 0) continue;
    // The nearest pixels are one away at most, in pixels of the source.
    for (std::size_t i = 0; i < 4; ++i) CHECK(std::abs(box[i] - around[i]) < 4);
    for (std::size_t i = 0; i < 4; ++i) CHECK((box[i] >= 0 && box[i] <= 12));
  }
}

TEST_CASE("warp: a turned box is the box around it, clipped; points move exactly") {
  Annotated all{.image = empty({1, 10, 10}, {.dtype = kUInt8}),
                .boxes = from_vector<float>({4, 4, 6, 6, 0, 0, 10, 10, 8, 8, 10, 10}, {3, 4}),
                .points = from_vector<float>({5, 5, 10, 5}, {2, 2})};
  Generator random;
  const Annotated out = RandomRotation(45, 45)(all, random);
  const float r = std::sqrt(2.0f);
  const Floats expected{5 - r, 5 - r, 5 + r, 5 + r, 0, 0, 10, 10, 5 + 3 * r, 5 - r, 10, 5 + r};
  const Floats boxes = out.boxes.to_vector<float>();
  for (std::size_t i = 0; i < 12; ++i)
    CHECK(boxes[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  const Floats points = out.points.to_vector<float>();
  CHECK(points[0] == doctest::Approx(5));
  CHECK(points[1] == doctest::Approx(5));
  // To the right of the centre, turned counter-clockwise: to the upper right.
  CHECK(points[2] == doctest::Approx(5 + 5 / r));
  CHECK(points[3] == doctest::Approx(5 - 5 / r));
  CHECK_FALSE(out.mask.defined());
}

TEST_CASE("warp: masks of several planes and types, by nearest neighbour") {
  const std::vector<std::int64_t> v{1, 2, 3, 4, 5, 6, 7, 8};
  Generator random;
  for (const bool wide : {false, true}) {
    const Tensor mask = wide ? from_vector<std::int64_t>(v, {2, 2, 2})
                             : from_vector<std::uint8_t>({v.begin(), v.end()}, {2, 2, 2});
    const Annotated all{.image = empty({3, 2, 2}, {.dtype = kFloat32}), .mask = mask};
    const Annotated out = Resize(3, 4)(all, random);
    CHECK(out.mask.dtype() == mask.dtype());
    CHECK(out.mask.shape() == Shape{2, 3, 4});
    CHECK(out.mask.to_vector<std::int64_t>() == Values{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4,  //
                                                       5, 5, 6, 6, 5, 5, 6, 6, 7, 7, 8, 8});
  }
}

TEST_CASE("warp: masks of 16 bytes a value") {
  const std::vector<std::complex<double>> v{{1, -1}, {2, -2}, {3, -3}, {4, -4}};
  const Annotated all{.image = empty({3, 2, 2}, {.dtype = kFloat32}),
                      .mask = from_vector<std::complex<double>>(v, {2, 2})};
  CHECK(RandomHorizontalFlip(1)(all).mask.to_vector<std::complex<double>>() ==
        std::vector<std::complex<double>>{v[1], v[0], v[3], v[2]});
}

TEST_CASE("warp: composed; other transforms change the image only") {
  const Transform t = Compose{RandomCrop(8), RandomHorizontalFlip(), ToTensor(),
                              Normalize(0.5, 0.5), RandomErasing({.p = 1})};
  const Annotated all = scene();
  Generator joint(3), single(3);
  const Annotated out = t(all, joint);
  CHECK(out.image.dtype() == kFloat32);
  CHECK(out.image.to_vector<float>() == t(all.image, single).to_vector<float>());
  check_agrees(out);
  // A lambda that takes everything, and one for the image.
  const Transform own = Compose{[](const Annotated& a, Generator&) {
                                  Annotated b = a;
                                  b.points = {};
                                  return b;
                                },
                                [](const Tensor& x) { return ToTensor()(x); }};
  CHECK_FALSE(own(all).points.defined());
  CHECK(own(all).image.dtype() == kFloat32);
  CHECK(own(all.image).dtype() == kFloat32);
  CHECK(Transform()(all).boxes.to_vector<float>() == all.boxes.to_vector<float>());
}

TEST_CASE("warp: parts that do not fit the image are refused") {
  const Annotated all = scene();
  Generator random;
  const auto error = [&](auto change) {
    Annotated bad = all;
    change(bad);
    return message_of<Error>([&] { RandomCrop(4)(bad, random); });
  };
  CHECK(error([](Annotated& a) {
          a.mask = empty({12, 15}, {.dtype = kUInt8});
        }) == "[random_crop] expected a mask [12, 16] or [K, 12, 16], got uint8[12, 15] on cpu");
  CHECK(error([](Annotated& a) { a.boxes = empty({4}); }) ==
        "[random_crop] expected boxes [N, 4], got float32[4] on cpu");
  CHECK(error([](Annotated& a) {
          a.points = empty({4, 2}, {.dtype = kInt64});
        }) == "[random_crop] expected points of float32, got int64[4, 2] on cpu");
  CHECK_THROWS_AS(RandomCrop(4)(Annotated{}, random), ShapeError);
  Annotated none = all;
  none.boxes = empty({0, 4});
  CHECK(RandomCrop(4)(none, random).boxes.shape() == Shape{0, 4});
}

TEST_CASE("warp: in a data set, the same whatever the number of workers") {
  struct Pair {
    Tensor image, mask;
  };
  struct Scenes : RandomDatasetOf<Pair> {
    std::int64_t size() const override { return 12; }
    Pair get_random(std::int64_t, Generator& random) const override {
      const auto [image, mask, boxes, points] = augment(scene(), random);
      return {image, mask};
    }
    Transform augment = Compose{RandomResizedCrop(8), RandomHorizontalFlip(), ToTensor()};
  };
  std::vector<Floats> expected;
  for (const int workers : {0, 3}) {
    DataLoader loader(Scenes(),
                      {.batch_size = 5, .shuffle = true, .num_workers = workers, .seed = 2});
    std::size_t i = 0;
    for (auto& [image, mask] : loader) {
      CHECK(mask.dtype() == kInt64);
      if (workers == 0)
        expected.push_back(image.to_vector<float>());
      else
        CHECK(image.to_vector<float>() == expected[i++]);
    }
  }
  CHECK(expected.size() == 3);
}
