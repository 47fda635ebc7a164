#include "ferrite/data/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ferrite/core/generator.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::data;

namespace {

using Indices = std::vector<std::int64_t>;

Indices drain(Sampler& sampler) {
  Indices all;
  while (const auto i = sampler.next()) all.push_back(*i);
  return all;
}

Indices sorted(Indices v) {
  std::ranges::sort(v);
  return v;
}

}  // namespace

TEST_CASE("sampler: sequential") {
  SequentialSampler sampler(4);
  CHECK(drain(sampler) == Indices{0, 1, 2, 3});
  CHECK_FALSE(sampler.next());
  sampler.set_epoch(1);
  CHECK(drain(sampler) == Indices{0, 1, 2, 3});
  SequentialSampler nothing(0);
  CHECK_FALSE(nothing.next());
  CHECK_THROWS_AS(SequentialSampler(-1), ValueError);
}

TEST_CASE("sampler: a permutation every epoch, the same for the same seed") {
  RandomSampler a(100, {.seed = 5}), b(100, {.seed = 5}), c(100, {.seed = 6});
  const Indices first = drain(a);
  CHECK(first == drain(b));
  CHECK(first != drain(c));
  CHECK(sorted(first) == SequentialSampler(100).order(0));
  a.set_epoch(1);
  const Indices second = drain(a);
  CHECK(second != first);
  CHECK(sorted(second) == sorted(first));
  a.set_epoch(0);
  CHECK(drain(a) == first);
}

TEST_CASE("sampler: manual_seed is the default seed") {
  manual_seed(123);
  CHECK(RandomSampler(50).order(0) == RandomSampler(50, {.seed = 123}).order(0));
  manual_seed(Generator::kDefaultSeed);
}

TEST_CASE("sampler: with replacement") {
  const RandomSampler sampler(10, {.replacement = true, .num_samples = 1000, .seed = 1});
  CHECK(sampler.size() == 1000);
  const Indices order = sampler.order(0);
  REQUIRE(order.size() == 1000);
  for (std::int64_t i = 0; i < 10; ++i) {
    CHECK(std::ranges::count(order, i) > 60);
    CHECK(std::ranges::count(order, i) < 140);
  }
  CHECK_THROWS_AS(RandomSampler(0, {.replacement = true, .num_samples = 5}), ValueError);
  CHECK(RandomSampler(0).order(0).empty());
}

TEST_CASE("sampler: a part of a permutation, or several") {
  const RandomSampler few(10, {.num_samples = 4, .seed = 1});
  CHECK(few.size() == 4);
  const Indices some = few.order(0);
  REQUIRE(some.size() == 4);
  CHECK(std::set(some.begin(), some.end()).size() == 4);
  CHECK(few.order(1) != some);
  const RandomSampler many(10, {.num_samples = 24, .seed = 1});
  CHECK(many.size() == 24);
  const Indices order = many.order(0);
  REQUIRE(order.size() == 24);
  const auto part = [&](int begin, int end) {
    return Indices(order.begin() + begin, order.begin() + end);
  };
  CHECK(sorted(part(0, 10)) == SequentialSampler(10).order(0));
  CHECK(sorted(part(10, 20)) == SequentialSampler(10).order(0));
  CHECK(part(0, 10) != part(10, 20));
  CHECK(part(0, 10) == RandomSampler(10, {.seed = 1}).order(0));
  CHECK(part(0, 4) == some);
  CHECK(std::set(order.begin() + 20, order.end()).size() == 4);
  CHECK_THROWS_AS(RandomSampler(0, {.num_samples = 5}), ValueError);
  CHECK_THROWS_AS(RandomSampler(10, {.num_samples = -1}), ValueError);
}

TEST_CASE("sampler: a position that is saved and found again") {
  RandomSampler sampler(20, {.seed = 1});
  sampler.set_epoch(3);
  for (int i = 0; i < 7; ++i) sampler.next();
  const StateDict state = sampler.state_dict();
  const Indices rest = drain(sampler);
  RandomSampler resumed(20, {.seed = 1});
  resumed.load_state_dict(state);
  CHECK(resumed.epoch() == 3);
  CHECK(resumed.position() == 7);
  CHECK(drain(resumed) == rest);
  RandomSampler small(5, {.seed = 1});
  CHECK_THROWS_AS(small.load_state_dict(state), ValueError);
  CHECK_THROWS_AS(small.load_state_dict({}), IndexError);
}

