#include "ferrite/data/synthetic_digits.h"

#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "ferrite/core/parallel_for.h"

using namespace ferrite;
using namespace ferrite::data;

TEST_CASE("synthetic_digits: sample i depends on seed and i alone") {
  const SyntheticDigits few(25, 3), many(500, 3);
  CHECK(few.images().shape() == Shape{25, 1, 28, 28});
  CHECK(std::memcmp(few.images().data_ptr(), many.images().data_ptr(), few.images().nbytes()) == 0);
  CHECK(std::memcmp(few.labels().data_ptr(), many.labels().data_ptr(), few.labels().nbytes()) == 0);
  const int threads = num_threads();
  set_num_threads(1);
  const SyntheticDigits alone(500, 3);
  set_num_threads(threads);
  CHECK(std::memcmp(alone.images().data_ptr(), many.images().data_ptr(), many.images().nbytes()) ==
        0);
  const SyntheticDigits other(25, 4);
  CHECK(std::memcmp(few.images().data_ptr(), other.images().data_ptr(), few.images().nbytes()) !=
        0);
}

TEST_CASE("synthetic_digits: each image is drawn once, on first access by any thread") {
  const SyntheticDigits whole(400, 6);
  const Tensor expected = whole.images();
  const SyntheticDigits set(400, 6), copy = set;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&set, t] {  // pairs of threads request the same images at the same time
      std::vector<std::int64_t> indices(200);
      for (std::size_t i = 0; i < indices.size(); ++i)
        indices[i] = t % 2 * 200 + static_cast<std::int64_t>(i);
      set.get_batch(indices);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(copy.images().data_ptr() == set.images().data_ptr());
  CHECK(std::memcmp(set.images().data_ptr(), expected.data_ptr(), expected.nbytes()) == 0);
  // Alone, before the other nine of its run.
  const SyntheticDigits fresh(400, 6);
  const Tensor one = fresh.get(123).input;
  for (std::int64_t k = 0; k < 784; ++k)
    REQUIRE(one.data<float>()[k] ==
            static_cast<float>(expected.data<std::uint8_t>()[123 * 784 + k]) / 255);
}

TEST_CASE("synthetic_digits: labels that are changed change no image") {
  const SyntheticDigits set(10, 3), other(10, 3);
  const Tensor labels = set.labels();
  labels.data<std::int64_t>()[0] = (labels.data<std::int64_t>()[0] + 1) % 10;
  CHECK(std::memcmp(set.images().data_ptr(), other.images().data_ptr(), other.images().nbytes()) ==
        0);
}

TEST_CASE("synthetic_digits: every ten samples hold every digit") {
  const SyntheticDigits set(100, 1);
  CHECK(set.classes().size() == 10);
  for (std::int64_t ten = 0; ten < 10; ++ten) {
    std::set<std::int64_t> digits;
    for (std::int64_t i = 0; i < 10; ++i)
      digits.insert(set.labels().data<std::int64_t>()[10 * ten + i]);
    CHECK(digits.size() == 10);
  }
}

TEST_CASE("synthetic_digits: each picture has ink, and none is full") {
  const SyntheticDigits set(300, 2);
  const std::uint8_t* pixel = set.images().data<std::uint8_t>();
  for (std::int64_t i = 0; i < set.size(); ++i) {
    int bright = 0;
    for (int k = 0; k < 784; ++k) bright += *pixel++ > 110;
    CAPTURE(i);
    CHECK(bright > 12);
    CHECK(bright < 320);
  }
}

TEST_CASE("synthetic_digits: sizes") {
  CHECK(SyntheticDigits(0).size() == 0);
  CHECK_THROWS_AS(SyntheticDigits(-1), ValueError);
}
