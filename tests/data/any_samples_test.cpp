// Samples and batches of any type.
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>

#include "ferrite/data/collate.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::data;
using ferrite::test::message_of;

namespace {

using Values = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

Tensor ints(const Values& v) {
  return from_vector<std::int64_t>(v, {static_cast<std::int64_t>(v.size())});
}
Tensor one(std::int64_t v) { return from_vector<std::int64_t>({v}, {}); }
Values values(const Tensor& t) { return t.to_vector<std::int64_t>(); }

struct Scan {
  Tensor image, mask, points;
};
struct Labelled {
  Scan scan;
  std::map<std::string, Tensor> more;
  std::array<Tensor, 2> pair;
};
struct Listed {
  explicit Listed(Tensor t = {}) : tensor(std::move(t)) {}
  auto fields() { return std::tie(tensor); }
  auto fields() const { return std::tie(tensor); }
  Tensor tensor;
};
struct Text {
  std::string text;
  std::int64_t label;
};

/// Sample i of n is make(i).
template <class S>
struct Made : DatasetOf<S> {
  Made(std::int64_t n, std::function<S(std::int64_t)> make) : n(n), make(std::move(make)) {}
  std::int64_t size() const override { return n; }
  S get(std::int64_t i) const override { return make(i); }
  std::int64_t n;
  std::function<S(std::int64_t)> make;
};

Made<Scan> scans(std::int64_t n) {
  return {n, [](std::int64_t i) { return Scan{ints({i, i}), ints({-i}), one(10 * i)}; }};
}

}  // namespace

static_assert(std::same_as<BatchOf<Sample>, Batch>);
static_assert(std::same_as<BatchOf<Tensor>, Tensor>);
static_assert(std::same_as<BatchOf<Labelled>, Labelled>);
static_assert(std::same_as<BatchOf<Listed>, Listed>);
static_assert(std::same_as<BatchOf<std::tuple<Tensor, bool, std::string>>,
                           std::tuple<Tensor, Tensor, Texts>>);
static_assert(std::same_as<BatchOf<std::pair<Sample, double>>, std::pair<Batch, Tensor>>);
static_assert(!data::impl::Stackable<Text>);
static_assert(!data::impl::Stackable<std::optional<Tensor>>);

TEST_CASE("samples: a struct of tensors, whatever the number of workers") {
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(scans(5), {.batch_size = 2, .num_workers = workers});
    static_assert(std::same_as<decltype(loader), DataLoader<Scan>>);
    CHECK(loader.size() == 3);
    CHECK(loader.dataset().size() == 5);
    Values images, masks, all_points;
    for (auto& [image, mask, points] : loader) {
      CHECK(image.dim() == 2);
      for (const auto v : values(image)) images.push_back(v);
      for (const auto v : values(mask)) masks.push_back(v);
      for (const auto v : values(points)) all_points.push_back(v);
    }
    CHECK(images == Values{0, 0, 1, 1, 2, 2, 3, 3, 4, 4});
    CHECK(masks == Values{0, -1, -2, -3, -4});
    CHECK(all_points == Values{0, 10, 20, 30, 40});
  }
}

