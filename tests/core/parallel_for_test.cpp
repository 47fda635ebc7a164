#include "ferrite/core/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "ferrite/tests/core/test_util.h"

using namespace ferrite;
using ferrite::test::message_of;

namespace {

/// Sets the number of threads for a test's duration.
class Threads {
 public:
  explicit Threads(int count) : before_(num_threads()) { set_num_threads(count); }
  ~Threads() { set_num_threads(before_); }

 private:
  int before_;
};

using Chunks = std::vector<std::pair<std::int64_t, std::int64_t>>;

Chunks chunks_of(std::int64_t n, std::int64_t grain) {
  std::mutex mutex;
  Chunks chunks;
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    std::lock_guard lock(mutex);
    chunks.emplace_back(begin, end);
  });
  std::ranges::sort(chunks);
  return chunks;
}

}  // namespace

TEST_CASE("chunks depend only on a loop's length and grain") {
  CHECK(chunks_of(10, 4) == Chunks{{0, 4}, {4, 8}, {8, 10}});
  CHECK(chunks_of(8, 4) == Chunks{{0, 4}, {4, 8}});
  CHECK(chunks_of(3, 4) == Chunks{{0, 3}});
  CHECK(chunks_of(4, 4) == Chunks{{0, 4}});
  CHECK(chunks_of(0, 4).empty());
  CHECK(chunks_of(-5, 4).empty());
  CHECK(chunks_of(3, 0) == Chunks{{0, 1}, {1, 2}, {2, 3}});
  CHECK(chunks_of(3, -7) == Chunks{{0, 1}, {1, 2}, {2, 3}});
  const std::int64_t big = std::int64_t{1} << 62;
  CHECK(chunks_of(INT64_MAX, big) == Chunks{{0, big}, {big, INT64_MAX}});
  CHECK(chunks_of(INT64_MAX, INT64_MAX) == Chunks{{0, INT64_MAX}});
  for (int count : {1, 2, 3, 8}) {
    Threads threads(count);
    CHECK(num_threads() == count);
    const Chunks chunks = chunks_of(1003, 10);
    CHECK(chunks.size() == 101);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const auto begin = static_cast<std::int64_t>(i) * 10;
      REQUIRE(chunks[i] == std::pair(begin, std::min<std::int64_t>(begin + 10, 1003)));
    }
  }
}

TEST_CASE("sums have the same bits for every number of threads") {
  std::vector<float> x(100'000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0f / static_cast<float>(i + 1);
  const auto sum = [&] {
    std::vector<float> partial(100);
    parallel_for(100'000, 1000, [&](std::int64_t begin, std::int64_t end) {
      partial[static_cast<std::size_t>(begin / 1000)] =
          std::accumulate(x.begin() + begin, x.begin() + end, 0.0f);
    });
    return std::accumulate(partial.begin(), partial.end(), 0.0f);
  };
  Threads one(1);
  const float expected = sum();
  for (int count : {2, 4, 7}) {
    Threads threads(count);
    CHECK(sum() == expected);
  }
}

TEST_CASE("several threads take part") {
  Threads threads(3);
  // Chunks that wait for one another finish only if three threads run them.
  std::atomic<int> arrived{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  parallel_for(3, 1, [&](std::int64_t, std::int64_t) {
    ++arrived;
    while (arrived < 3 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  CHECK(std::chrono::steady_clock::now() < deadline);
}

TEST_CASE("the first exception is rethrown and ends the loop") {
  for (int count : {1, 2, 4}) {
    CAPTURE(count);
    Threads threads(count);
    std::atomic<std::int64_t> ran{0};
    CHECK(message_of<std::runtime_error>([&] {
            parallel_for(1'000'000, 1, [&](std::int64_t begin, std::int64_t) {
              ++ran;
              if (begin == 5) throw std::runtime_error("chunk 5");
            });
          }) == "chunk 5");
    CHECK(ran < 1'000'000);
    CHECK(ran >= 6);
    // All throw: one arrives, and the pool still works.
    CHECK_THROWS_AS(parallel_for(100, 1, [](std::int64_t, std::int64_t) { throw 1; }), int);
    CHECK(chunks_of(100, 1).size() == 100);
  }
  CHECK_THROWS_AS(parallel_for(1, 1, [](std::int64_t, std::int64_t) { throw 1; }), int);
}

TEST_CASE("after an exception other threads start no further chunk") {
  Threads threads(2);
  std::atomic<int> arrived{0}, ran{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  CHECK_THROWS_AS(parallel_for(2000, 1,
                               [&](std::int64_t begin, std::int64_t) {
                                 ++arrived;
                                 while (arrived < 2 && std::chrono::steady_clock::now() < deadline)
                                   std::this_thread::yield();
                                 if (begin == 0) throw 1;
                                 std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                 ++ran;
                               }),
                  int);
  CHECK(arrived >= 2);
  CHECK(ran < 1000);
}

TEST_CASE("a loop inside a loop runs in its own thread") {
  Threads threads(4);
  std::atomic<int> total{0}, strangers{0};
  parallel_for(8, 1, [&](std::int64_t, std::int64_t) {
    const auto self = std::this_thread::get_id();
    parallel_for(100, 10, [&](std::int64_t begin, std::int64_t end) {
      total += static_cast<int>(end - begin);
      strangers += std::this_thread::get_id() != self;
      parallel_for(4, 2, [&](std::int64_t, std::int64_t) { CHECK(num_threads() == 4); });
    });
  });
  CHECK(total == 800);
  CHECK(strangers == 0);
  CHECK_THROWS_AS(parallel_for(4, 1,
                               [](std::int64_t, std::int64_t) {
                                 parallel_for(4, 1, [](std::int64_t, std::int64_t) { throw 1; });
                               }),
                  int);
  CHECK(chunks_of(100, 1).size() == 100);  // the exception left no thread inside
}

TEST_CASE("a body may be const or hold state") {
  std::atomic<int> calls{0};
  const auto constant = [&](std::int64_t, std::int64_t) { ++calls; };
  parallel_for(10, 3, constant);
  parallel_for(10, 3, [&, n = 0](std::int64_t, std::int64_t) mutable { calls += n; });
  CHECK(calls == 4);
}

TEST_CASE("many threads loop at once while the number of threads changes") {
  Threads threads(2);
  std::atomic<bool> wrong{false};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&, t] {
      for (int round = 0; round < 150; ++round) {
        const std::int64_t n = 50 + 37 * t + round;
        std::atomic<std::int64_t> sum{0};
        bool thrown = false;
        try {
          parallel_for(n, 3, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) sum += i;
            if (round % 10 == 9 && begin == 0) throw std::runtime_error("planned");
          });
        } catch (const std::runtime_error&) {
          thrown = true;
        }
        if (thrown != (round % 10 == 9) || (!thrown && sum != n * (n - 1) / 2)) wrong = true;
      }
    });
  for (int round = 0; round < 40; ++round) set_num_threads(1 + round % 5);
  for (std::thread& t : callers) t.join();
  CHECK_FALSE(wrong);
}

TEST_CASE("the number of threads is checked") {
  const std::string expected = "[set_num_threads] expected 1 to 1024 threads, got ";
  CHECK(message_of<ValueError>([] { set_num_threads(0); }) == expected + "0");
  CHECK(message_of<ValueError>([] { set_num_threads(1025); }) == expected + "1025");
  for (int count : {1, 2}) {
    Threads threads(count);
    CHECK(message_of<ValueError>([] {
            parallel_for(4, 1, [](std::int64_t, std::int64_t) { set_num_threads(2); });
          }) == "[set_num_threads] called from inside a parallel_for");
  }
}
