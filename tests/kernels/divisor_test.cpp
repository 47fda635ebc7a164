#include "ferrite/kernels/cuda/divisor.cuh"

#include <doctest/doctest.h>

#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/kernels/cuda/reduce_dims.cuh"

using namespace ferrite;
using kernels::ReduceNest;
using kernels::cuda::Divisor;
using kernels::cuda::ReduceDims;
using kernels::cuda::WideDivisor;

namespace {

/// 0, 1, `divisor` and its multiples with their neighbours, and the largest dividend.
std::vector<std::uint64_t> dividends(std::uint64_t divisor, std::uint64_t largest, Generator& g) {
  std::vector<std::uint64_t> all = {0, 1, largest - 1, largest};
  for (int i = 0; i < 50; ++i) {
    const std::uint64_t multiple = g.next_below(largest / divisor + 1) * divisor;
    for (std::uint64_t n : {multiple, multiple - 1, multiple + 1, g.next_below(largest)})
      if (n <= largest) all.push_back(n);
  }
  return all;
}

std::vector<std::uint64_t> divisors(std::uint64_t largest, Generator& g) {
  std::vector<std::uint64_t> all = {1, 2, 3, 7, 10, 255, 256, 641, largest - 1, largest};
  for (std::uint64_t p = 4; p <= largest / 2; p *= 4) {
    all.push_back(p - 1);
    all.push_back(p + 1);
    all.push_back(1 + g.next_below(p));
  }
  return all;
}

}  // namespace

TEST_CASE("division by a launch's numbers") {
  Generator g(1);
  constexpr std::uint64_t kLargest = (1u << 31) - 1;
  for (const std::uint64_t d : divisors(kLargest, g)) {
    const Divisor divisor(static_cast<std::uint32_t>(d));
    for (const std::uint64_t n : dividends(d, kLargest, g)) {
      auto rest = static_cast<std::uint32_t>(n);
      INFO(n, " / ", d);
      REQUIRE(divisor.quotient(rest) == n / d);
      REQUIRE(divisor.split(rest) == n % d);
      REQUIRE(rest == n / d);
    }
  }
}

TEST_CASE("division by a launch's wide numbers") {
  Generator g(2);
  constexpr std::uint64_t kLargest = (std::uint64_t{1} << 62) - 1;
  for (const std::uint64_t d : divisors(kLargest, g)) {
    const WideDivisor divisor(d);
    for (const std::uint64_t n : dividends(d, kLargest, g)) {
      INFO(n, " / ", d);
      REQUIRE(divisor.quotient(n) == n / d);
    }
  }
}

TEST_CASE("offsets of more elements than 32 bits count") {
  // Outermost first, with arbitrary strides.
  ReduceNest::Dims dims;
  dims.n = 3;
  dims.dims[0] = {7, 1000, 3};
  dims.dims[1] = {std::int64_t{3} << 30, -5, 11};
  dims.dims[2] = {12, 2, 1};
  const ReduceDims all(dims), packs(dims, 4);
  CHECK_FALSE(all.is_flat());
  Generator g(3);
  const auto numel = std::uint64_t{7} * 12 * (std::uint64_t{3} << 30);
  for (const std::uint64_t n : dividends(12, numel - 1, g)) {
    const auto i = static_cast<std::int64_t>(n);
    const std::int64_t inner = i % 12, middle = i / 12 % (std::int64_t{3} << 30);
    const std::int64_t outer = i / 12 / (std::int64_t{3} << 30);
    CHECK(all.offsets(i).in == inner * 2 + middle * -5 + outer * 1000);
    CHECK(all.offsets(i).out == inner + middle * 11 + outer * 3);
    if (i % 4 == 0) CHECK(packs.offsets(i / 4).in == all.offsets(i).in);
  }
}
