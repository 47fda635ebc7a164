// The code of docs/data.md, which docs/site/blocks.py compares.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "ferrite/data/concat_dataset.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/data/split.h"
#include "ferrite/data/transforms.h"
#include "ferrite/nn/packed_sequence.h"

using namespace ferrite;

namespace {

Tensor load_image(std::int64_t index) {
  Tensor image = empty({1, 12, 12}, {.dtype = kUInt8});
  std::fill_n(image.data<std::uint8_t>(), image.numel(), static_cast<std::uint8_t>(index));
  return image;
}
Tensor load_mask(std::int64_t index) {
  Tensor mask = empty({12, 12}, {.dtype = kInt64});
  std::fill_n(mask.data<std::int64_t>(), mask.numel(), index);
  return mask;
}

std::int64_t samples = 0;
void step(const Tensor& a, const Tensor& b) {
  CHECK(a.size(0) == b.size(0));
  samples += a.size(0);
}

struct Pair {
  Tensor image, mask;
};

struct Cells : data::DatasetOf<Pair> {
  std::int64_t size() const override { return 10; }
  Pair get(std::int64_t index) const override { return {load_image(index), load_mask(index)}; }
};

using Text = std::pair<Tensor, std::int64_t>;  // tokens [L], label

struct Padded {
  Tensor tokens, labels;              // [N, T] and [N]
  std::vector<std::int64_t> lengths;  // stay on the host
};

struct Texts : data::DatasetOf<Text> {
  std::int64_t size() const override { return 7; }
  Text get(std::int64_t index) const override {
    return {from_vector<std::int64_t>(std::vector<std::int64_t>(1 + index), {1 + index}), index};
  }
};

struct ByLength : data::BatchSampler {
  std::int64_t size() const override { return 2; }
  std::vector<std::vector<std::int64_t>> batches(std::int64_t epoch) const override {
    if (epoch % 2 == 0) return {{0, 1, 2}, {3, 4, 5, 6, 7}};
    return {{3, 4, 5, 6, 7}, {0, 1, 2}};
  }
};

struct Augmented : data::RandomDatasetOf<Pair> {
  std::int64_t size() const override { return 10; }
  Pair get_random(std::int64_t index, Generator& random) const override {
    auto all = augment(data::Annotated{load_image(index), load_mask(index)}, random);
    return {all.image, all.mask};
  }
  data::Transform augment =
      data::Compose{data::RandomResizedCrop(8), data::RandomHorizontalFlip(),
                    data::RandomRotation(10), data::ToTensor(), data::Normalize(0.5, 0.25)};
};

struct Numbers : data::IterableDatasetOf<Tensor> {
  std::int64_t shards() const override { return 3; }
  Stream open(std::int64_t shard, const data::Epoch&) const override {
    return [shard, i = 0]() mutable -> std::optional<Tensor> {
      if (i == 5) return {};
      return from_vector<float>({static_cast<float>(10 * shard + i++)}, {1});
    };
  }
};

}  // namespace

TEST_CASE("guide: samples and batches of any type") {
  samples = 0;
  data::DataLoader loader(Cells(), {.batch_size = 4, .shuffle = true, .num_workers = 2});
  for (auto& [image, mask] : loader) step(image, mask);
  CHECK(samples == 10);
  auto [image, mask] = *loader.begin();  // next(iter(loader))
  CHECK(image.shape() == Shape{4, 1, 12, 12});
  CHECK(loader.epoch() == 1);
}

TEST_CASE("guide: batches of your own making") {
  samples = 0;
  const auto pad = [](const std::vector<Text>& samples) {
    std::vector<std::int64_t> labels, lengths;
    std::vector<Tensor> tokens;
    for (const auto& [t, label] : samples) {
      tokens.push_back(t);
      labels.push_back(label);
      lengths.push_back(t.size(0));
    }
    return Padded{nn::utils::rnn::pad_sequence(tokens, true), data::default_collate(labels),
                  lengths};
  };
  data::DataLoader loader(Texts(), {.batch_size = 3}, pad);
  for (auto& [tokens, labels, lengths] : loader) step(tokens, labels);
  CHECK(samples == 7);
}

TEST_CASE("guide: samplers and parts") {
  const std::vector<double> weights(10, 1);
  data::DataLoader balanced(Cells(),
                            {.batch_size = 4, .sampler = data::WeightedRandomSampler(weights, 10)});
  data::DataLoader some(Cells(), {.sampler = data::SubsetRandomSampler({1, 4, 7})});
  CHECK(balanced.size() == 3);
  CHECK(some.size() == 3);
  data::DataLoader grouped(Cells(), {.batch_sampler = ByLength()});
  std::vector<std::int64_t> sizes;
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto& [image, mask] : grouped) sizes.push_back(image.size(0));
  CHECK(sizes == std::vector<std::int64_t>{3, 5, 5, 3});

  auto [train, validation] = data::random_split(Cells(), {0.8, 0.2}, 42);  // or lengths; a seed
  const data::Subset first(Cells(), {0, 1, 2});
  const data::ConcatDataset both(train, first);
  CHECK(both.size() == 11);
  CHECK(validation.size() == 2);

  int folds = 0;
  const auto run = [&](auto& fold, const auto& out) {
    CHECK(fold.size() == 2);
    CHECK(out.size() == 2);
    ++folds;
  };
  for (const auto& [in, out] : data::k_fold(10, 5, {.shuffle = true, .seed = 1})) {
    data::DataLoader fold(data::Subset(Cells(), in), {.batch_size = 4, .shuffle = true});
    run(fold, out);
  }
  CHECK(folds == 5);
}

TEST_CASE("guide: random transforms") {
  data::DataLoader loader(Augmented(), {.batch_size = 10, .num_workers = 1});
  auto [image, mask] = *loader.begin();
  CHECK(image.shape() == Shape{10, 1, 8, 8});
  CHECK(mask.shape() == Shape{10, 8, 8});
}

TEST_CASE("guide: streams") {
  samples = 0;
  data::DataLoader loader(Numbers(), {.batch_size = 2, .num_workers = 3});
  for (Tensor& batch : loader) step(batch, batch);
  CHECK(samples == 15);
}
