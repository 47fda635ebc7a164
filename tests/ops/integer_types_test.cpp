// int8 and int16, and the bits of integers. Promotion with all other types is recorded from PyTorch
// (promotion_test.cpp, zero_dim_test.cpp).
#include <doctest/doctest.h>

#include <cstdint>
#include <sstream>
#include <vector>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Bytes = std::vector<std::int8_t>;
using Shorts = std::vector<std::int16_t>;
using Longs = std::vector<std::int64_t>;

Tensor bytes(const Bytes& values, const Device& device) {
  return from_vector(values, {static_cast<std::int64_t>(values.size())}).to(device);
}
Tensor shorts(const Shorts& values, const Device& device) {
  return from_vector(values, {static_cast<std::int64_t>(values.size())}).to(device);
}

}  // namespace

TEST_CASE("int8 and int16 compute as C++ and PyTorch do, and wrap around") {
  for (const Device& device : host_and_cuda()) {
    INFO(device.str());
    const Tensor x = bytes({-128, -7, 0, 7, 127}, device), y = shorts({-32768, 300, 32767}, device);
    CHECK(x.dtype() == kChar);
    CHECK(y.dtype() == kShort);
    CHECK((x + 1).to_vector<std::int8_t>() == Bytes{-127, -6, 1, 8, -128});
    CHECK((y * 2).to_vector<std::int16_t>() == Shorts{0, 600, -2});
    CHECK((x + x).dtype() == kInt8);
    CHECK(neg(x).to_vector<std::int8_t>() == Bytes{-128, 7, 0, -7, -127});
    CHECK(abs(y).to_vector<std::int16_t>() == Shorts{-32768, 300, 32767});
    CHECK(floor_divide(x, 2).to_vector<std::int8_t>() == Bytes{-64, -4, 0, 3, 63});
    CHECK(remainder(x, 4).to_vector<std::int8_t>() == Bytes{0, 1, 0, 3, 3});
    CHECK((x / 2).dtype() == kFloat32);
    CHECK(sum(x).item<std::int64_t>() == -1);
    CHECK(sum(y).dtype() == kInt64);
    CHECK(max(y).item<int>() == 32767);
    CHECK(min(x).item<int>() == -128);
    CHECK(argmax(x).item<int>() == 4);
    CHECK((x < 0).to_vector<bool>() == std::vector<bool>{true, true, false, false, false});
    CHECK(sort(y, 0, true).values.to_vector<std::int16_t>() == Shorts{32767, 300, -32768});
    CHECK(cat({x, x}, 0).size(0) == 10);
    CHECK(where(x > 0, x, zeros_like(x)).to_vector<std::int8_t>() == Bytes{0, 0, 0, 7, 127});
    CHECK(index_select(y, 0, arange(2, {.dtype = kInt64, .device = device}))
              .to_vector<std::int16_t>() == Shorts{-32768, 300});
    CHECK(y.to(kInt8).to_vector<std::int8_t>() == Bytes{0, 44, -1});
    CHECK(x.to(kFloat16).to_vector<float>() == std::vector<float>{-128, -7, 0, 7, 127});
    CHECK(full({2}, -3, {.dtype = kInt8, .device = device}).to_vector<int>() ==
          std::vector<int>{-3, -3});
    CHECK(arange(-2, 2, 1, {.dtype = kInt16, .device = device}).to_vector<int>() ==
          std::vector<int>{-2, -1, 0, 1});
    const Tensor added = zeros({2}, {.dtype = kInt16, .device = device});
    added.index_add_(0, from_vector(Longs{1, 1, 0}, {3}).to(device), shorts({5, 6, 7}, device));
    CHECK(added.to_vector<std::int16_t>() == Shorts{7, 11});
  }
  CHECK(promote(kInt8, kUInt8) == kInt16);
  CHECK(promote(kInt8, kInt16) == kInt16);
  CHECK(promote(kInt16, kFloat16) == kFloat16);
  CHECK(parse_dtype("int16") == kInt16);
  CHECK(zeros({1}).short_().dtype() == kInt16);
  CHECK(zeros({1}).char_().dtype() == kInt8);
  std::ostringstream out;
  out << bytes({-128, 127}, Device());
  CHECK(out.str() == "tensor([-128,  127], dtype=int8)");
  CHECK_THROWS_AS(matmul(zeros({2, 2}, kInt8), zeros({2, 2}, kInt8)), DTypeError);
  CHECK_THROWS_AS(randint(0, 200, {2}, kInt8), ValueError);
  CHECK(randint(-128, 128, {2}, kInt8).dtype() == kInt8);
}

TEST_CASE("bits of integers and masks") {
  for (const Device& device : host_and_cuda()) {
    INFO(device.str());
    const Tensor x = bytes({-128, -1, 5, 12}, device);
    CHECK((x & 4).to_vector<std::int8_t>() == Bytes{0, 4, 4, 4});
    CHECK((x | 3).to_vector<std::int8_t>() == Bytes{-125, -1, 7, 15});
    CHECK((x ^ -1).to_vector<std::int8_t>() == Bytes{127, 0, -6, -13});
    CHECK((~x).to_vector<std::int8_t>() == Bytes{127, 0, -6, -13});
    const Tensor wide = from_vector(Longs{255, 1}, {2}).to(device);
    CHECK(bitwise_and(x.view({2, 2}), wide).to_vector<std::int64_t>() == Longs{128, 1, 5, 0});
    CHECK(bitwise_and(x.view({2, 2}), wide).dtype() == kInt64);
    // PyTorch's results.
    const Tensor shifted = bytes({-5, 7, 100, -128}, device);
    CHECK((shifted << 1).to_vector<std::int8_t>() == Bytes{-10, 14, -56, 0});
    CHECK((shifted << bytes({7, 7, 8, -1}, device)).to_vector<std::int8_t>() ==
          Bytes{-128, -128, 0, 0});
    CHECK((shifted >> 1).to_vector<std::int8_t>() == Bytes{-3, 3, 50, -64});
    CHECK((shifted >> bytes({9, 9, -1, -1}, device)).to_vector<std::int8_t>() ==
          Bytes{-1, 0, 0, -1});
    CHECK(bitwise_left_shift(shifted, tensor({40}).to(device)).to_vector<std::int64_t>() ==
          Longs{-5497558138880, 7696581394432, 109951162777600, -140737488355328});
    const Tensor mask = x > 0;
    CHECK((mask & mask).dtype() == kBool);
    CHECK((mask | true).to_vector<bool>() == std::vector<bool>(4, true));
    CHECK((mask ^ 1).to_vector<std::int64_t>() == Longs{1, 1, 0, 0});
    CHECK((mask & x).to_vector<std::int8_t>() == Bytes{0, 0, 1, 0});
    Tensor changed = x.clone();
    changed &= bytes({1, 1, 1, 1}, device);
    CHECK(changed.to_vector<std::int8_t>() == Bytes{0, 1, 1, 0});
  }
  CHECK_THROWS_AS(zeros({2}) & zeros({2}), DTypeError);
  CHECK_THROWS_AS(zeros({2}) << 1, DTypeError);
  CHECK_THROWS_AS(zeros({2}, kBool) >> zeros({2}, kBool), DTypeError);
  CHECK_THROWS_AS(zeros({2}, kInt32) | 1.5, DTypeError);
}
