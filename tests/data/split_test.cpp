// Parts of data sets, and data sets joined.
#include "ferrite/data/split.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ferrite/data/concat_dataset.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::data;
using ferrite::test::message_of;

namespace {

using Indices = std::vector<std::int64_t>;

Tensor counting(std::int64_t from, std::int64_t to) {
  Indices v(static_cast<std::size_t>(to - from));
  std::iota(v.begin(), v.end(), from);
  return from_vector<std::int64_t>(v, {to - from});
}
TensorDataset<Tensor> numbers(std::int64_t from, std::int64_t to) {
  return TensorDataset<Tensor>(counting(from, to));
}
Indices joined(std::initializer_list<Indices> parts) {
  Indices all;
  for (const Indices& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::ranges::sort(all);
  return all;
}
Indices values(const Tensor& t) { return t.to_vector<std::int64_t>(); }

/// The epoch's number and the index, as random numbers show them.
struct Noisy : RandomDatasetOf<std::int64_t> {
  explicit Noisy(std::int64_t n) : n(n) {}
  std::int64_t size() const override { return n; }
  std::int64_t get_random(std::int64_t index, Generator& random) const override {
    check_index(index, n, "noisy");
    return static_cast<std::int64_t>(random.next_below(1u << 30));
  }
  std::int64_t n;
};

}  // namespace

TEST_CASE("random_split: every index in one part, the same for the same seed") {
  const auto set = numbers(0, 10);
  auto [train, validation] = random_split(set, {0.8, 0.2}, 1);
  CHECK(train.size() == 8);
  CHECK(validation.size() == 2);
  CHECK(joined({train.indices(), validation.indices()}) == values(counting(0, 10)));
  CHECK_FALSE(std::ranges::is_sorted(train.indices()));
  CHECK(values(validation.get(1)) == Indices{validation.indices()[1]});
  auto [again, rest] = random_split(std::make_shared<Noisy>(10), {8, 2}, 1);
  CHECK(again.indices() == train.indices());
  auto [other, others] = random_split(set, {8, 2}, 2);
  CHECK(other.indices() != train.indices());
  // The remainder after rounding goes to the first parts.
  const auto thirds = random_split(set, std::vector<double>{1. / 3, 1. / 3, 1. / 3});
  REQUIRE(thirds.size() == 3);
  CHECK(thirds[0].size() == 4);
  CHECK(thirds[1].size() == 3);
  CHECK(thirds[2].size() == 3);
  CHECK(random_split(numbers(0, 0), {0.5, 0.5})[1].size() == 0);
  CHECK(random_split(set, {0.8f, 0.2f})[0].size() == 8);  // whose sum is 1 + 1.5e-8
}

TEST_CASE("random_split: lengths and fractions are checked") {
  const auto set = numbers(0, 10);
  CHECK(message_of<ValueError>([&] {
          random_split(set, {8, 1});
        }) == "[random_split] expected lengths that sum up to 10, the size of the data set, got 9");
  CHECK_THROWS_AS(random_split(set, {8, 3}), ValueError);
  CHECK_THROWS_AS(random_split(set, {11, -1}), ValueError);
  CHECK_THROWS_AS(random_split(set, {0.8, 0.3}), ValueError);
  CHECK_THROWS_AS(random_split(set, {1.5, -0.5}), ValueError);
  CHECK_THROWS_AS(random_split(std::shared_ptr<Noisy>(), {1}), ValueError);
}

TEST_CASE("k_fold: as scikit-learn's KFold") {
  const auto folds = k_fold(7, 3);
  REQUIRE(folds.size() == 3);
  CHECK(folds[0].validation == Indices{0, 1, 2});
  CHECK(folds[0].train == Indices{3, 4, 5, 6});
  CHECK(folds[1].validation == Indices{3, 4});
  CHECK(folds[2].validation == Indices{5, 6});
  CHECK(folds[2].train == Indices{0, 1, 2, 3, 4});
  const auto shuffled = k_fold(30, 4, {.shuffle = true, .seed = 3});
  std::set<std::int64_t> seen;
  for (const auto& [train, validation] : shuffled) {
    CHECK(joined({train, validation}) == values(counting(0, 30)));
    CHECK((validation.size() == 7 || validation.size() == 8));
    seen.insert(validation.begin(), validation.end());
  }
  CHECK(seen.size() == 30);
  CHECK(shuffled[0].validation != k_fold(30, 4)[0].validation);
  CHECK(shuffled[0].validation == k_fold(30, 4, {.shuffle = true, .seed = 3})[0].validation);
  CHECK(shuffled[0].validation != k_fold(30, 4, {.shuffle = true, .seed = 4})[0].validation);
  CHECK_THROWS_AS(k_fold(7, 1), ValueError);
  CHECK_THROWS_AS(k_fold(7, 8), ValueError);
}

TEST_CASE("stratified_k_fold: classes in proportion") {
  Indices labels;
  for (int i = 0; i < 23; ++i) labels.push_back(i % 7 == 0 ? 9 : i % 3 == 0 ? 4 : -1);
  const Tensor tensor = from_vector<std::int64_t>(labels, {23});
  for (const bool shuffle : {false, true}) {
    const auto folds = stratified_k_fold(tensor, 4, {.shuffle = shuffle, .seed = 1});
    std::size_t all = 0;
    for (const auto& [train, validation] : folds) {
      CHECK(joined({train, validation}) == values(counting(0, 23)));
      CHECK((validation.size() == 5 || validation.size() == 6));
      all += validation.size();
      for (const std::int64_t label : {9, 4, -1}) {
        const auto of = [&](const Indices& indices) {
          return std::ranges::count_if(
              indices, [&](auto i) { return labels[static_cast<std::size_t>(i)] == label; });
        };
        const auto total = std::ranges::count(labels, label);
        CHECK(of(validation) >= total / 4);
        CHECK(of(validation) <= total / 4 + 1);
      }
    }
    CHECK(all == 23);
  }
  // What StratifiedKFold(3) gives for these labels, whatever the classes are called.
  for (const std::int64_t first : {0, 1}) {
    const std::int64_t a = first, b = 1 - first;
    const auto folds =
        stratified_k_fold(from_vector<std::int64_t>({a, a, a, b, b, b, b, a, a}, {9}), 3);
    CHECK(folds[0].validation == Indices{0, 1, 3});
    CHECK(folds[1].validation == Indices{2, 4, 7});
    CHECK(folds[2].validation == Indices{5, 6, 8});
  }
  CHECK_THROWS_AS(stratified_k_fold(counting(0, 5), 2), ValueError);
  CHECK_THROWS_AS(stratified_k_fold(from_vector<std::int64_t>({1}, {}), 2), ShapeError);
}

TEST_CASE("concat_dataset: one after the other") {
  const ConcatDataset set(numbers(0, 3), std::make_shared<TensorDataset<Tensor>>(counting(0, 0)),
                          numbers(10, 12));
  CHECK(set.size() == 5);
  CHECK(values(set.get(2)) == Indices{2});
  CHECK(values(set.get(3)) == Indices{10});
  CHECK(values(set.get_batch(Indices{4, 0, 3})) == Indices{11, 0, 10});
  CHECK(values(set.get_batch(Indices{4, 3})) == Indices{11, 10});
  CHECK_THROWS_AS(set.get(5), IndexError);
  CHECK_THROWS_AS(set.get(-1), IndexError);
  CHECK_THROWS_AS(set.get_batch(Indices{0, 5}), IndexError);
  DataLoader loader(set, {.batch_size = 2, .num_workers = 2});
  Indices all;
  for (const Tensor& batch : loader)
    for (const auto v : values(batch)) all.push_back(v);
  CHECK(all == Indices{0, 1, 2, 10, 11});
  using Parts = std::vector<std::shared_ptr<const DatasetOf<Tensor>>>;
  CHECK(ConcatDataset<Tensor>(Parts()).size() == 0);
  CHECK_THROWS_AS(ConcatDataset<Tensor>(Parts{nullptr}), ValueError);
}

TEST_CASE("concat_dataset: parts have their own random numbers") {
  const ConcatDataset set(Noisy(4), Noisy(4));
  const Epoch epoch{.seed = 3, .number = 1};
  std::set<std::int64_t> distinct;
  for (std::int64_t i = 0; i < 8; ++i) distinct.insert(set.get_in(i, epoch));
  CHECK(distinct.size() == 8);
  const Indices at{6, 7, 1};
  const Indices batch = values(set.get_batch(at, epoch));
  for (std::size_t i = 0; i < 3; ++i) CHECK(batch[i] == set.get_in(at[i], epoch));
  CHECK(values(set.get_batch(Indices{6}, epoch)) == Indices{batch[0]});
}
