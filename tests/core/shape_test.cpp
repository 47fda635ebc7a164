#include "ferrite/core/shape.h"

#include <fmt/format.h>

#include "ferrite/tests/core/test_util.h"

using namespace ferrite;
using ferrite::test::message_of;

TEST_CASE("a shape holds up to eight sizes") {
  Shape s{2, 3, 4};
  CHECK(s.size() == 3);
  CHECK(s[1] == 3);
  CHECK(s.back() == 4);
  CHECK(s.str() == "[2, 3, 4]");
  CHECK(fmt::format("{}", s) == "[2, 3, 4]");
  CHECK(Shape().str() == "[]");
  CHECK(Shape().empty());
  CHECK(Shape(std::vector<std::int64_t>{5, 6}) == Shape{5, 6});
  CHECK(Shape::filled(3, 7) == Shape{7, 7, 7});
  CHECK_FALSE(Shape{2, 3} == Shape{2, 3, 1});
  CHECK_FALSE(Shape{2, 3} == Shape{3, 2});

  s.insert(0, 9);
  CHECK(s == Shape{9, 2, 3, 4});
  s.insert(4, 8);
  CHECK(s == Shape{9, 2, 3, 4, 8});
  s.insert(2, 7);
  CHECK(s == Shape{9, 2, 7, 3, 4, 8});
  s.erase(2);
  s.erase(0);
  s.erase(3);
  CHECK(s == Shape{2, 3, 4});

  Shape full = Shape::filled(kMaxDims, 1);
  CHECK(full.size() == 8);
  CHECK(message_of<ShapeError>([&] { full.push_back(1); }) ==
        "[shape] a tensor has at most 8 dimensions");
  CHECK_THROWS_AS(full.insert(0, 1), ShapeError);
  CHECK_THROWS_AS((Shape{1, 2, 3, 4, 5, 6, 7, 8, 9}), ShapeError);
}

TEST_CASE("element counts and their overflow") {
  CHECK(Shape().numel() == 1);
  CHECK(Shape{0}.numel() == 0);
  CHECK(Shape{2, 3, 4}.numel() == 24);
  const std::int64_t big = std::int64_t{1} << 31;
  CHECK(Shape{big, big}.numel() == std::int64_t{1} << 62);
  CHECK(Shape{INT64_MAX, 1}.numel() == INT64_MAX);
  CHECK(message_of<ShapeError>([&] {
          Shape{big, big, 2}.numel();
        }) == "[shape] [2147483648, 2147483648, 2] has more elements than 64 bits can count");
  CHECK_THROWS_AS((Shape{big, big, big, big}.numel()), ShapeError);  // the product wraps to 0
  CHECK(Shape{big, big, big, 0}.numel() == 0);
  CHECK(Shape{0, big, big, big}.numel() == 0);
}

TEST_CASE("row-major strides and their overflow") {
  CHECK(contiguous_strides({}) == Strides{});
  CHECK(contiguous_strides({5}) == Strides{1});
  CHECK(contiguous_strides({2, 3, 4}) == Strides{12, 4, 1});
  CHECK(contiguous_strides({2, 0, 4}) == Strides{4, 4, 1});
  const std::int64_t big = std::int64_t{1} << 40;
  CHECK(contiguous_strides({0, big}) == Strides{big, 1});
  CHECK(message_of<ShapeError>([&] {
          contiguous_strides({0, big, big});
        }) == "[shape] [0, 1099511627776, 1099511627776] has strides that 64 bits cannot hold");
}

TEST_CASE("dimensions count from both ends") {
  CHECK(normalize_dim(0, 3, "op") == 0);
  CHECK(normalize_dim(2, 3, "op") == 2);
  CHECK(normalize_dim(-1, 3, "op") == 2);
  CHECK(normalize_dim(-3, 3, "op") == 0);
  CHECK(normalize_dim(0, 0, "op") == 0);
  CHECK(normalize_dim(-1, 0, "op") == 0);
  CHECK(message_of<IndexError>([] { normalize_dim(3, 3, "sum"); }) ==
        "[sum] dimension 3 is out of range: expected -3 to 2");
  CHECK_THROWS_AS(normalize_dim(-4, 3, "op"), IndexError);
  CHECK_THROWS_AS(normalize_dim(1, 0, "op"), IndexError);
  CHECK_THROWS_AS(normalize_dim(INT64_MIN, 3, "op"), IndexError);
}

TEST_CASE("broadcasting follows NumPy") {
  const auto b = [](const Shape& x, const Shape& y) { return broadcast_shapes(x, y, "add"); };
  CHECK(b({}, {}) == Shape{});
  CHECK(b({}, {2, 3}) == Shape{2, 3});
  CHECK(b({3}, {2, 3}) == Shape{2, 3});
  CHECK(b({2, 1}, {3}) == Shape{2, 3});
  CHECK(b({2, 1, 4}, {5, 1}) == Shape{2, 5, 4});
  CHECK(b({0}, {1}) == Shape{0});
  CHECK(b({2, 0}, {1, 1}) == Shape{2, 0});
  CHECK(b({1}, {4, 0, 1}) == Shape{4, 0, 1});
  CHECK(message_of<ShapeError>([&] {
          b({2, 3}, {4, 3});
        }) ==
        "[add] shapes [2, 3] and [4, 3] do not broadcast: sizes 2 and 4 at dimension 0 are neither "
        "equal nor 1");
  CHECK_THROWS_AS(b({0}, {2}), ShapeError);
}
