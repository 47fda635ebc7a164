// Colours, affine maps, and transforms made of others, against torchvision's results
// (tests/golden/record_transforms.py makes the same images).
#include "ferrite/data/random_transforms.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>

#include "ferrite/data/auto_augment.h"
#include "ferrite/data/colour.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/data/image_dataset.h"
#include "ferrite/tests/support/golden.h"
#include "ferrite/tests/support/hash.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::data;

namespace {

using Values = std::vector<std::int64_t>;

Values values_of(const Tensor& t) { return t.to_vector<std::int64_t>(); }

Tensor hashed_image(std::int64_t channels = 3, std::int64_t height = 7, std::int64_t width = 9) {
  std::vector<std::uint8_t> values;
  for (std::int64_t i = 0; i < channels * height * width; ++i)
    values.push_back(static_cast<std::uint8_t>(test::hash32(1, i) % 208 + 16));
  return from_vector(values, {channels, height, width});
}

Tensor counted(const Shape& shape) {
  Tensor t = empty(shape, {.dtype = kUInt8});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i + 1);
  return t;
}

const test::Golden& recorded() {
  static const test::Golden golden("transforms");
  return golden;
}

/// uint8 values may differ by `steps`, where sums in another order round to the other side.
void check_image(const Tensor& got, const Tensor& expected, double steps = 0) {
  REQUIRE(got.shape() == expected.shape());
  REQUIRE(got.dtype() == expected.dtype());
  const auto a = got.to_vector<double>(), b = expected.to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  CHECK(worst <= (got.dtype() == kUInt8 ? steps : 3e-6));
}

Tensor warped(const Tensor& image, const AffineParameters& p, bool nearest) {
  Warp warp = no_warp(image.size(1), image.size(2));
  warp.affine = inverse_affine(p);
  warp.nearest = nearest;
  return warp_image(image, warp, "test");
}

}  // namespace

TEST_CASE("colours and affine maps with given parameters are torchvision's") {
  constexpr double kRadians = std::numbers::pi / 180;
  for (const std::string kind : {"u8", "f32"}) {
    CAPTURE(kind);
    const Tensor x = kind == "u8" ? hashed_image() : ToTensor()(hashed_image());
    const auto expect = [&](const std::string& name, const Tensor& got, double steps = 0) {
      CAPTURE(name);
      check_image(got, recorded().get(kind, name), steps);
    };
    for (const auto& [text, f] : {std::pair("0.0", 0.0), {"0.4", 0.4}, {"1.7", 1.7}}) {
      expect(std::string("brightness") + text, adjust_brightness(x, f));
      expect(std::string("contrast") + text, adjust_contrast(x, f), 1);
      expect(std::string("saturation") + text, adjust_saturation(x, f), 1);
      expect(std::string("sharpness") + text, adjust_sharpness(x, f), 1);
    }
    for (const auto& [text, f] : {std::pair("-0.5", -0.5), {"-0.1", -0.1}, {"0.3", 0.3}})
      expect(std::string("hue") + text, adjust_hue(x, f), 1);
    expect("gray", rgb_to_grayscale(x));
    expect("blur", gaussian_blur(x, 5, 1.3), 1);
    expect("autocontrast", autocontrast(x), 1);
    expect("solarize", solarize(x, kind == "u8" ? 100 : 100 / 255.0));
    const AffineParameters all{.radians = 25 * kRadians,
                               .scale = 0.8,
                               .translate_x = 2,
                               .translate_y = -1,
                               .shear_x = 10 * kRadians,
                               .shear_y = -7 * kRadians};
    for (const bool nearest : {true, false}) {
      const std::string end = nearest ? "_nearest" : "_bilinear";
      expect("affine" + end, warped(x, all, nearest), 1);
      expect("rotate" + end, warped(x, {.radians = -33 * kRadians}, nearest), 1);
    }
  }
}

TEST_CASE("operations of RandAugment and TrivialAugment are torchvision's") {
  constexpr double kMagnitudes[] = {0, 0.3, -0.23, 2.7, -3.4, 20, 0.5, -0.5, 0.6, 0.9, 3, 90, 0, 0};
  for (int i = 0; i < 14; ++i) {
    CAPTURE(i);
    const auto op = static_cast<AugmentOp>(i);
    const bool exact = op <= AugmentOp::rotate || op == AugmentOp::brightness ||
                       op == AugmentOp::posterize || op == AugmentOp::equalize;
    check_image(apply_op({.image = hashed_image()}, op, kMagnitudes[i]).image,
                recorded().get("op", std::to_string(i)), exact ? 0 : 1);
  }
  check_image(ConvertImageDtype(kUInt8)(ToTensor()(hashed_image())),
              recorded().get("convert", "u8"));
}

