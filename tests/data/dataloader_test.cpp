#include "ferrite/data/dataloader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <set>
#include <thread>

#include "ferrite/data/concat_dataset.h"
#include "ferrite/data/synthetic_digits.h"
#include "ferrite/data/transforms.h"

using namespace ferrite;
using namespace ferrite::data;

namespace {

using Indices = std::vector<std::int64_t>;

Tensor counting(std::int64_t n) {
  Tensor t = empty({n}, {.dtype = kInt64});
  for (std::int64_t i = 0; i < n; ++i) t.data<std::int64_t>()[i] = i;
  return t;
}

TensorDataset<Sample> numbers(std::int64_t n) { return TensorDataset(counting(n), counting(n)); }

/// The labels of one epoch, with -1 after each batch.
Indices run_epoch(DataLoader<>& loader) {
  Indices all;
  for (auto& [inputs, labels] : loader) {
    CHECK(inputs.to_vector<std::int64_t>() == labels.to_vector<std::int64_t>());
    for (const std::int64_t v : labels.to_vector<std::int64_t>()) all.push_back(v);
    all.push_back(-1);
  }
  return all;
}

/// Counts the fetched samples, and throws at one index.
struct Watched : Dataset {
  explicit Watched(std::int64_t n, std::int64_t bad = -1) : n(n), bad(bad) {}
  std::int64_t size() const override { return n; }
  Sample get(std::int64_t i) const override {
    ++fetched;
    if (i == bad) fail<IoError>("watched", "sample {} is unreadable", i);
    // Later batches are ready first.
    std::this_thread::sleep_for(std::chrono::microseconds((i * 7919) % 300));
    return {from_vector<std::int64_t>({i}, {}), from_vector<std::int64_t>({i}, {})};
  }
  std::int64_t n, bad;
  mutable std::atomic<int> fetched{0};
};

}  // namespace

TEST_CASE("dataloader: batches in order, the last one partial") {
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(numbers(5), {.batch_size = 2, .num_workers = workers});
    CHECK(loader.size() == 3);
    CHECK(run_epoch(loader) == Indices{0, 1, -1, 2, 3, -1, 4, -1});
    DataLoader drop(numbers(5), {.batch_size = 2, .num_workers = workers, .drop_last = true});
    CHECK(drop.size() == 2);
    CHECK(run_epoch(drop) == Indices{0, 1, -1, 2, 3, -1});
    DataLoader large(numbers(5), {.batch_size = 100, .num_workers = workers});
    CHECK(run_epoch(large) == Indices{0, 1, 2, 3, 4, -1});
    DataLoader nothing(numbers(0), {.batch_size = 2, .shuffle = true, .num_workers = workers});
    CHECK(nothing.size() == 0);
    CHECK(run_epoch(nothing).empty());
    CHECK(run_epoch(nothing).empty());
    DataLoader dropped(numbers(1), {.batch_size = 2, .num_workers = workers, .drop_last = true});
    CHECK(run_epoch(dropped).empty());
  }
}

