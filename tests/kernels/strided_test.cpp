// How large loop nests are split for kernels; the host can compute their offsets as well.
#include "ferrite/kernels/cuda/strided.cuh"

#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "ferrite/core/generator.h"

using namespace ferrite;
using kernels::LoopNest;
using kernels::View;
using kernels::cuda::for_each_loop;
using kernels::cuda::StridedLoop;

namespace {

using Sizes = std::vector<std::int64_t>;

View view(const Sizes& sizes, const Sizes& strides) {
  View v;
  v.ndim = static_cast<int>(sizes.size());
  v.numel = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    v.sizes[d] = sizes[d];
    v.strides[d] = strides[d];
    v.numel *= sizes[d];
  }
  return v;
}

Sizes row_major(const Sizes& sizes) {
  Sizes strides(sizes.size());
  std::int64_t step = 1;
  for (std::size_t d = sizes.size(); d-- > 0; step *= sizes[d]) strides[d] = step;
  return strides;
}

/// Splits a nest of a row-major view, whose offsets are the elements' numbers, and one of
/// `strides`. Checks samples of each piece, and that the pieces have the right total size. Returns
/// their number.
int check(const Sizes& sizes, const Sizes& strides) {
  const View first = view(sizes, row_major(sizes)), second = view(sizes, strides);
  const LoopNest<2> nest({&first, &second});
  Generator random(7);
  std::int64_t elements = 0;
  int pieces = 0;
  std::set<std::int64_t> starts;
  for_each_loop(nest, [&](const StridedLoop<2>& loop) {
    ++pieces;
    elements += loop.numel;
    starts.insert(loop.offsets(0).at[0]);
    for (int i = 0; i < 200; ++i) {
      const auto element = static_cast<std::uint32_t>(i == 0   ? 0
                                                      : i == 1 ? loop.numel - 1
                                                               : random.next_below(loop.numel));
      const auto offsets = loop.offsets(element);
      std::int64_t rest = offsets.at[0], expected = 0;
      REQUIRE(rest >= 0);
      REQUIRE(rest < first.numel);
      for (std::size_t d = sizes.size(); d-- > 0; rest /= sizes[d])
        expected += rest % sizes[d] * strides[d];
      REQUIRE(offsets.at[1] == expected);
    }
  });
  CHECK(elements == first.numel);
  CHECK(starts.size() == static_cast<std::size_t>(pieces));
  return pieces;
}

constexpr std::int64_t kLarge = std::int64_t{1} << 31;

}  // namespace

TEST_CASE("nests that fit are one loop") {
  CHECK(check({5}, {1}) == 1);
  CHECK(check({1, 1}, {7, 0}) == 1);
  CHECK(check({3, 4, 5}, {1, 15, 3}) == 1);
  CHECK(check({2, 3, 2, 3, 2, 3, 2, 3}, {0, 1, 0, 3, 0, 9, 0, 27}) == 1);
  CHECK(check({kLarge - 1}, {2}) == 1);
  CHECK(check({3, 0, 2}, {1, 1, 1}) == 0);
}

TEST_CASE("nests of 2^31 elements and more are cut") {
  CHECK(check({kLarge}, {1}) == 2);
  CHECK(check({5 * kLarge + 3}, {1}) == 6);
  CHECK(check({70000, 70000}, {1, 70000}) == 3);
  CHECK(check({3, kLarge + 5}, {0, 1}) == 6);
  CHECK(check({kLarge + 5, 3}, {1, 0}) == 4);
  CHECK(check({2, 3, 1 << 20, 1 << 10, 2}, {3, 1, 6, 0, 0}) > 4);
}

TEST_CASE("the host iterates over strides of 2^31 and more") {
  CHECK(check({4, 1000}, {2 * kLarge, 1}) == 4);
  CHECK(check({1000, 4}, {1, 2 * kLarge}) == 4);
  CHECK(check({2, 3, 10}, {kLarge, 3 * kLarge, 20}) == 6);
  CHECK(check({2}, {kLarge}) == 2);
}