namespace {

/// Opens choose(), whose results are otherwise seen in images only.
template <class Augment>
struct Opened : Augment {
  using Augment::Augment;
  using RandomOps::choose;
};

constexpr std::size_t kOps = 14;

/// What choose() gives in many draws: by operation, the strengths, and whether some were negative.
struct Drawn {
  std::array<std::set<double>, kOps> magnitudes;
  std::array<bool, kOps> negative{};
};

template <class Augment>
void draw_many(const Opened<Augment>& augment, int draws, Drawn& drawn) {
  Generator random(3);
  for (int i = 0; i < draws; ++i) {
    const auto choice = augment.choose(random, 32, 331);
    const auto op = static_cast<std::size_t>(choice.op);
    drawn.magnitudes[op].insert(std::abs(choice.magnitude));
    drawn.negative[op] = drawn.negative[op] || std::signbit(choice.magnitude);
  }
}

}  // namespace

TEST_CASE("magnitudes of RandAugment and TrivialAugment are torchvision's, bin by bin") {
  for (const std::int64_t bins : {31, 10}) {
    CAPTURE(bins);
    const auto name = [&](const char* kind) { return kind + std::to_string(bins); };
    const Tensor table = recorded().get(name("rand_augment"), "magnitudes");
    REQUIRE(table.shape() == Shape{kOps, bins});
    const auto rows = table.to_vector<double>();
    const auto is_signed = recorded().get(name("rand_augment"), "signed").to_vector<std::int64_t>();
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      CAPTURE(bin);
      Drawn drawn;
      draw_many(
          Opened<RandAugment>(RandAugmentOptions{.magnitude = bin, .num_magnitude_bins = bins}),
          400, drawn);
      for (std::size_t op = 0; op < kOps; ++op) {
        CAPTURE(op);
        const double expected =
            rows[op * static_cast<std::size_t>(bins) + static_cast<std::size_t>(bin)];
        CHECK(drawn.magnitudes[op] == std::set<double>{expected});
        CHECK(drawn.negative[op] == (is_signed[op] != 0));
      }
    }

    const auto wide = recorded().get(name("trivial"), "magnitudes").to_vector<double>();
    const auto wide_signs = recorded().get(name("trivial"), "signed").to_vector<std::int64_t>();
    Drawn drawn;
    draw_many(Opened<TrivialAugmentWide>(TrivialAugmentWideOptions{.num_magnitude_bins = bins}),
              10'000, drawn);
    for (std::size_t op = 0; op < kOps; ++op) {
      CAPTURE(op);
      const auto row = wide.begin() + static_cast<std::ptrdiff_t>(op) * bins;
      CHECK(drawn.magnitudes[op] == std::set<double>(row, row + bins));
      CHECK(drawn.negative[op] == (wide_signs[op] != 0));
    }
  }
}

TEST_CASE("flips, pads and erased regions are torchvision's to the bit") {
  const auto expect = [](const std::string& kind, const std::string& name, const Tensor& got) {
    CAPTURE(kind);
    CAPTURE(name);
    const Tensor expected = recorded().get(kind, name);
    CHECK(got.shape() == expected.shape());
    CHECK(got.dtype() == expected.dtype());
    CHECK(got.to_vector<float>() == expected.to_vector<float>());
  };
  for (const std::string kind : {"u8", "f32"}) {
    const Tensor x = kind == "u8" ? hashed_image() : ToTensor()(hashed_image());
    expect(kind, "hflip", RandomHorizontalFlip(1)(x));
    expect(kind, "vflip", RandomVerticalFlip(1)(x));
    expect(kind, "pad_constant", Pad({1, 2, 3, 0}, 9)(x));
    expect(kind, "pad_crop", Pad({-1, 2, 3, -2}, 9)(x));

    // Regions of 12 of 63 pixels, 4 high and 3 wide, among which is that at row 1, column 4.
    const RandomErasing erasing({.p = 1,
                                 .scale = {12 / 63.0, 12 / 63.0},
                                 .ratio = {4 / 3.0, 4 / 3.0},
                                 .value = kind == "u8" ? 7 : 0.7});
    const auto wanted = recorded().get(kind, "erase").to_vector<float>();
    Generator random(1);
    std::set<std::vector<float>> seen;
    for (int i = 0; i < 400; ++i) seen.insert(erasing.apply(x, random).to_vector<float>());
    CHECK(seen.contains(wanted));
    CHECK(seen.size() == 4 * 7);
  }
  const Tensor image = hashed_image();
  for (const auto& [name, mode] : {std::pair("edge", PaddingMode::edge),
                                   {"reflect", PaddingMode::reflect},
                                   {"symmetric", PaddingMode::symmetric}}) {
    const std::string key = std::string("pad_") + name;
    expect("u8", key, Pad({5, 6, 2, 3}, mode)(image));
    expect("u8", key + "_crop", Pad({-1, 2, 3, -2}, mode)(image));
    // Masks are padded alike, and boxes stay at their pixels.
    Annotated sample{.image = image, .mask = image};
    sample.boxes = from_vector<float>({1, 2, 3, 4}, {1, 4});
    const Annotated padded = Pad({5, 6, 2, 3}, mode)(sample);
    CHECK(values_of(padded.mask) == values_of(padded.image));
    CHECK(padded.boxes.to_vector<float>() == std::vector<float>{6, 8, 8, 10});
  }
  expect("f32", "pad_reflect", Pad({1, 0, 0, 2}, PaddingMode::reflect)(ToTensor()(image)));
  CHECK(Pad(6, PaddingMode::reflect)(image).shape() == Shape{3, 19, 21});
  CHECK_THROWS_AS(Pad(7, PaddingMode::reflect)(image), ShapeError);
  CHECK(Pad(7, PaddingMode::symmetric)(image).shape() == Shape{3, 21, 23});
  CHECK_THROWS_AS(Pad(8, PaddingMode::symmetric)(image), ShapeError);
  CHECK(Pad(20, PaddingMode::edge)(image).shape() == Shape{3, 47, 49});
  CHECK_THROWS_AS(Pad(1, PaddingMode::edge)(empty({1, 0, 2}, {.dtype = kUInt8})), ShapeError);
}

