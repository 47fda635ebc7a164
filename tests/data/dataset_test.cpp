#include "ferrite/data/dataset.h"

#include <doctest/doctest.h>

#include "ferrite/core/views.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/data/image_dataset.h"
#include "ferrite/data/synthetic_digits.h"

using namespace ferrite;
using namespace ferrite::data;

namespace {

using Indices = std::vector<std::int64_t>;
using Values = std::vector<std::int64_t>;

Values values(const Tensor& t) { return t.to_vector<std::int64_t>(); }

/// Sample i is ([i, 10 i], i), without its own get_batch().
struct Plain : Dataset {
  std::int64_t size() const override { return 5; }
  Sample get(std::int64_t i) const override {
    check_index(i, size(), "plain");
    return {from_vector<std::int64_t>({i, 10 * i}, {2}), from_vector<std::int64_t>({i}, {})};
  }
};

Tensor counting(const Shape& shape, DType dtype) {
  Tensor t = empty(shape, {.dtype = dtype});
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    if (dtype == kUInt8)
      t.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
    else
      t.data<std::int64_t>()[i] = i;
  }
  return t;
}

}  // namespace

TEST_CASE("dataset: the default batch stacks samples in order") {
  const Plain plain;
  const Batch batch = plain.get_batch(Indices{3, 1, 3});
  CHECK(batch.size() == 3);
  CHECK(batch.inputs.shape() == Shape{3, 2});
  CHECK(values(batch.inputs) == Values{3, 30, 1, 10, 3, 30});
  CHECK(batch.labels.shape() == Shape{3});
  CHECK(values(batch.labels) == Values{3, 1, 3});
  CHECK_THROWS_AS(plain.get_batch(Indices{5}), IndexError);
  CHECK_THROWS_AS(plain.get_batch(Indices{}), ValueError);
}

TEST_CASE("dataset: rows of tensors") {
  const Tensor inputs = counting({4, 3}, kInt64), labels = counting({4}, kInt64);
  const TensorDataset set(inputs, labels);
  CHECK(set.size() == 4);
  CHECK(values(set.get(2).input) == Values{6, 7, 8});
  CHECK(set.get(2).label.dim() == 0);
  const Batch batch = set.get_batch(Indices{3, 0});
  CHECK(values(batch.inputs) == Values{9, 10, 11, 0, 1, 2});
  CHECK(values(batch.labels) == Values{3, 0});
  CHECK_THROWS_AS(set.get(4), IndexError);
  CHECK_THROWS_AS(set.get(-1), IndexError);
  CHECK_THROWS_AS(set.get_batch(Indices{4}), IndexError);
  CHECK_THROWS_AS(TensorDataset(inputs, counting({3}, kInt64)), ShapeError);
  // A view with other strides.
  const Tensor t = geometry::apply(inputs, geometry::transpose(inputs, 0, 1));
  CHECK(values(TensorDataset(t, counting({3}, kInt64)).get_batch(Indices{1}).inputs) ==
        Values{1, 4, 7, 10});
}

TEST_CASE("dataset: subsets") {
  auto plain = std::make_shared<Plain>();
  const Subset subset(plain, {4, 2});
  CHECK(subset.size() == 2);
  CHECK(values(subset.get(0).label) == Values{4});
  CHECK(values(subset.get_batch(Indices{1, 0}).labels) == Values{2, 4});
  CHECK_THROWS_AS(subset.get(2), IndexError);
  CHECK_THROWS_AS(Subset(plain, {5}), IndexError);

  // A data set by value, and a loader over the subset.
  const SyntheticDigits digits(30, 1);
  DataLoader loader(Subset(digits, {7, 3, 29}), {.batch_size = 2, .num_workers = 1});
  std::vector<Values> batches;
  for (auto& [images, labels] : loader) batches.push_back(values(labels));
  const auto label = [&](std::int64_t i) { return values(digits.get(i).label)[0]; };
  CHECK(batches == std::vector<Values>{{label(7), label(3)}, {label(29)}});
}

