// Transforms that scale, against Pillow's results.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ferrite/data/transforms.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::data;

namespace {

using Values = std::vector<std::int64_t>;

Values values(const Tensor& t) { return t.to_vector<std::int64_t>(); }

/// Pixel (y, x) of channel c is 100 c + 10 y + x.
Tensor numbered(std::int64_t channels, std::int64_t height, std::int64_t width) {
  Tensor t = empty({channels, height, width}, {.dtype = kUInt8});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(100 * (i / (height * width)) +
                                                          10 * (i / width % height) + i % width);
  return t;
}

}  // namespace

TEST_CASE("resize: Pillow's bits for uint8, the same unrounded for float32") {
  const test::Golden golden("resize");
  int cases = 0;
  for (; golden.has("case" + std::to_string(cases), "image"); ++cases) {
    const std::string name = "case" + std::to_string(cases);
    CAPTURE(name);
    const Tensor image = golden.get(name, "image"), expected = golden.get(name, "resized");
    const Resize resize(expected.size(1), expected.size(2));
    const Tensor got = resize(image);
    REQUIRE(got.shape() == expected.shape());
    REQUIRE(got.dtype() == kUInt8);
    CHECK(values(got) == values(expected));
    // Pillow rounds twice, after rows and after columns.
    const Tensor exact = resize(ToTensor()(image));
    REQUIRE(exact.dtype() == kFloat32);
    for (std::int64_t i = 0; i < exact.numel(); ++i)
      CHECK(std::abs(exact.data<float>()[i] * 255 - expected.data<std::uint8_t>()[i]) < 1.01);
  }
  CHECK(cases == 8);
}

namespace {

/// Pillow's sums along one axis, value by value: `in` has rows of `length` values `step` apart,
/// `rows` of them `stride` apart.
struct Axis {
  std::int64_t length, step, rows, stride;
};

void resize_axis(const std::vector<std::uint8_t>& in, const Axis& from, std::int64_t to,
                 const Axis& out_axis, std::vector<std::uint8_t>& out) {
  const double scale = static_cast<double>(from.length) / static_cast<double>(to);
  const double support = std::max(scale, 1.0);
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(center - support + 0.5), 0);
    const auto last =
        std::min<std::int64_t>(static_cast<std::int64_t>(center + support + 0.5), from.length);
    std::vector<double> w;
    double total = 0;
    for (std::int64_t k = first; k < last; ++k) {
      w.push_back(
          std::max(1 - std::abs((static_cast<double>(k) - center + 0.5) * (1 / support)), 0.0));
      total += w.back();
    }
    for (std::int64_t y = 0; y < from.rows; ++y) {
      std::int64_t sum = 1 << 21;
      for (std::int64_t k = first; k < last; ++k)
        sum += in[static_cast<std::size_t>(y * from.stride + k * from.step)] *
               static_cast<std::int64_t>(0.5 + w[static_cast<std::size_t>(k - first)] / total *
                                                   (1 << 22));
      out[static_cast<std::size_t>(y * out_axis.stride + i * out_axis.step)] =
          static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> 22, 0, 255));
    }
  }
}

}  // namespace

TEST_CASE("resize: the same sums at sizes around and beyond sixteen rows and columns") {
  struct Case {
    std::int64_t height, width, to_height, to_width;
  };
  Generator random(3);
  for (const Case& c : {Case{1, 1, 5, 33}, Case{16, 16, 15, 17}, Case{17, 15, 16, 16},
                        Case{33, 47, 48, 31}, Case{50, 3, 7, 19}, Case{2, 130, 3, 16}}) {
    CAPTURE(c.height);
    CAPTURE(c.width);
    Tensor image = empty({1, c.height, c.width}, {.dtype = kUInt8});
    std::vector<std::uint8_t> in;
    for (std::int64_t i = 0; i < image.numel(); ++i)
      in.push_back(static_cast<std::uint8_t>(random.next_below(256)));
    std::ranges::copy(in, image.data<std::uint8_t>());
    std::vector<std::uint8_t> across(static_cast<std::size_t>(c.height * c.to_width));
    std::vector<std::uint8_t> both(static_cast<std::size_t>(c.to_height * c.to_width));
    resize_axis(in, {c.width, 1, c.height, c.width}, c.to_width,
                {c.to_width, 1, c.height, c.to_width}, across);
    resize_axis(across, {c.height, c.to_width, c.to_width, 1}, c.to_height,
                {c.to_height, c.to_width, c.to_width, 1}, both);
    CHECK(Resize(c.to_height, c.to_width)(image).to_vector<std::uint8_t>() == both);
  }
}