TEST_CASE("samples: one tensor, tuples, pairs, numbers, maps and vectors") {
  {
    DataLoader loader(Made<Tensor>(3, one), {.batch_size = 3});
    for (Tensor& batch : loader) CHECK(values(batch) == Values{0, 1, 2});
  }
  {
    using S = std::tuple<Tensor, std::int64_t, std::string>;
    DataLoader loader(Made<S>(3,
                              [](std::int64_t i) {
                                return S{one(i), 2 * i, std::to_string(i)};
                              }),
                      {.batch_size = 2});
    auto [tensor, number, text] = *loader.begin();
    CHECK(values(tensor) == Values{0, 1});
    CHECK(number.dtype() == kInt64);
    CHECK(values(number) == Values{0, 2});
    CHECK(text == Texts{"0", "1"});
  }
  {
    using S = std::pair<float, bool>;
    DataLoader loader(Made<S>(3,
                              [](std::int64_t i) {
                                return S{static_cast<float>(i) / 2, i == 1};
                              }),
                      {.batch_size = 3});
    auto [number, flag] = *loader.begin();
    CHECK(number.dtype() == kFloat32);
    CHECK(number.to_vector<float>() == std::vector<float>{0, 0.5, 1});
    CHECK(flag.dtype() == kBool);
    CHECK(flag.to_vector<bool>() == std::vector<bool>{false, true, false});
  }
  {
    using S = std::map<std::string, Tensor>;
    DataLoader loader(Made<S>(2,
                              [](std::int64_t i) {
                                return S{{"b", one(i)}, {"a", one(-i)}};
                              }),
                      {.batch_size = 2});
    S batch = *loader.begin();
    CHECK(batch.size() == 2);
    CHECK(values(batch.at("a")) == Values{0, -1});
    CHECK(values(batch.at("b")) == Values{0, 1});
  }
  {
    DataLoader loader(Made<StateDict>(2,
                                      [](std::int64_t i) {
                                        return StateDict{{"x", one(i)}, {"a", one(-i)}};
                                      }),
                      {.batch_size = 2});
    StateDict batch = *loader.begin();
    CHECK(batch.begin()->first == "x");
    CHECK(values(batch.at("a")) == Values{0, -1});
  }
  {
    using S = std::pair<std::vector<Tensor>, Labelled>;
    DataLoader loader(Made<S>(2,
                              [](std::int64_t i) {
                                return S{
                                    {one(i), one(i + 1)},
                                    {{one(i), one(i), one(i)}, {{"n", one(5)}}, {one(6), one(7)}}};
                              }),
                      {.batch_size = 2});
    auto [list, labelled] = *loader.begin();
    REQUIRE(list.size() == 2);
    CHECK(values(list[1]) == Values{1, 2});
    CHECK(values(labelled.scan.mask) == Values{0, 1});
    CHECK(values(labelled.more.at("n")) == Values{5, 5});
    CHECK(values(labelled.pair[1]) == Values{7, 7});
  }
  const std::vector<Listed> listed{Listed(one(1)), Listed(one(2))};
  CHECK(values(default_collate(listed).tensor) == Values{1, 2});
}

TEST_CASE("samples: vectors of bool") {
  using S = std::vector<bool>;
  DataLoader loader(Made<S>(3,
                            [](std::int64_t i) {
                              return S{i == 0, i > 0, true};
                            }),
                    {.batch_size = 3});
  const std::vector<Tensor> batch = *loader.begin();
  REQUIRE(batch.size() == 3);
  CHECK(batch[0].dtype() == kBool);
  CHECK(batch[0].to_vector<bool>() == S{true, false, false});
  CHECK(batch[1].to_vector<bool>() == S{false, true, true});
  CHECK(batch[2].to_vector<bool>() == S{true, true, true});
}

TEST_CASE("samples: a batch of none") {
  const auto error = [](const auto& samples) {
    return message_of<ValueError>([&] { default_collate(samples); });
  };
  const std::string expected = "[default_collate] expected at least one sample, got none";
  CHECK(error(std::vector<Tensor>()) == expected);
  CHECK(error(std::vector<std::vector<Tensor>>()) == expected);
  CHECK(error(std::vector<std::map<std::string, Tensor>>()) == expected);
  CHECK(error(std::vector<StateDict>()) == expected);
}