TEST_CASE("dataset: a sample's generator depends on seed, epoch and index") {
  const auto first = [](Epoch epoch, std::int64_t index) {
    return epoch.generator(index).next_u64();
  };
  CHECK(first({1, 2}, 3) == first({1, 2}, 3));
  CHECK(first({1, 2}, 3) != first({2, 2}, 3));
  CHECK(first({1, 2}, 3) != first({1, 3}, 3));
  CHECK(first({1, 2}, 3) != first({1, 2}, 4));
  CHECK(first({1, 2}, 3) != first({1, 3}, 2));
}

TEST_CASE("dataset: images are converted in batches with the same results as one by one") {
  const Tensor images = counting({6, 2, 3, 4}, kUInt8), labels = counting({6}, kInt64);
  const std::vector<std::string> names(6, "class");
  const ImageDataset set(images, labels, names,
                         Compose{ToTensor(), Normalize({0.1, 0.5}, {0.3, 0.2})});
  const Batch batch = set.get_batch(Indices{5, 1});
  CHECK(batch.inputs.shape() == Shape{2, 2, 3, 4});
  CHECK(batch.inputs.dtype() == kFloat32);
  CHECK(values(batch.labels) == Values{5, 1});
  const auto got = batch.inputs.to_vector<float>();
  for (std::size_t i = 0; i < 24; ++i) {
    const float mean = i < 12 ? 0.1f : 0.5f, std = i < 12 ? 0.3f : 0.2f;
    CHECK(got[i] == (static_cast<float>(120 + i) / 255.0f - mean) / std);  // the same bits
  }
  const auto single = set.get(1).input.to_vector<float>();
  CHECK(std::equal(single.begin(), single.end(), got.begin() + 24));

  // With a lambda in the middle the general path is used, with the same values.
  ImageDataset general = set;
  general.set_transform(Compose{[](const Tensor& t) { return t; }, ToTensor(),
                                [](const Tensor& t) { return t; },
                                Normalize({0.1, 0.5}, {0.3, 0.2})});
  CHECK(general.get_batch(Indices{5, 1}).inputs.to_vector<float>() == got);

  ImageDataset raw = set;
  raw.set_transform({});
  CHECK(raw.get_batch(Indices{2}).inputs.dtype() == kUInt8);
  CHECK(values(raw.get_batch(Indices{2}).inputs)[0] == 48);
  CHECK(raw.get(2).input.dtype() == kUInt8);
}

TEST_CASE("dataset: a transform that changes the number of channels") {
  const Tensor images = counting({2, 1, 2, 2}, kUInt8), labels = counting({2}, kInt64);
  const auto three = [](const Tensor& t) {
    const Tensor wide = geometry::apply(t, geometry::expand(t, {3, 2, 2}));
    return wide;
  };
  const ImageDataset set(images, labels, {"a", "b"},
                         Compose{three, ToTensor(), Normalize({0, 0.5, 0}, {1, 1, 1})});
  const Batch batch = set.get_batch(Indices{1});
  CHECK(batch.inputs.shape() == Shape{1, 3, 2, 2});
  CHECK(batch.inputs.to_vector<float>()[4] == 4 / 255.0f - 0.5f);
}

TEST_CASE("dataset: images and labels are checked") {
  const Tensor images = counting({2, 1, 2, 2}, kUInt8), labels = counting({2}, kInt64);
  CHECK_THROWS_AS(ImageDataset(images, labels, {"only one"}), ValueError);
  CHECK_THROWS_AS(ImageDataset(images, counting({3}, kInt64), {"a", "b", "c"}), ShapeError);
  CHECK_THROWS_AS(ImageDataset(images, empty({2}), {"a", "b"}), DTypeError);
  CHECK_THROWS_AS(ImageDataset(images, labels, {"a", "b"}, Normalize(0, 1)), DTypeError);
  CHECK_THROWS_AS(
      ImageDataset(images, labels, {"a", "b"}, Compose{ToTensor(), Normalize({0, 0}, {1, 1})}),
      ShapeError);
}
