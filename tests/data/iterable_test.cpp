// Iterable data sets: the same batches whatever the number of workers.
#include "ferrite/data/iterable.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "ferrite/data/dataloader.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::data;
using ferrite::test::message_of;

namespace {

using Values = std::vector<std::int64_t>;

/// Shard s has lengths[s] samples: 100 s, 100 s + 1, ..., plus 1000 times the epoch.
struct Streams : IterableDatasetOf<Tensor> {
  explicit Streams(Values lengths) : lengths(std::move(lengths)) {}
  std::int64_t shards() const override { return std::ssize(lengths); }
  Stream open(std::int64_t shard, const Epoch& epoch) const override {
    ++opened;
    return [this, shard, epoch, i = std::int64_t{0}]() mutable -> std::optional<Tensor> {
      if (i == lengths[static_cast<std::size_t>(shard)]) return {};
      const std::int64_t value = 1000 * epoch.number + 100 * shard + i++;
      if (value == bad) fail<IoError>("streams", "{} is unreadable", value);
      ++read;
      std::this_thread::sleep_for(std::chrono::microseconds(value * 7919 % 300));
      return from_vector<std::int64_t>({value}, {});
    };
  }
  Values lengths;
  std::int64_t bad = -1;
  mutable std::atomic<std::int64_t> opened{0}, read{0};

  Streams(const Streams& other) : lengths(other.lengths), bad(other.bad) {}
};

/// The values of an epoch, with -1 after each batch.
Values run_epoch(DataLoader<Tensor>& loader) {
  Values all;
  for (const Tensor& batch : loader) {
    for (const auto v : batch.to_vector<std::int64_t>()) all.push_back(v);
    all.push_back(-1);
  }
  return all;
}

}  // namespace

TEST_CASE("iterable: a batch of every shard in turn, whatever the number of workers") {
  const auto set = std::make_shared<Streams>(Values{5, 0, 2, 3});
  for (const int workers : {0, 1, 2, 4, 7})
    for (const Device device : {Device(), Device("cpu:1")}) {
      CAPTURE(workers);
      DataLoader loader(set, {.batch_size = 2, .num_workers = workers, .device = device});
      CHECK(run_epoch(loader) ==
            Values{0, 1, -1, 200, 201, -1, 300, 301, -1, 2, 3, -1, 302, -1, 4, -1});
      CHECK(loader.epoch() == 1);
      CHECK(run_epoch(loader) == Values{1000, 1001, -1, 1200, 1201, -1, 1300, 1301, -1, 1002, 1003,
                                        -1, 1302, -1, 1004, -1});
      DataLoader drop(
          set, {.batch_size = 2, .num_workers = workers, .drop_last = true, .device = device});
      CHECK(run_epoch(drop) == Values{0, 1, -1, 200, 201, -1, 300, 301, -1, 2, 3, -1});
      DataLoader nothing(Streams({0, 0}), {.batch_size = 2, .num_workers = workers});
      CHECK(run_epoch(nothing).empty());
      CHECK(nothing.epoch() == 1);
    }
}

TEST_CASE("iterable: a run that was stopped goes on with the next batch") {
  for (const bool drop_last : {false, true})
    for (const int workers : {0, 3}) {
      const DataLoaderOptions options{
          .batch_size = 2, .num_workers = workers, .drop_last = drop_last};
      const auto set = std::make_shared<Streams>(Values{5, 0, 2, 3});
      DataLoader whole(set, options);
      const Values expected = run_epoch(whole), after = run_epoch(whole);
      const auto batches = std::ranges::count(expected, -1);
      for (std::ptrdiff_t stop = 1; stop <= batches; ++stop) {
        DataLoader loader(set, options);
        Values got;
        StateDict state;
        for (const Tensor& batch : loader) {
          for (const auto v : batch.to_vector<std::int64_t>()) got.push_back(v);
          got.push_back(-1);
          state = loader.state_dict();
          if (std::ranges::count(got, -1) == stop) break;
        }
        DataLoader resumed(set, options);
        resumed.load_state_dict(state);
        const Values rest = run_epoch(resumed);
        got.insert(got.end(), rest.begin(), rest.end());
        CHECK(got == expected);
        CHECK(run_epoch(resumed) == after);
        if (stop == 1) {
          DataLoader other(set, {.batch_size = 4, .num_workers = workers});
          other.load_state_dict(state);
          CHECK(message_of<ValueError>([&] { other.begin(); }) ==
                "[data_loader] the state is of a loader with another batch size: position 2 is "
                "within a batch");
        }
      }
    }
}

TEST_CASE("iterable: workers run ahead by at most the prefetch factor, and stop with the loop") {
  const auto set = std::make_shared<Streams>(Values{100000, 100000, 100000});
  DataLoader loader(set, {.batch_size = 2, .num_workers = 2, .prefetch_factor = 3});
  auto it = loader.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(set->read <= 2 * (1 + 2 * 3));
  CHECK(set->opened == 3);
  ++it;
  CHECK(it->to_vector<std::int64_t>() == Values{100, 101});
}

TEST_CASE("iterable: errors come in the batch's place") {
  for (const int workers : {0, 1, 3}) {
    const auto set = std::make_shared<Streams>(Values{4, 4, 4});
    set->bad = 103;
    DataLoader loader(set, {.batch_size = 2, .num_workers = workers});
    Values seen;
    CHECK(message_of<IoError>([&] {
            for (const Tensor& batch : loader)
              seen.push_back(batch.to_vector<std::int64_t>().front());
          }) == "[streams] 103 is unreadable");
    CHECK(seen == Values{0, 100, 200, 2});
  }
}

TEST_CASE("iterable: a function of the user's makes batches, in threads beside the reading") {
  DataLoader loader(Streams({3, 1}), {.batch_size = 2, .num_workers = 2},
                    [](std::vector<Tensor> samples) { return std::ssize(samples); });
  std::vector<std::ptrdiff_t> sizes;
  for (const std::ptrdiff_t size : loader) sizes.push_back(size);
  CHECK(sizes == std::vector<std::ptrdiff_t>{2, 1, 1});
}

TEST_CASE("iterable: what needs an index is refused") {
  const Streams set({3});
  CHECK_THROWS_AS(DataLoader(set, {.shuffle = true}), ValueError);
  CHECK_THROWS_AS(DataLoader(set, {.sampler = SequentialSampler(3)}), ValueError);
  CHECK_THROWS_AS(DataLoader(set, {.batch_sampler = BatchSampler(SequentialSampler(3), 2)}),
                  ValueError);
  CHECK_THROWS_AS(DataLoader(Streams(Values()), {}), ValueError);
  CHECK_THROWS_AS(DataLoader(std::shared_ptr<Streams>()), ValueError);
  DataLoader loader(std::make_shared<Streams>(Values{3}));
  CHECK(message_of<ValueError>([&] { loader.size(); }) ==
        "[data_loader] an iterable data set has no size that is known before it is read");
  CHECK_THROWS_AS(loader.dataset(), ValueError);
}