TEST_CASE("dataloader: the seed decides, not the number of workers") {
  std::vector<Indices> epochs;
  for (const int workers : {0, 1, 2, 5}) {
    DataLoader loader(std::make_shared<Watched>(101),
                      {.batch_size = 8, .shuffle = true, .num_workers = workers, .seed = 7});
    for (std::size_t e = 0; e < 3; ++e) {
      CHECK(loader.epoch() == static_cast<std::int64_t>(e));
      Indices epoch = run_epoch(loader);
      if (workers == 0)
        epochs.push_back(epoch);
      else
        CHECK(epoch == epochs[e]);
      std::erase(epoch, -1);
      std::ranges::sort(epoch);
      CHECK(epoch == counting(101).to_vector<std::int64_t>());
    }
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(epochs[1] != epochs[2]);
  DataLoader other(numbers(101), {.batch_size = 8, .shuffle = true, .seed = 8});
  CHECK(run_epoch(other) != epochs[0]);
  DataLoader later(numbers(101), {.batch_size = 8, .shuffle = true, .seed = 7});
  later.set_epoch(2);
  CHECK(run_epoch(later) == epochs[2]);
  CHECK_THROWS_AS(later.set_epoch(-1), ValueError);
}

TEST_CASE("dataloader: random transforms do not depend on the number of workers") {
  const Transform augment = Compose{RandomCrop(28, 3), RandomHorizontalFlip(), RandomRotation(10),
                                    ToTensor(),        RandomErasing(),        Normalize(0.1, 0.3)};
  const SyntheticDigits digits(60, 1, augment);
  std::vector<std::vector<float>> expected;
  for (const int workers : {0, 1, 4}) {
    DataLoader loader(digits,
                      {.batch_size = 16, .shuffle = true, .num_workers = workers, .seed = 3});
    std::size_t step = 0;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (auto& [images, labels] : loader) {
        CHECK(images.dtype() == kFloat32);
        CHECK(images.size(1) == 1);
        if (workers == 0)
          expected.push_back(images.to_vector<float>());
        else
          CHECK(images.to_vector<float>() == expected[step]);
        ++step;
      }
    }
    CHECK(step == 8);
  }
  // In another epoch the crops differ.
  const Indices first{0};
  CHECK(digits.get_batch(first, {3, 0}).inputs.to_vector<float>() !=
        digits.get_batch(first, {3, 1}).inputs.to_vector<float>());
}

TEST_CASE("dataloader: errors of workers reach the caller in the batch's place") {
  for (const int workers : {0, 1, 4}) {
    DataLoader loader(std::make_shared<Watched>(40, 17), {.batch_size = 4, .num_workers = workers});
    for (int attempt = 0; attempt < 2; ++attempt) {
      int batches = 0;
      std::string text;
      try {
        for ([[maybe_unused]] const auto& batch : loader) ++batches;
      } catch (const IoError& error) {
        text = error.what();
      }
      CHECK(batches == 4);
      CHECK(text == "[watched] sample 17 is unreadable");
    }
  }
  DataLoader first(std::make_shared<Watched>(4, 0), {.batch_size = 2, .num_workers = 2});
  CHECK_THROWS_AS(first.begin(), IoError);
}

TEST_CASE("dataloader: leaving the loop early, and starting again") {
  DataLoader loader(std::make_shared<Watched>(1000), {.batch_size = 2, .num_workers = 3});
  for (int round = 0; round < 10; ++round) {
    Indices seen;
    for (auto& batch : loader) {
      seen.push_back(batch.labels.data<std::int64_t>()[0]);
      if (seen.size() == static_cast<std::size_t>(round) + 1) break;
    }
    CHECK(seen.back() == 2 * round);
    CHECK(loader.epoch() == std::max(round - 1, 0));  // one batch does not use an epoch up
  }
}

TEST_CASE("dataloader: looking at the first batch changes nothing") {
  for (const int workers : {0, 2}) {
    const DataLoaderOptions options{
        .batch_size = 4, .shuffle = true, .num_workers = workers, .seed = 3};
    DataLoader plain(numbers(10), options);
    const Indices first = run_epoch(plain), second = run_epoch(plain), third = run_epoch(plain);

    DataLoader loader(numbers(10), options);
    const auto look = [&] {
      const Batch batch = *loader.begin();
      CHECK(loader.begin()->labels.to_vector<std::int64_t>() ==
            batch.labels.to_vector<std::int64_t>());
      return batch.labels.to_vector<std::int64_t>();
    };
    CHECK(look() == Indices(first.begin(), first.begin() + 4));
    CHECK(loader.state_dict().at("position").item<std::int64_t>() == 0);
    CHECK(run_epoch(loader) == first);
    look();
    {
      auto kept = loader.begin();  // one that is kept, and not advanced
      CHECK(kept->labels.to_vector<std::int64_t>() == Indices(second.begin(), second.begin() + 4));
      CHECK(run_epoch(loader) == second);
    }
    // In the middle of an epoch.
    StateDict state;
    for ([[maybe_unused]] auto& batch : loader) {
      state = loader.state_dict();
      break;
    }
    DataLoader resumed(numbers(10), options);
    resumed.load_state_dict(state);
    CHECK(resumed.begin()->labels.to_vector<std::int64_t>() ==
          Indices(third.begin() + 5, third.begin() + 9));
    CHECK(resumed.state_dict().at("position").item<std::int64_t>() == 4);
    CHECK(run_epoch(resumed) == Indices(third.begin() + 5, third.end()));
    CHECK(resumed.epoch() == 3);
    // A second batch uses the epoch up.
    auto it = loader.begin();
    CHECK(it->labels.to_vector<std::int64_t>() == Indices(third.begin(), third.begin() + 4));
    ++it;
    CHECK(*loader.begin()->labels.data<std::int64_t>() != third[0]);
    CHECK(loader.epoch() == 3);
  }
}