TEST_CASE("samples: fields without a tensor") {
  // None in any sample: none in the batch.
  DataLoader inputs(Made<Sample>(3,
                                 [](std::int64_t i) {
                                   return Sample{one(i), {}};
                                 }),
                    {.batch_size = 3});
  for (auto& [input, label] : inputs) {
    CHECK(values(input) == Values{0, 1, 2});
    CHECK_FALSE(label.defined());
  }
  const auto error = [](auto make) {
    DataLoader loader(make, {.batch_size = 4});
    return message_of<ValueError>([&] { loader.begin(); });
  };
  CHECK(
      error(Made<Sample>(4, [](std::int64_t i) {
        return Sample{one(i), i == 2 ? Tensor() : one(i)};
      })) == "[default_collate] expected a tensor in sample 2, field label, got an undefined one");
  CHECK(error(Made<Sample>(4,
                           [](std::int64_t i) {
                             return Sample{one(i), i == 2 ? one(i) : Tensor()};
                           })) ==
        "[default_collate] expected the tensors of a field to be defined in all samples or in "
        "none; sample 0 has none, sample 2 has one, field label");
  CHECK(error(Made<Sample>(4, [](std::int64_t) { return Sample(); })) ==
        "[default_collate] expected a tensor in sample 0, field input, got an undefined one");
  CHECK(error(Made<Tensor>(4, [](std::int64_t) { return Tensor(); })) ==
        "[default_collate] expected a tensor in sample 0, got an undefined one");
}

TEST_CASE("samples: those that differ are named, and the field in which they do") {
  using S = std::pair<Tensor, std::map<std::string, Tensor>>;
  const auto at = [](Values indices, auto make) {
    const Made<S> set(10, make);
    return message_of<Error>([&] { set.get_batch(indices); });
  };
  CHECK(at({4, 7, 5},
           [](std::int64_t i) {
             return S{one(i), {{"box", i == 5 ? ints({1, 2}) : ints({1})}}};
           }) ==
        "[default_collate] expected samples of one shape, got [1] in sample 4 and [2] in "
        "sample 5, field 1.box; pad them, or give the loader a function that makes the batch");
  CHECK(at({4, 7},
           [](std::int64_t i) {
             return S{i == 7 ? empty({}, {.dtype = kFloat32}) : one(i), {}};
           }) ==
        "[default_collate] expected samples of one dtype, got int64 in sample 4 and float32 "
        "in sample 7, field 0");
  CHECK(at({1, 2},
           [](std::int64_t i) {
             return i == 2 ? S{one(i), {}} : S{one(i), {{"box", one(i)}}};
           }) ==
        "[default_collate] expected samples of one length, got 1 elements in sample 1 and 0 in "
        "sample 2, field 1");
  CHECK(at({1, 2},
           [](std::int64_t i) {
             return S{one(i), {{i == 1 ? "box" : "mask", one(i)}}};
           }) ==
        "[default_collate] expected 1 entry of this name in each sample, got none in sample "
        "2, field 1.box");
}

TEST_CASE("samples: a function of the user's makes batches") {
  const Texts words = {"a", "bc", "def", "gh"};
  struct Padded {
    Tensor tokens, lengths;
    Texts texts;
  };
  const auto pad = [](const std::vector<Text>& samples) {
    std::size_t longest = 0;
    for (const Text& s : samples) longest = std::max(longest, s.text.size());
    Values tokens, lengths;
    Texts texts;
    for (const Text& s : samples) {
      for (std::size_t i = 0; i < longest; ++i) tokens.push_back(i < s.text.size() ? s.text[i] : 0);
      lengths.push_back(static_cast<std::int64_t>(s.text.size()));
      texts.push_back(s.text);
    }
    return Padded{from_vector<std::int64_t>(
                      tokens, {std::ssize(samples), static_cast<std::int64_t>(longest)}),
                  ints(lengths), texts};
  };
  const auto texts = std::make_shared<Made<Text>>(4, [&](std::int64_t i) {
    return Text{words[static_cast<std::size_t>(i)], i};
  });
  for (const int workers : {0, 2}) {
    for (const Device device : {Device(), Device("cpu:1")}) {
      DataLoader loader(texts, {.batch_size = 3, .num_workers = workers, .device = device}, pad);
      std::vector<Values> all;
      for (auto& [tokens, lengths, texts_of_batch] : loader) {
        CHECK(tokens.device() == device);
        CHECK(lengths.device() == device);
        CHECK(texts_of_batch.size() == static_cast<std::size_t>(lengths.size(0)));
        all.push_back(values(tokens));
        all.push_back(values(lengths));
      }
      CHECK(all == std::vector<Values>{
                       {'a', 0, 0, 'b', 'c', 0, 'd', 'e', 'f'}, {1, 2, 3}, {'g', 'h'}, {2}});
    }
  }
  // An exception of the function comes in the place of its batch.
  DataLoader failing(texts, {.batch_size = 1, .num_workers = 2},
                     [](const std::vector<Text>& samples) {
                       if (samples[0].label == 2)
                         fail<ValueError>("mine", "no {}", samples[0].text);
                       return samples[0].label;
                     });
  Values seen;
  CHECK(message_of<ValueError>([&] {
          for (const std::int64_t label : failing) seen.push_back(label);
        }) == "[mine] no def");
  CHECK(seen == Values{0, 1});
}