TEST_CASE("RandomErasing's regions have torchvision's sizes") {
  const auto draws = recorded().get("erase", "draws").to_vector<double>();
  const auto sizes = recorded().get("erase", "sizes").to_vector<std::int64_t>();
  for (std::size_t i = 0; i < draws.size(); i += 2) {
    CAPTURE(i);
    const double share = draws[i], ratio = draws[i + 1];
    const RandomErasing erasing(
        {.p = 1, .scale = {share, share}, .ratio = {ratio, ratio}, .value = 255});
    const auto erased =
        erasing(empty({1, 30, 40}, {.dtype = kUInt8}).fill_(0)).to_vector<std::int64_t>();
    std::set<std::size_t> rows, columns;
    for (std::size_t at = 0; at < erased.size(); ++at)
      if (erased[at] == 255) rows.insert(at / 40), columns.insert(at % 40);
    CHECK(Values{static_cast<std::int64_t>(rows.size()),
                 static_cast<std::int64_t>(columns.size())} == Values{sizes[i], sizes[i + 1]});
  }
}

TEST_CASE("random transforms draw from all of their range, and follow masks and boxes") {
  const Tensor image = hashed_image();
  Generator random(1);
  std::set<Values> rand_augment, trivial, jitter, affine, order;
  const RandomOrder both({Lambda([](const Tensor& t) { return adjust_brightness(t, 0.5); }),
                          Lambda([](const Tensor& t) { return solarize(t, 100); })});
  int applied = 0, second = 0;
  for (int i = 0; i < 200; ++i) {
    rand_augment.insert(values_of(RandAugment().apply(image, random)));
    trivial.insert(values_of(TrivialAugmentWide().apply(image, random)));
    jitter.insert(values_of(ColorJitter(0.4, 0.4, 0.4, 0.1).apply(image, random)));
    affine.insert(values_of(RandomAffine(20, {.translate = {0.2, 0.2}}).apply(image, random)));
    order.insert(values_of(both.apply(image, random)));
    const auto invert = [](const Tensor& t) { return solarize(t, 0); };
    const auto black = [](const Tensor& t) { return adjust_brightness(t, 0); };
    applied += values_of(RandomApply({invert}, 0.3).apply(image, random)) != values_of(image);
    second += values_of(RandomChoice({invert, black}, {3, 1}).apply(image, random))[0] == 0;
  }
  CHECK(rand_augment.size() > 60);
  CHECK(trivial.size() > 60);
  CHECK(jitter.size() > 190);
  CHECK(affine.size() > 90);
  CHECK(order.size() == 2);
  CHECK((applied > 35 && applied < 90));
  CHECK((second > 25 && second < 80));

  // A shift by a third of the width, of everything.
  Annotated sample{.image = counted({1, 3, 6}), .mask = counted({3, 6})};
  sample.boxes = from_vector<float>({0, 0, 2, 3}, {1, 4});
  const Annotated shifted = apply_op(sample, AugmentOp::translate_x, 2);
  CHECK(values_of(shifted.image) == values_of(shifted.mask));
  CHECK(values_of(shifted.image)[2] == 1);
  CHECK(shifted.boxes.to_vector<float>() == std::vector<float>{2, 0, 4, 3});
}