TEST_CASE("dataloader: workers run ahead by at most the prefetch") {
  auto watched = std::make_shared<Watched>(1000);
  DataLoader loader(watched, {.batch_size = 2, .num_workers = 2, .prefetch_factor = 3});
  auto it = loader.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(watched->fetched <= 2 * (1 + 2 * 3));
  ++it;
  CHECK(it->labels.to_vector<std::int64_t>() == Indices{2, 3});
}

TEST_CASE("dataloader: the seconds that loops waited, in all") {
  for (const int workers : {0, 2}) {
    const auto start = std::chrono::steady_clock::now();
    DataLoader loader(std::make_shared<Watched>(12), {.batch_size = 4, .num_workers = workers});
    CHECK(loader.seconds_waited() == 0);
    double before = 0;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for ([[maybe_unused]] auto& batch : loader) {
        CHECK(loader.seconds_waited() > before);
        before = loader.seconds_waited();
      }
    }
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
    CHECK(loader.seconds_waited() <= all.count());
    // Without workers each sample sleeps in this thread, between 0 and 300 us.
    if (workers == 0) CHECK(loader.seconds_waited() > 2 * 12 * 50e-6);
  }
}

TEST_CASE("dataloader: the loader may go before its iterator") {
  auto loader = std::make_unique<DataLoader<>>(
      numbers(10), DataLoaderOptions{.batch_size = 4, .num_workers = 2});
  auto it = loader->begin();
  loader.reset();
  ++it;
  CHECK(it->labels.to_vector<std::int64_t>() == Indices{4, 5, 6, 7});
}

TEST_CASE("dataloader: a run that was stopped goes on with the next batch") {
  for (const int workers : {0, 2}) {
    const DataLoaderOptions options{
        .batch_size = 3, .shuffle = true, .num_workers = workers, .seed = 1};
    DataLoader whole(numbers(10), options);
    run_epoch(whole);
    const Indices expected = run_epoch(whole), after = run_epoch(whole);
    for (std::size_t stop = 1; stop <= 4; ++stop) {
      DataLoader loader(numbers(10), options);
      run_epoch(loader);
      Indices got;
      StateDict state;
      for (auto& batch : loader) {
        for (const std::int64_t v : batch.labels.to_vector<std::int64_t>()) got.push_back(v);
        got.push_back(-1);
        state = loader.state_dict();
        if (--stop == 0) break;
      }
      stop = static_cast<std::size_t>(std::ranges::count(got, -1));
      DataLoader resumed(numbers(10),
                         {.batch_size = 3, .shuffle = true, .num_workers = workers, .seed = 99});
      resumed.load_state_dict(state);
      CHECK(resumed.epoch() == 1);
      const Indices rest = run_epoch(resumed);
      got.insert(got.end(), rest.begin(), rest.end());
      CHECK(got == expected);
      CHECK(run_epoch(resumed) == after);
    }
    // Between two epochs the state is that of the start of the next.
    DataLoader resumed(numbers(10), options);
    DataLoader first(numbers(10), options);
    run_epoch(first);
    resumed.load_state_dict(first.state_dict());
    CHECK(run_epoch(resumed) == expected);
    CHECK_THROWS_AS(DataLoader(numbers(2)).load_state_dict({}), IndexError);
  }
}