TEST_CASE("sampler: ranks share an epoch") {
  for (const std::int64_t size : {0, 1, 2, 7, 8}) {
    for (const bool drop_last : {false, true}) {
      std::set<std::int64_t> seen;
      std::size_t total = 0;
      for (std::int64_t rank = 0; rank < 4; ++rank) {
        const DistributedSampler sampler(
            size, {.rank = rank, .world_size = 4, .seed = 1, .drop_last = drop_last});
        const Indices order = sampler.order(2);
        CHECK(static_cast<std::int64_t>(order.size()) == sampler.size());
        CHECK(sampler.size() == (drop_last ? size / 4 : (size + 3) / 4));
        seen.insert(order.begin(), order.end());
        total += order.size();
      }
      if (!drop_last) CHECK(static_cast<std::int64_t>(seen.size()) == size);
      if (drop_last) CHECK(seen.size() == total);
    }
  }
  CHECK(DistributedSampler(5, {.rank = 1, .world_size = 2, .shuffle = false}).order(0) ==
        Indices{1, 3, 0});
  // More ranks than indices: the beginning is repeated several times.
  CHECK(DistributedSampler(2, {.rank = 4, .world_size = 5, .shuffle = false}).order(0) ==
        Indices{0});
  CHECK(DistributedSampler(1, {.rank = 3, .world_size = 4, .drop_last = true}).size() == 0);
  CHECK(DistributedSampler(0, {.rank = 0, .world_size = 2}).order(0).empty());
  CHECK(DistributedSampler(5, {.num_replicas = 2, .rank = 1, .shuffle = false}).order(0) ==
        Indices{1, 3, 0});
  CHECK(DistributedSampler(5, {.num_replicas = 2, .rank = 1, .world_size = 2}).size() == 3);
  CHECK_THROWS_AS(DistributedSampler(5, {.num_replicas = 2, .rank = 1, .world_size = 4}),
                  ValueError);
  CHECK_THROWS_AS(DistributedSampler(5, {.num_replicas = 1, .rank = 1}), ValueError);
  CHECK_THROWS_AS(DistributedSampler(5, {.rank = 2, .world_size = 2}), ValueError);
  CHECK_THROWS_AS(DistributedSampler(5, {.rank = -1, .world_size = 2}), ValueError);
  CHECK_THROWS_AS(DistributedSampler(5, {.drop_last = true, .pad = false}), ValueError);
  // Without a group, one of both would make every rank the first, or the only one.
  CHECK_THROWS_WITH_AS(DistributedSampler(5, {.num_replicas = 2}),
                       doctest::Contains("no process group to take the rank from"), ValueError);
  CHECK_THROWS_WITH_AS(DistributedSampler(5, {.rank = 0}),
                       doctest::Contains("to take the number of processes from"), ValueError);
}

TEST_CASE("sampler: ranks share an order whatever their own seeds; epochs differ") {
  const auto order_of = [](std::int64_t rank, std::uint64_t seed, std::int64_t epoch) {
    return DistributedSampler(9, {.rank = rank, .world_size = 3, .seed = seed}).order(epoch);
  };
  std::set<std::int64_t> seen;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    manual_seed(static_cast<std::uint64_t>(100 + rank));
    DistributedSampler sampler(9, {.rank = rank, .world_size = 3});
    sampler.set_epoch(4);
    while (const auto index = sampler.next()) seen.insert(*index);
  }
  CHECK(seen.size() == 9);
  CHECK(order_of(0, 0, 0) != order_of(0, 0, 1));
  CHECK(order_of(0, 0, 0) != order_of(0, 1, 0));
}

TEST_CASE("sampler: without padding every index comes once") {
  for (const bool shuffle : {false, true})
    for (const std::int64_t size : {0, 1, 3, 4, 10, 11, 12}) {
      Indices all;
      for (std::int64_t rank = 0; rank < 4; ++rank) {
        const DistributedSampler sampler(
            size, {.rank = rank, .world_size = 4, .shuffle = shuffle, .pad = false});
        const Indices order = sampler.order(1);
        CHECK(static_cast<std::int64_t>(order.size()) == sampler.size());
        all.insert(all.end(), order.begin(), order.end());
      }
      std::sort(all.begin(), all.end());
      CHECK(all == SequentialSampler(size).order(0));
    }
}

TEST_CASE("sampler: ranks with fewer indices resume from the state of one with more") {
  const auto of = [](int rank) {
    return DistributedSampler(7, {.rank = rank, .world_size = 3, .shuffle = false, .pad = false});
  };
  DistributedSampler more = of(0), fewer = of(1);
  CHECK(more.size() == 3);
  CHECK(fewer.size() == 2);
  for (int i = 0; i < 3; ++i) more.next();
  fewer.load_state_dict(more.state_dict());
  CHECK_FALSE(fewer.next());
  StateDict beyond = more.state_dict();
  beyond.insert_or_assign("position", from_vector<std::int64_t>({4}, {}));
  CHECK_THROWS_AS(fewer.load_state_dict(beyond), ValueError);
  CHECK(DistributedSampler(6, {.rank = 1, .world_size = 3, .pad = false}).max_position() == 2);
  CHECK(DistributedSampler(7, {.rank = 0, .world_size = 3, .drop_last = true}).max_position() == 2);
}