TEST_CASE("samples: random transforms depend on the seed, the epoch and the index") {
  struct Noisy : RandomDatasetOf<std::pair<Tensor, std::int64_t>> {
    std::int64_t size() const override { return 12; }
    std::pair<Tensor, std::int64_t> get_random(std::int64_t i, Generator& random) const override {
      return {one(static_cast<std::int64_t>(random.next_below(1000000))), i};
    }
  };
  const auto two_epochs = [](auto& loader) {
    std::map<std::pair<int, std::int64_t>, std::int64_t> drawn;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (auto& [noise, index] : loader)
        for (std::size_t k = 0; k < values(index).size(); ++k)
          drawn[{epoch, values(index)[k]}] = values(noise)[k];
    return drawn;
  };
  DataLoader first(Noisy(), {.batch_size = 5, .seed = 1});
  const auto expected = two_epochs(first);
  CHECK(expected.size() == 24);
  std::set<std::int64_t> distinct;
  for (const auto& [key, value] : expected) distinct.insert(value);
  CHECK(distinct.size() == 24);
  // Other orders, batches, workers, subsets, and functions that make batches.
  DataLoader second(Noisy(), {.batch_size = 4, .shuffle = true, .num_workers = 3, .seed = 1});
  CHECK(two_epochs(second) == expected);
  Values all(12);
  std::iota(all.rbegin(), all.rend(), std::int64_t{0});
  DataLoader third(Subset(Noisy(), all), {.batch_size = 3, .seed = 1},
                   [](const auto& samples) { return default_collate(samples); });
  CHECK(two_epochs(third) == expected);
  DataLoader other(Noisy(), {.batch_size = 5, .seed = 2});
  CHECK(two_epochs(other) != expected);
  const Noisy set;
  CHECK(values(set.get(3).first) == values(set.get(3).first));
}

TEST_CASE("samples: rows of several tensors") {
  const Tensor a = ints({0, 1, 2, 3}), b = ints({4, 5, 6, 7}), c = ints({8, 9, 10, 11});
  DataLoader three(TensorDataset(a, b, c), {.batch_size = 2});
  for (auto& [x, y, z] : three) {
    CHECK(values(y)[1] == values(x)[1] + 4);
    CHECK(values(z)[0] == values(x)[0] + 8);
  }
  const TensorDataset rows(a);
  DataLoader alone(rows, {.batch_size = 3});
  CHECK(values(*alone.begin()) == Values{0, 1, 2});
  const TensorDataset scan(Scan{a, b, {}});
  CHECK(values(scan.get(2).mask) == Values{6});
  CHECK_FALSE(scan.get(2).points.defined());
  CHECK(values(scan.get_batch(Values{3, 0}).image) == Values{3, 0});
  CHECK_THROWS_AS(TensorDataset(a, b, ints({1})), ShapeError);
  CHECK_THROWS_AS((TensorDataset<Tensor>(Tensor())), ValueError);
  CHECK_THROWS_AS((TensorDataset<Tensor>(one(1))), ShapeError);
}