TEST_CASE("dataloader: a sampler of one's own") {
  DataLoaderOptions options{.batch_size = 2, .num_workers = 1};
  options.sampler = std::make_shared<DistributedSampler>(
      7, DistributedSamplerOptions{.rank = 1, .world_size = 2, .shuffle = false});
  DataLoader loader(numbers(7), options);
  CHECK(loader.size() == 2);
  CHECK(run_epoch(loader) == Indices{1, 3, -1, 5, 0, -1});
  options.shuffle = true;
  CHECK_THROWS_AS(DataLoader(numbers(7), options), ValueError);
  DataLoader by_value(numbers(7), {.batch_size = 2,
                                   .sampler = DistributedSampler(
                                       7, {.rank = 1, .world_size = 2, .shuffle = false})});
  CHECK(run_epoch(by_value) == Indices{1, 3, -1, 5, 0, -1});
}

namespace {

/// Batches of 1, 2, 3 and 4 indices, in another order in odd epochs.
struct Growing : BatchSampler {
  std::int64_t size() const override { return 4; }
  std::vector<Indices> batches(std::int64_t epoch) const override {
    std::vector<Indices> all{{0}, {1, 2}, {3, 4, 5}, {6, 7, 8, 9}};
    if (epoch % 2 == 1) std::ranges::reverse(all);
    return all;
  }
};

}  // namespace

TEST_CASE("dataloader: batches of one's own") {
  for (const int workers : {0, 2}) {
    const DataLoaderOptions options{.batch_sampler = Growing(), .num_workers = workers};
    DataLoader loader(numbers(10), options);
    CHECK(loader.size() == 4);
    CHECK(run_epoch(loader) == Indices{0, -1, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, 9, -1});
    StateDict state;
    for (auto& batch : loader) {
      state = loader.state_dict();
      if (batch.size() == 3) break;
    }
    DataLoader resumed(numbers(10), options);
    resumed.load_state_dict(state);
    CHECK(run_epoch(resumed) == Indices{1, 2, -1, 0, -1});
    DataLoader other(numbers(10), {.batch_sampler = BatchSampler(SequentialSampler(10), 4)});
    other.load_state_dict(state);
    CHECK_THROWS_AS(other.begin(), ValueError);  // 7 samples: within a batch
  }
  CHECK_THROWS_AS(DataLoader(numbers(9), {.batch_size = 2, .batch_sampler = Growing()}),
                  ValueError);
  CHECK_THROWS_AS(DataLoader(numbers(9), {.batch_sampler = Growing(), .drop_last = true}),
                  ValueError);
  DataLoader short_of(numbers(9), {.batch_sampler = Growing()});
  CHECK_THROWS_AS(run_epoch(short_of), IndexError);
}

TEST_CASE("dataloader: a data set that grows and shrinks between epochs") {
  struct Growing : DatasetOf<std::int64_t> {
    std::int64_t size() const override { return n; }
    std::int64_t get(std::int64_t i) const override { return i; }
    std::int64_t n = 4;
  };
  const auto set = std::make_shared<Growing>();
  for (const bool shuffle : {false, true})
    for (const int workers : {0, 2}) {
      DataLoader loader(set, {.batch_size = 3, .shuffle = shuffle, .num_workers = workers});
      for (const std::int64_t n : {4, 8, 0, 2}) {
        set->n = n;
        CHECK(loader.size() == (n + 2) / 3);
        Indices seen;
        for (const Tensor& batch : loader)
          for (const std::int64_t i : batch.to_vector<std::int64_t>()) seen.push_back(i);
        std::ranges::sort(seen);
        CHECK(seen == counting(n).to_vector<std::int64_t>());
      }
    }
}