TEST_CASE("resize: the shorter side, sizes and errors") {
  const auto shape = [](std::int64_t size, std::int64_t height, std::int64_t width) {
    return Resize(size)(numbered(2, height, width)).shape();
  };
  CHECK(shape(4, 8, 8) == Shape{2, 4, 4});
  CHECK(shape(4, 7, 9) == Shape{2, 4, 5});
  CHECK(shape(4, 9, 7) == Shape{2, 5, 4});
  CHECK(shape(5, 2, 3) == Shape{2, 5, 7});
  CHECK(shape(3, 1, 1) == Shape{2, 3, 3});
  const Tensor image = numbered(1, 3, 5);
  CHECK(Resize(3)(image).data_ptr() == image.data_ptr());  // nothing to do
  CHECK(values(Resize(3, 5)(image)) == values(image));
  CHECK_THROWS_AS(Resize(0), ValueError);
  CHECK_THROWS_AS(Resize(3, -1), ValueError);
  CHECK_THROWS_AS(Resize(3)(empty({1, 0, 4}, {.dtype = kUInt8})), ShapeError);
  CHECK_THROWS_AS(Resize(3, 3)(empty({3, 3}, {.dtype = kUInt8})), ShapeError);
  CHECK_THROWS_AS(Resize(3)(empty({1, 4, 4}, {.dtype = kInt64})), DTypeError);
}

TEST_CASE("centre crop: the middle, with torchvision's rounding; zeros if the image is smaller") {
  const Tensor image = numbered(2, 5, 6);
  CHECK(values(CenterCrop(1, 2)(image)) == Values{22, 23, 122, 123});
  // A rest of 1 or 5 goes to the even side: (5 - 4) / 2 is 0, (6 - 1) / 2 is 2, (6 - 3) / 2 is 2.
  CHECK(values(CenterCrop(4, 6)(image))[0] == 0);
  CHECK(values(CenterCrop(1, 1)(image)) == Values{22, 122});
  CHECK(values(CenterCrop(1, 3)(image)) == Values{22, 23, 24, 122, 123, 124});
  const Tensor small = numbered(1, 1, 1);
  small.data<std::uint8_t>()[0] = 7;
  CHECK(values(CenterCrop(2)(small)) == Values{7, 0, 0, 0});
  CHECK(values(CenterCrop(3, 1)(small)) == Values{0, 7, 0});
  CHECK(CenterCrop(2)(ToTensor()(image)).dtype() == kFloat32);
  CHECK_THROWS_AS(CenterCrop(0), ValueError);
}

TEST_CASE("random resized crop: parts of the areas and ratios asked for, scaled") {
  const Tensor image = numbered(1, 10, 10);
  Generator random(1);
  // With the size of the crop, the result is a window of the image.
  std::set<std::int64_t> corners;
  for (int round = 0; round < 300; ++round) {
    const Tensor part =
        RandomResizedCrop(5, {.scale = {0.25, 0.25}, .ratio = {1, 1}}).apply(image, random);
    REQUIRE(part.shape() == Shape{1, 5, 5});
    const Values v = values(part);
    corners.insert(v[0]);
    for (std::size_t i = 0; i < v.size(); ++i)
      REQUIRE(v[i] == v[0] + 10 * static_cast<std::int64_t>(i / 5) + static_cast<int>(i % 5));
  }
  CHECK(corners.size() == 36);  // every position occurs
  // It treats a window exactly like Resize.
  for (int round = 0; round < 100; ++round) {
    const Tensor out = RandomResizedCrop(3, 4).apply(image, random);
    REQUIRE(out.shape() == Shape{1, 3, 4});
    const Values v = values(out);
    CHECK(std::ranges::is_sorted(v.begin(), v.begin() + 4));
    CHECK(v[8] >= v[0]);
  }
  // No such part fits: the largest central one with the allowed ratio.
  const Tensor wide =
      RandomResizedCrop(2, 2, {.scale = {1, 1}, .ratio = {1, 1}}).apply(numbered(1, 2, 8), random);
  CHECK(values(wide) == Values{3, 4, 13, 14});
  const Tensor high =
      RandomResizedCrop(2, 2, {.scale = {1, 1}, .ratio = {1, 1}}).apply(numbered(1, 8, 2), random);
  CHECK(values(high) == Values{30, 31, 40, 41});
  const Tensor all =
      RandomResizedCrop(2, 8, {.scale = {1, 1}, .ratio = {4, 4}}).apply(numbered(1, 2, 8), random);
  CHECK(values(all) == values(numbered(1, 2, 8)));
  CHECK_THROWS_AS(RandomResizedCrop(0), ValueError);
  CHECK_THROWS_AS(RandomResizedCrop(2, {.scale = {0, 1}}), ValueError);
  CHECK_THROWS_AS(RandomResizedCrop(2, {.scale = {0.5, 1.5}}), ValueError);
  CHECK_THROWS_AS(RandomResizedCrop(2, {.ratio = {2, 1}}), ValueError);
  CHECK_THROWS_AS(RandomResizedCrop(2)(empty({1, 4, 0})), ShapeError);
}