TEST_CASE("flips, pads and greys") {
  const Tensor image = counted({1, 2, 3});
  CHECK(values_of(RandomVerticalFlip(1)(image)) == Values{4, 5, 6, 1, 2, 3});
  CHECK(values_of(RandomVerticalFlip(0)(image)) == values_of(image));
  CHECK(values_of(Pad({1, 0, 0, 1}, 9)(image)) == Values{9, 1, 2, 3, 9, 4, 5, 6, 9, 9, 9, 9});
  CHECK(Pad(2)(image).shape() == Shape{1, 6, 7});
  CHECK(values_of(Pad({-1, 0, -1, 0})(image)) == Values{2, 5});
  CHECK(values_of(Pad({0, 1}, 9)(image)) == Values{9, 9, 9, 1, 2, 3, 4, 5, 6, 9, 9, 9});
  CHECK(values_of(Pad({-1, 0})(image)) == Values{2, 5});
  CHECK(values_of(Pad({1, 0}, PaddingMode::edge)(image)) == Values{1, 1, 2, 3, 3, 4, 4, 5, 6, 6});
  CHECK_THROWS_AS(Pad(-1)(image), ShapeError);
  Annotated sample{.image = image, .mask = counted({2, 3})};
  sample.points = from_vector<float>({0.5f, 0.5f}, {1, 2});
  const Annotated turned = RandomVerticalFlip(1)(sample);
  CHECK(values_of(turned.mask) == values_of(turned.image));
  CHECK(turned.points.to_vector<float>() == std::vector<float>{0.5f, 1.5f});
  CHECK(Grayscale(3)(hashed_image()).shape() == Shape{3, 7, 9});
  CHECK(values_of(RandomGrayscale(1)(hashed_image())) == values_of(Grayscale(3)(hashed_image())));
  check_image(ConvertImageDtype()(image), ToTensor()(image));

  CHECK_THROWS_AS(RandomVerticalFlip(2), ValueError);
  CHECK_THROWS_AS(RandomAffine(10, {.scale = {0, 1}}), ValueError);
  CHECK_THROWS_AS(RandomChoice({}), ValueError);
  CHECK_THROWS_AS(RandomChoice({Transform()}, {1, 2}), ValueError);
  CHECK_THROWS_AS(ColorJitter(0, 0, 0, 0.6), ValueError);
  CHECK_THROWS_AS(GaussianBlur(4), ValueError);
  CHECK_THROWS_AS(GaussianBlur(9)(counted({1, 4, 9})), ShapeError);
  CHECK_THROWS_AS(RandAugment(2, 31), ValueError);
  CHECK_THROWS_AS(Grayscale(2), ValueError);
  CHECK_THROWS_AS(Grayscale()(counted({2, 2, 2})), ShapeError);
  CHECK_THROWS_AS(ConvertImageDtype{kInt64}, DTypeError);
  CHECK_THROWS_AS(adjust_brightness(image, -1), ValueError);
}

TEST_CASE("posterize and equalize of float32 images are torchvision's") {
  const Tensor image = from_vector<float>({0.0f, 0.3f, 0.5f, 0.7f, 0.99f, 1.0f}, {1, 2, 3});
  CHECK(posterize(image, 2).to_vector<float>() ==
        std::vector<float>{0, 0.25f, 0.5f, 0.5f, 0.75f, 0.75f});
  CHECK(posterize(image, 0).to_vector<float>() == std::vector<float>(6, 0.0f));
  const Tensor bytes = hashed_image();
  check_image(equalize(ToTensor()(bytes)), ToTensor()(equalize(bytes)));
  Generator random(0);
  for (int i = 0; i < 200; ++i)
    for (const Transform& augment : {Transform(RandAugment()), Transform(TrivialAugmentWide())})
      CHECK(augment(ToTensor()(bytes), random).dtype() == kFloat32);
  CHECK(test::contains(test::message_of<ShapeError>([] { RandAugment()(counted({5})); }),
                       "[C, H, W]"));
}

TEST_CASE("augmented batches do not depend on the number of workers") {
  std::vector<Values> runs;
  for (const int workers : {0, 3}) {
    const Tensor images =
        from_vector(hashed_image(24, 8, 8).to_vector<std::uint8_t>(), {8, 3, 8, 8});
    const ImageDataset set(images, from_vector<std::int64_t>(Values(8, 0), {8}), {"all"},
                           Compose{RandAugment(), ColorJitter(0.5), TrivialAugmentWide(),
                                   RandomApply({GaussianBlur(3)})});
    DataLoader loader(set, {.batch_size = 4, .num_workers = workers, .seed = 7});
    Values all;
    for (auto& [inputs, labels] : loader) {
      const Values part = values_of(inputs);
      all.insert(all.end(), part.begin(), part.end());
    }
    runs.push_back(all);
  }
  CHECK(runs[0] == runs[1]);
}