namespace {

using Drawn = std::pair<std::int64_t, std::int64_t>;  // the index, and a number of its generator

/// Draws a number for each sample.
struct Drawing : RandomDatasetOf<Drawn> {
  std::int64_t size() const override { return 6; }
  Drawn get_random(std::int64_t i, Generator& random) const override {
    return {i, static_cast<std::int64_t>(random.next_below(1 << 30))};
  }
};

std::vector<Drawn> draws(DataLoader<std::pair<Tensor, Tensor>>& loader) {
  std::vector<Drawn> all;
  for (auto& [index, number] : loader)
    for (std::int64_t k = 0; k < index.numel(); ++k)
      all.emplace_back(index[k].item<std::int64_t>(), number[k].item<std::int64_t>());
  return all;
}

}  // namespace

TEST_CASE("dataloader: an index that comes again in an epoch has other random numbers") {
  const Indices order{3, 3, 0, 3, 5, 0, 3, 1};
  struct Repeating : Sampler {
    explicit Repeating(Indices order) : indices(std::move(order)) {}
    std::int64_t size() const override { return std::ssize(indices); }
    Indices order(std::int64_t) const override { return indices; }
    Indices indices;
  };
  struct Batches : BatchSampler {
    explicit Batches(Indices order) : indices(std::move(order)) {}
    std::int64_t size() const override { return 2; }
    std::vector<Indices> batches(std::int64_t) const override {
      return {Indices(indices.begin(), indices.begin() + 3),
              Indices(indices.begin() + 3, indices.end())};
    }
    Indices indices;
  };
  DataLoader once(Drawing(), {.batch_size = 6, .seed = 4});
  const std::vector<Drawn> first = draws(once);
  DataLoader loader(Drawing(), {.batch_size = 3, .sampler = Repeating(order), .seed = 4});
  const std::vector<Drawn> expected = draws(loader);
  REQUIRE(expected.size() == order.size());
  CHECK(std::set(expected.begin(), expected.end()).size() == order.size());
  for (const std::size_t n : {0, 2, 4, 7})  // those that were not there before
    CHECK(expected[n] == first[static_cast<std::size_t>(order[n])]);
  CHECK(draws(loader) != expected);  // the next epoch

  // Whatever the batches, the workers, and the place at which a run begins again.
  for (const int workers : {0, 3}) {
    DataLoader other(
        Drawing(),
        {.batch_size = 2, .sampler = Repeating(order), .num_workers = workers, .seed = 4});
    CHECK(draws(other) == expected);
    other.set_epoch(0);
    std::size_t n = 0;
    StateDict state;
    for ([[maybe_unused]] auto& batch : other)
      if (++n == 2) {
        state = other.state_dict();
        break;
      }
    other.load_state_dict(state);
    CHECK(draws(other) == std::vector<Drawn>(expected.begin() + 4, expected.end()));
  }
  DataLoader batches(Drawing(), {.batch_sampler = Batches(order), .seed = 4});
  CHECK(draws(batches) == expected);
  DataLoader own(Drawing(), {.batch_size = 8, .sampler = Repeating(order), .seed = 4},
                 [](const std::vector<Drawn>& samples) { return default_collate(samples); });
  CHECK(draws(own) == expected);

  CHECK(data::impl::count_repeats(Indices{}).empty());
  CHECK(data::impl::count_repeats(Indices{5, 1, 3}).empty());
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(data::impl::count_repeats(Indices{kMost, -kMost, 0, kMost, 0, kMost}) ==
        Indices{0, 0, 0, 1, 1, 2});

  // The same of a subset that repeats indices.
  DataLoader subset(Subset(Drawing(), order), {.batch_size = 5, .seed = 4});
  CHECK(draws(subset) == expected);
  const Indices twice{0, 1, 0, 3};
  DataLoader both(Subset(Drawing(), order),
                  {.batch_size = 3, .sampler = Repeating(twice), .seed = 4});
  const std::vector<Drawn> repeated = draws(both);
  CHECK(std::set(repeated.begin(), repeated.end()).size() == 4);
  const ConcatDataset drawings(Drawing{}, Drawing{});
  DataLoader parts(drawings, {.batch_size = 2, .sampler = Repeating({7, 7, 1, 7}), .seed = 4});
  const std::vector<Drawn> of_parts = draws(parts);
  CHECK(std::set(of_parts.begin(), of_parts.end()).size() == 4);
}

