#include "ferrite/core/generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "ferrite/core/generator_state.h"
#include "ferrite/tests/core/test_util.h"

using namespace ferrite;
using ferrite::test::message_of;

namespace {

/// Pearson's statistic against equal counts. With k cells its mean is k - 1, its deviation
/// sqrt(2 (k - 1)); callers allow six deviations on both sides.
double chi_square(const std::vector<std::int64_t>& counts) {
  const double total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0LL));
  const double expected = total / static_cast<double>(counts.size());
  double sum = 0;
  for (std::int64_t c : counts) {
    const double d = static_cast<double>(c) - expected;
    sum += d * d / expected;
  }
  return sum;
}

bool plausible(const std::vector<std::int64_t>& counts) {
  const double freedom = static_cast<double>(counts.size()) - 1;
  return std::abs(chi_square(counts) - freedom) < 6 * std::sqrt(2 * freedom);
}

}  // namespace

TEST_CASE("Philox 4x32-10 known answers") {
  // The first is Random123's kat_vectors; the others come from a separate implementation that
  // reproduces all three of Random123's, whose upper counter words are not always 0 as ours are.
  struct Case {
    std::uint64_t seed, counter;
    std::uint32_t expected[4];
  };
  const Case cases[] = {
      {0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {UINT64_MAX, UINT64_MAX, {0x4d18d7d2, 0x430ac65a, 0xbd2fa22a, 0x0afae10d}},
      {0x299f31d0a4093822, 0x85a308d3243f6a88, {0xe69c9c31, 0xb5a3d762, 0xe733bfc1, 0x341a787c}},
      {67280421310721, 1, {0x252d372a, 0xd70d580d, 0x15614e1c, 0x0dfa50b9}},
      {42, std::uint64_t{1} << 32, {0x42e0b8b3, 0x7dbf5de8, 0x2fe739d4, 0x6aaf03eb}},
      {std::uint64_t{1} << 32, 0, {0xfdde3e0b, 0xfa7e58b6, 0x3380ec46, 0xd8d55c4f}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.seed);
    const PhiloxBlock block = philox(c.seed, c.counter);
    for (int i = 0; i < 4; ++i) CHECK(block.v[i] == c.expected[i]);
  }
}

TEST_CASE("words become floats in [0, 1)") {
  CHECK(philox_uniform(0u) == 0.0f);
  CHECK(philox_uniform(0xffu) == 0.0f);
  CHECK(philox_uniform(0x100u) == 0x1p-24f);
  CHECK(philox_uniform(0x80000000u) == 0.5f);
  CHECK(philox_uniform(UINT32_MAX) == 1 - 0x1p-24f);
  CHECK(philox_uniform(0u, 0u) == 0.0);
  CHECK(philox_uniform(0x80000000u, 0u) == 0.5);
  CHECK(philox_uniform(0u, 0x800u) == 0x1p-53);
  CHECK(philox_uniform(UINT32_MAX, UINT32_MAX) == 1 - 0x1p-53);
}

TEST_CASE("a generator is its seed and offset") {
  Generator g;
  CHECK(g.seed() == Generator::kDefaultSeed);
  g.manual_seed(0);
  CHECK(g.next_u64() == 0x6627e8d5e169c58d);
  CHECK(g.state().offset == 1);
  CHECK(g.next_double() ==
        static_cast<double>((std::uint64_t{philox(0, 1).v[0]} << 32 | philox(0, 1).v[1]) >> 11) *
            0x1p-53);
  const PhiloxState taken = g.reserve(10);
  CHECK(taken.seed == 0);
  CHECK(taken.offset == 2);
  CHECK(g.state().offset == 12);

  Generator copy = g;
  CHECK(copy.next_u64() == g.next_u64());
  g.next_normal();
  const PhiloxState state = g.state();
  const std::uint64_t next = g.next_u64();
  g.set_state(state);
  CHECK(g.next_u64() == next);
  copy.set_state({7, 100});
  g = copy;
  CHECK(g.seed() == 7);
  CHECK(g.state().offset == 100);
  g.manual_seed(7);
  CHECK(g.state().offset == 0);
}

TEST_CASE("uniform draws fill their range evenly") {
  Generator g(1);
  std::vector<std::int64_t> cells(100), low_bits(64);
  double sum = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double x = g.next_double();
    REQUIRE(x >= 0);
    REQUIRE(x < 1);
    ++cells[static_cast<std::size_t>(x * 100)];
    sum += x;
    ++low_bits[g.next_u64() & 63];
  }
  CHECK(plausible(cells));
  CHECK(plausible(low_bits));
  CHECK(sum / 200'000 == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("normal draws have the moments of the normal distribution") {
  Generator g(2);
  constexpr int n = 200'000;
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  int beyond = 0;
  for (int i = 0; i < n; ++i) {
    const double x = g.next_normal();
    REQUIRE(std::isfinite(x));
    m1 += x, m2 += x * x, m3 += x * x * x, m4 += x * x * x * x;
    beyond += std::abs(x) > 1.959963985;
  }
  // Six standard errors: sqrt(1/n), sqrt(2/n), sqrt(15/n), sqrt(96/n).
  CHECK(std::abs(m1 / n) < 6 * std::sqrt(1.0 / n));
  CHECK(std::abs(m2 / n - 1) < 6 * std::sqrt(2.0 / n));
  CHECK(std::abs(m3 / n) < 6 * std::sqrt(15.0 / n));
  CHECK(std::abs(m4 / n - 3) < 6 * std::sqrt(96.0 / n));
  CHECK(std::abs(beyond / double{n} - 0.05) < 6 * std::sqrt(0.05 * 0.95 / n));
}

TEST_CASE("draws below a bound") {
  Generator g(3);
  for (int i = 0; i < 100; ++i) CHECK(g.next_below(1) == 0);
  for (std::uint64_t bound : {2u, 7u, 64u, 100u}) {
    CAPTURE(bound);
    std::vector<std::int64_t> cells(bound);
    for (int i = 0; i < 50'000; ++i) {
      const std::uint64_t x = g.next_below(bound);
      REQUIRE(x < bound);
      ++cells[x];
    }
    CHECK(plausible(cells));
  }
  // Without rejection, the residues modulo 3 below 3 * 2^62 would come 2 : 1 : 1.
  const std::uint64_t huge = std::uint64_t{3} << 62;
  std::vector<std::int64_t> residues(3), thirds(3);
  for (int i = 0; i < 30'000; ++i) {
    const std::uint64_t x = g.next_below(huge);
    REQUIRE(x < huge);
    ++thirds[x >> 62];
    ++residues[x % 3];
  }
  CHECK(plausible(thirds));
  CHECK(plausible(residues));
  CHECK(message_of<ValueError>([&] { g.next_below(0); }) ==
        "[next_below] the bound must be above 0");
}

TEST_CASE("permutations") {
  Generator g(4);
  CHECK(g.permutation(0).empty());
  CHECK(g.permutation(1) == std::vector<std::int64_t>{0});
  std::vector<std::int64_t> p = g.permutation(1000);
  CHECK(p != g.permutation(1000));
  Generator again(4);
  again.permutation(0), again.permutation(1);
  CHECK(p == again.permutation(1000));
  std::ranges::sort(p);
  for (std::size_t i = 0; i < p.size(); ++i) REQUIRE(p[i] == static_cast<std::int64_t>(i));

  std::vector<std::int64_t> orders(24);  // all orders of four are equally likely
  for (int i = 0; i < 48'000; ++i) {
    const auto q = g.permutation(4);
    std::size_t index = 0;
    for (std::size_t a = 0; a < 4; ++a) {
      std::size_t smaller = 0;
      for (std::size_t b = a + 1; b < 4; ++b) smaller += q[b] < q[a];
      index = index * (4 - a) + smaller;
    }
    ++orders[index];
  }
  CHECK(plausible(orders));
  CHECK(message_of<ValueError>([&] { g.permutation(-1); }) ==
        "[permutation] expected a length of 0 or more, got -1");
}

TEST_CASE("default generators are seeded together") {
  Generator& host = default_generator(Device());
  Generator& first = default_generator(Device("cpu:0"));
  CHECK(&host == &default_generator(Device("cpu")));
  CHECK(&host != &first);
  manual_seed(11);
  const std::uint64_t value = host.next_u64();
  CHECK(first.next_u64() == value);
  CHECK(default_generator(Device("cpu:47")).next_u64() == value);  // not used before
  manual_seed(11);
  CHECK(host.next_u64() == value);
  manual_seed(Generator::kDefaultSeed);
}

TEST_CASE("threads that share a generator draw different blocks") {
  Generator g(5);
  constexpr int kThreads = 4, kDraws = 2000;
  std::vector<std::vector<std::uint64_t>> drawn(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kDraws; ++i) drawn[static_cast<std::size_t>(t)].push_back(g.next_u64());
    });
  for (std::thread& t : threads) t.join();
  std::set<std::uint64_t> all;
  for (const auto& d : drawn) all.insert(d.begin(), d.end());
  CHECK(all.size() == kThreads * kDraws);
  CHECK(g.state().offset == kThreads * kDraws);
}

