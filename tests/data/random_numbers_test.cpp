// Random numbers that data sets and functions that make batches draw from the default generator.
#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "ferrite/data/dataloader.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"

using namespace ferrite;
using namespace ferrite::data;

namespace {

using Numbers = std::vector<double>;

double draw() { return rand({1}).item<double>(); }

struct Noisy : DatasetOf<Tensor> {
  std::int64_t size() const override { return 24; }
  Tensor get(std::int64_t index) const override {
    // Samples take different time, so that workers come in another order each time.
    std::this_thread::sleep_for(std::chrono::microseconds(37 * index % 11 * 20));
    return rand({1});
  }
};

struct NoisyStream : IterableDatasetOf<Tensor> {
  std::int64_t shards() const override { return 3; }
  Stream open(std::int64_t, const Epoch&) const override {
    return [left = 8]() mutable -> std::optional<Tensor> {
      if (left-- == 0) return {};
      return rand({1});
    };
  }
};

/// What an epoch has, and behind it what the loop itself draws at each batch.
template <class MakeLoader>
Numbers epoch(const MakeLoader& make, int workers) {
  manual_seed(5);
  auto loader = make(workers);
  Numbers batches, own;
  for (const Tensor& batch : loader) {
    const std::vector<float> part = batch.flatten().to_vector<float>();
    batches.insert(batches.end(), part.begin(), part.end());
    own.push_back(draw());
  }
  batches.insert(batches.end(), own.begin(), own.end());
  return batches;
}

template <class MakeLoader>
void check(const MakeLoader& make, std::size_t count) {
  const Numbers expected = epoch(make, 0);
  CHECK(expected.size() == count);
  CHECK(std::set(expected.begin(), expected.end()).size() == count);  // all of them different
  for (const int workers : {1, 2, 3})
    for (int repeat = 0; repeat < 3; ++repeat) CHECK(epoch(make, workers) == expected);
}

}  // namespace

TEST_CASE("rand() in a data set depends on the sample, and leaves the loop's numbers alone") {
  const auto with_noise = [](const std::vector<Tensor>& samples) {
    return cat({stack(samples).flatten(), rand({2})});
  };
  check([](int n) { return DataLoader(Noisy(), {.batch_size = 4, .num_workers = n}); }, 24 + 6);
  check([](int n) { return DataLoader(NoisyStream(), {.batch_size = 4, .num_workers = n}); },
        24 + 6);
  // Functions that make batches draw too.
  check([&](int n) { return DataLoader(Noisy(), {.batch_size = 4, .num_workers = n}, with_noise); },
        24 + 12 + 6);
  check(
      [&](int n) {
        return DataLoader(NoisyStream(), {.batch_size = 4, .num_workers = n}, with_noise);
      },
      24 + 12 + 6);

  manual_seed(5);
  const Numbers alone{draw(), draw()};
  manual_seed(5);
  DataLoader loader(Noisy(), {.batch_size = 12});
  Numbers between;
  for (const Tensor& batch : loader) {
    CHECK(batch.numel() == 12);
    between.push_back(draw());
  }
  CHECK(between == alone);
}

TEST_CASE("manual_seed() in a data set seeds the numbers of the sample") {
  struct Seeded : DatasetOf<Tensor> {
    std::int64_t size() const override { return 6; }
    Tensor get(std::int64_t index) const override {
      manual_seed(static_cast<std::uint64_t>(index % 2));
      return rand({1});
    }
  };
  manual_seed(5);
  const double first = draw();
  manual_seed(5);
  for (const Tensor& batch : DataLoader(Seeded(), {.batch_size = 6, .num_workers = 2})) {
    const std::vector<float> drawn = batch.to_vector<float>();
    CHECK(drawn[0] == drawn[2]);
    CHECK(drawn[1] == drawn[5]);
    CHECK(drawn[0] != drawn[1]);
  }
  CHECK(draw() == first);
  manual_seed(Generator::kDefaultSeed);
}