TEST_CASE("dataloader: images that come again are augmented anew") {
  const SyntheticDigits digits(4, 0, Compose{RandomErasing({.p = 1}), ToTensor()});
  const std::vector<double> weights{0, 0, 1, 0};
  DataLoader loader(digits, {.batch_size = 8, .sampler = WeightedRandomSampler(weights, 8)});
  for (auto& [images, labels] : loader) {
    std::set<std::vector<float>> distinct;
    for (std::int64_t i = 0; i < images.size(0); ++i) distinct.insert(images[i].to_vector<float>());
    CHECK(distinct.size() == 8);
  }
}

TEST_CASE("dataloader: transforms that are called without a generator") {
  struct Flipping : DatasetOf<Tensor> {
    std::int64_t size() const override { return 64; }
    Tensor get(std::int64_t) const override {
      const Tensor image = from_vector<std::uint8_t>({1, 2}, {1, 1, 2});
      return flip(image).to(kInt64)[0][0][0];
    }
    Transform flip = RandomHorizontalFlip();
  };
  const auto run = [](auto set, int workers, std::uint64_t seed, int epochs) {
    DataLoader loader(set, {.batch_size = 8, .num_workers = workers, .seed = seed});
    Indices all;
    for (int e = 0; e < epochs; ++e)
      for (const Tensor& batch : loader)
        for (const std::int64_t v : batch.to_vector<std::int64_t>()) all.push_back(v);
    return all;
  };
  const Indices all = run(Flipping(), 0, 1, 2);
  CHECK(std::ranges::count(all, 1) > 40);
  CHECK(std::ranges::count(all, 2) > 40);
  CHECK(Indices(all.begin(), all.begin() + 64) != Indices(all.begin() + 64, all.end()));
  CHECK(run(Flipping(), 3, 1, 2) == all);
  CHECK(run(Flipping(), 3, 2, 2) != all);

  struct Stream : IterableDatasetOf<Tensor> {
    std::int64_t shards() const override { return 2; }
    IterableDatasetOf<Tensor>::Stream open(std::int64_t, const Epoch&) const override {
      return [n = 0]() mutable -> std::optional<Tensor> {
        if (n++ == 64) return {};
        return Flipping().get(0);
      };
    }
  };
  const Indices streamed = run(Stream(), 0, 1, 1);
  CHECK(std::ranges::count(streamed, 1) > 40);
  CHECK(std::ranges::count(streamed, 2) > 40);
  CHECK(run(Stream(), 2, 1, 1) == streamed);

  // Outside a loader, from the default generator.
  const auto outside = [](std::uint64_t seed) {
    manual_seed(seed);
    Indices values;
    for (int i = 0; i < 64; ++i) values.push_back(Flipping().get(i).item<std::int64_t>());
    return values;
  };
  const Indices values = outside(1);
  CHECK(std::ranges::count(values, 1) > 15);
  CHECK(std::ranges::count(values, 2) > 15);
  CHECK(outside(1) == values);
  CHECK(outside(2) != values);
  manual_seed(Generator::kDefaultSeed);
}

TEST_CASE("dataloader: options are checked") {
  CHECK_THROWS_AS(DataLoader(numbers(1), {.batch_size = 0}), ValueError);
  CHECK_THROWS_AS(DataLoader(numbers(1), {.num_workers = -1}), ValueError);
  CHECK_THROWS_AS(DataLoader(numbers(1), {.prefetch_factor = 0}), ValueError);
  CHECK_THROWS_AS(DataLoader(std::shared_ptr<const Dataset>()), ValueError);
  DataLoader pinned(numbers(3), {.pin_memory = true});
  CHECK(run_epoch(pinned) == Indices{0, -1, 1, -1, 2, -1});
  for (const int workers : {0, 2}) {
    DataLoader loader(numbers(3), {.num_workers = workers, .pin_memory = true});
    for (const Batch& batch : loader) {
      CHECK(batch.inputs.is_pinned() == cuda::is_available());
      CHECK(batch.labels.is_pinned() == cuda::is_available());
    }
  }
}