TEST_CASE("sampler: a state is of one seed") {
  const auto check = [](auto make) {
    manual_seed(1);
    auto sampler = make();
    for (int i = 0; i < 3; ++i) sampler.next();
    const StateDict state = sampler.state_dict();
    auto same = make();
    same.load_state_dict(state);
    CHECK(same.next() == sampler.next());
    manual_seed(2);
    auto other = make();
    CHECK(test::contains(test::message_of<ValueError>([&] { other.load_state_dict(state); }),
                         "the sampler's seed is 2, the state's 1"));
    CHECK(other.position() == 0);
    StateDict older;  // without the seed
    for (const char* name : {"epoch", "position"}) older.insert_or_assign(name, state.at(name));
    other.load_state_dict(older);
    CHECK(other.position() == 3);
  };
  check([] { return RandomSampler(12); });
  check([] { return SubsetRandomSampler({1, 3, 5, 7}); });
  check([] { return WeightedRandomSampler({1, 2, 3}, 9); });
  manual_seed(Generator::kDefaultSeed);
}

TEST_CASE("sampler: batches") {
  using Batches = std::vector<Indices>;
  const BatchSampler keep(SequentialSampler(5), 2);
  CHECK(keep.size() == 3);
  CHECK(keep.batches(0) == Batches{{0, 1}, {2, 3}, {4}});
  const BatchSampler drop(SequentialSampler(5), 2, LastBatch::drop);
  CHECK(drop.size() == 2);
  CHECK(drop.batches(1) == Batches{{0, 1}, {2, 3}});
  const RandomSampler random(6, {.seed = 2});
  const BatchSampler shuffled(random, 6);
  CHECK(shuffled.batches(3) == Batches{random.order(3)});
  CHECK(BatchSampler(SequentialSampler(0), 2).batches(0).empty());
  CHECK_THROWS_AS(BatchSampler(SequentialSampler(5), 0), ValueError);
  CHECK_THROWS_AS(BatchSampler(nullptr, 1), ValueError);
}

TEST_CASE("sampler: by weights, with replacement") {
  const WeightedRandomSampler sampler({1, 0, 3, 4}, 8000, {.seed = 1});
  CHECK(sampler.size() == 8000);
  const Indices order = sampler.order(0);
  REQUIRE(order.size() == 8000);
  CHECK(std::abs(std::ranges::count(order, 0) - 1000) < 120);
  CHECK(std::ranges::count(order, 1) == 0);
  CHECK(std::abs(std::ranges::count(order, 2) - 3000) < 180);
  CHECK(std::abs(std::ranges::count(order, 3) - 4000) < 180);
  CHECK(order == sampler.order(0));
  CHECK(order != sampler.order(1));
}

TEST_CASE("sampler: by weights, without replacement") {
  // First of the order: in proportion to the weights. Of two draws both may come in either order.
  int first = 0;
  const WeightedRandomSampler two({1, 0, 3}, 2, {.replacement = false, .seed = 5});
  for (std::int64_t epoch = 0; epoch < 2000; ++epoch) {
    const Indices order = two.order(epoch);
    CHECK(sorted(order) == Indices{0, 2});
    first += order[0] == 2;
  }
  CHECK(std::abs(first - 1500) < 90);
  CHECK_THROWS_AS(WeightedRandomSampler({1, 0, 3}, 3, {.replacement = false}), ValueError);
  CHECK_THROWS_AS(WeightedRandomSampler({1, -1}, 1), ValueError);
  CHECK_THROWS_AS(WeightedRandomSampler({1, std::nan("")}, 1), ValueError);
  CHECK_THROWS_AS(WeightedRandomSampler({1, INFINITY}, 1), ValueError);
  CHECK_THROWS_AS(WeightedRandomSampler({0, 0}, 1), ValueError);
  CHECK_THROWS_AS(WeightedRandomSampler({}, 1), ValueError);
  CHECK_THROWS_AS(WeightedRandomSampler({1}, -1), ValueError);
  CHECK(WeightedRandomSampler({}, 0).order(0).empty());
}

TEST_CASE("sampler: the chosen indices in a new order every epoch") {
  const SubsetRandomSampler sampler({3, 14, 15, 92, 65}, 1);
  CHECK(sampler.size() == 5);
  CHECK(sorted(sampler.order(0)) == Indices{3, 14, 15, 65, 92});
  CHECK(sampler.order(0) != sampler.order(1));
  CHECK(sampler.order(1) == SubsetRandomSampler({3, 14, 15, 92, 65}, 1).order(1));
}