TEST_CASE("the default generators' state makes the round trip, unused ones included") {
  manual_seed(5);
  Generator &host = default_generator(Device()), &other = default_generator(Device("cpu:1"));
  host.reserve(3);
  const StateDict state = generator_state_dict();
  const std::uint64_t next_host = host.next_u64(), next_other = other.next_u64();
  default_generator(Device("cpu:7")).next_u64();  // not in the state, unless another test used it
  manual_seed(6);
  load_generator_state_dict(state);
  CHECK(host.next_u64() == next_host);
  CHECK(other.next_u64() == next_other);
  CHECK(default_generator(Device("cpu:9")).seed() == 5);
  CHECK(default_generator(Device("cpu:7")).seed() == 5);

  // All or nothing; devices that do not exist here are no error.
  const Tensor numbers = from_vector<std::int64_t>({1, 2}, {2});
  const Tensor seed = from_vector<std::int64_t>({8}, {});
  for (const char* name : {"gpu", "cpu:", "cpu:-1", "cuda", "cuda:64", "cpu:1x"})
    CHECK_THROWS_AS(load_generator_state_dict({{"seed", seed}, {"cpu", numbers}, {name, numbers}}),
                    ValueError);
  CHECK_THROWS_AS(load_generator_state_dict({{"cpu", numbers}}), ValueError);
  CHECK_THROWS_AS(load_generator_state_dict({{"seed", seed}, {"cpu", seed}}), ValueError);
  CHECK(host.seed() == 5);
  load_generator_state_dict({{"seed", seed}, {"cuda:63", numbers}});
  CHECK(host.seed() == 8);
  CHECK(host.state().offset == 0);
  manual_seed(Generator::kDefaultSeed);
}
