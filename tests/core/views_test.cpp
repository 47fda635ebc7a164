#include "ferrite/core/views.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "ferrite/tests/core/test_util.h"

using namespace ferrite;
using ferrite::test::iota;
using ferrite::test::message_of;
using geometry::View;

namespace {

using Index = std::vector<std::int64_t>;
using Offsets = std::vector<std::int64_t>;

/// Calls f(index) for every index of `shape` in row-major order.
template <class F>
void for_each_index(const Shape& shape, F&& f) {
  Index index(static_cast<std::size_t>(shape.size()));
  const std::function<void(int)> walk = [&](int d) {
    if (d == shape.size()) return f(index);
    for (std::int64_t i = 0; i < shape[d]; ++i) {
      index[static_cast<std::size_t>(d)] = i;
      walk(d + 1);
    }
  };
  walk(0);
}

std::int64_t offset_at(const View& v, const Index& index) {
  std::int64_t offset = v.offset;
  for (std::size_t d = 0; d < index.size(); ++d)
    offset += index[d] * v.strides[static_cast<int>(d)];
  return offset;
}

Offsets offsets_of(const View& v) {
  Offsets offsets;
  for_each_index(v.shape, [&](const Index& i) { offsets.push_back(offset_at(v, i)); });
  return offsets;
}

/// The elements that `v` must contain if its element at `index` is the element of `t` at
/// source(index).
template <class F>
Offsets expected_offsets(const Tensor& t, const Shape& shape, F&& source) {
  Offsets offsets;
  for_each_index(shape,
                 [&](const Index& i) { offsets.push_back(offset_at(geometry::of(t), source(i))); });
  return offsets;
}

/// Tensors of random shapes over one storage, many of them permuted, strided or expanded.
class RandomTensors {
 public:
  explicit RandomTensors(unsigned seed) : random_(seed) {}

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  Tensor next() {
    const int ndim = static_cast<int>(pick(0, 4));
    Shape shape, strides;
    std::vector<int> order;
    for (int d = 0; d < ndim; ++d) {
      shape.push_back(pick(0, 20) == 0 ? 0 : pick(1, 4));
      strides.push_back(0);
      order.insert(order.begin() + pick(0, d), d);
    }
    std::int64_t step = pick(1, 2);
    for (int d : order) {
      strides[d] = pick(0, 7) == 0 ? 0 : step;
      if (strides[d] != 0) step *= shape[d] == 0 ? 1 : shape[d] + (pick(0, 3) == 0);
    }
    return geometry::as_strided(base_, shape, strides, pick(0, 50));
  }
  Shape shuffled_shape(const Tensor& t) {
    // Factors of the sizes, regrouped.
    Shape shape;
    std::int64_t n = t.numel();
    if (n == 0) return pick(0, 1) ? Shape{0} : Shape{2, 0, 3};
    while (n > 1 && shape.size() < 5) {
      std::int64_t f = pick(1, n);
      while (n % f != 0) --f;
      shape.push_back(f);
      n /= f;
    }
    if (n > 1) shape.push_back(n);
    return shape;
  }

 private:
  std::mt19937 random_;
  Tensor base_ = empty({20000}, {.dtype = kUInt8});
};

constexpr int kRounds = 2000;

/// Strides with which `shape` visits `offsets`, if there are any.
std::optional<Strides> strides_by_force(const Offsets& offsets, const Shape& shape) {
  Strides strides = Shape::filled(shape.size(), 0);
  if (offsets.empty()) return strides;
  std::int64_t below = 1;
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (shape[d] > 1) strides[d] = offsets[static_cast<std::size_t>(below)] - offsets[0];
    below *= shape[d];
  }
  if (offsets_of({shape, strides, offsets[0]}) == offsets) return strides;
  return std::nullopt;
}

}  // namespace

TEST_CASE("select, slice and narrow reach the elements that indexing names") {
  RandomTensors tensors(1);
  for (int round = 0; round < kRounds; ++round) {
    const Tensor t = tensors.next();
    if (t.dim() == 0) continue;
    CAPTURE(t.describe());
    const auto d = static_cast<std::size_t>(tensors.pick(0, t.dim() - 1));
    const auto dim = static_cast<std::int64_t>(d);
    const std::int64_t n = t.shape()[static_cast<int>(d)];
    const std::int64_t dim_arg = tensors.pick(0, 1) ? dim : dim - t.dim();
    if (n > 0) {
      const std::int64_t i = tensors.pick(-n, n - 1);
      const View v = geometry::select(t, dim_arg, i);
      Shape shape = t.shape();
      shape.erase(static_cast<int>(d));
      REQUIRE(v.shape == shape);
      REQUIRE(offsets_of(v) == expected_offsets(t, shape, [&](Index index) {
                index.insert(index.begin() + dim, i < 0 ? i + n : i);
                return index;
              }));
    }
    // Python's slice, spelled out element by element.
    const std::int64_t start = tensors.pick(-6, 6), end = tensors.pick(-6, 6),
                       step = tensors.pick(1, 5);
    const std::int64_t from = std::clamp<std::int64_t>(start < 0 ? start + n : start, 0, n);
    const std::int64_t to = std::clamp<std::int64_t>(end < 0 ? end + n : end, 0, n);
    std::vector<std::int64_t> kept;
    for (std::int64_t i = from; i < to; i += step) kept.push_back(i);
    const View s = geometry::slice(t, dim_arg, start, end, step);
    Shape shape = t.shape();
    shape[static_cast<int>(d)] = static_cast<std::int64_t>(kept.size());
    REQUIRE(s.shape == shape);
    REQUIRE(offsets_of(s) == expected_offsets(t, shape, [&](Index index) {
              index[d] = kept[static_cast<std::size_t>(index[d])];
              return index;
            }));
    REQUIRE_NOTHROW(geometry::apply(t, s));

    const std::int64_t first = tensors.pick(0, n), length = tensors.pick(0, n - first);
    const View w = geometry::narrow(t, dim_arg, first == n ? n : first - n, length);
    shape[static_cast<int>(d)] = length;
    REQUIRE(w.shape == shape);
    REQUIRE(offsets_of(w) == expected_offsets(t, shape, [&](Index index) {
              index[d] += first;
              return index;
            }));
    REQUIRE_NOTHROW(geometry::apply(t, w));
  }
}

TEST_CASE("transpose, permute, squeeze, unsqueeze, expand and unfold") {
  RandomTensors tensors(2);
  for (int round = 0; round < kRounds; ++round) {
    const Tensor t = tensors.next();
    CAPTURE(t.describe());
    const int n = t.dim();
    const Offsets all = offsets_of(geometry::of(t));

    std::vector<std::int64_t> order;
    for (int d = 0; d < n; ++d) order.insert(order.begin() + tensors.pick(0, d), d);
    Shape signed_order(order), permuted;
    for (int i = 0; i < n; ++i) {
      permuted.push_back(t.shape()[static_cast<int>(order[static_cast<std::size_t>(i)])]);
      if (tensors.pick(0, 1)) signed_order[i] -= n;
    }
    const View p = geometry::permute(t, signed_order);
    REQUIRE(p.shape == permuted);
    REQUIRE(offsets_of(p) == expected_offsets(t, permuted, [&](const Index& index) {
              Index source(index.size());
              for (std::size_t i = 0; i < index.size(); ++i)
                source[static_cast<std::size_t>(order[i])] = index[i];
              return source;
            }));
    if (n > 0) {
      const std::int64_t a = tensors.pick(0, n - 1), b = tensors.pick(0, n - 1);
      std::vector<std::int64_t> swapped;
      for (int d = 0; d < n; ++d) swapped.push_back(d == a ? b : d == b ? a : d);
      const View x = geometry::transpose(t, a, b - n), y = geometry::permute(t, Shape(swapped));
      REQUIRE(x.shape == y.shape);
      REQUIRE(x.strides == y.strides);

      const auto d = static_cast<std::size_t>(a);
      const std::int64_t size = tensors.pick(0, t.shape()[static_cast<int>(a)]),
                         step = tensors.pick(1, 3);
      Shape windows = t.shape();
      windows[static_cast<int>(a)] = 0;
      for (std::int64_t at = 0; at + size <= t.shape()[static_cast<int>(a)]; at += step)
        ++windows[static_cast<int>(a)];
      windows.push_back(size);
      const View u = geometry::unfold(t, a, size, step);
      REQUIRE(u.shape == windows);
      REQUIRE(offsets_of(u) == expected_offsets(t, windows, [&](Index index) {
                index[d] = index[d] * step + index.back();
                index.pop_back();
                return index;
              }));
      REQUIRE_NOTHROW(geometry::apply(t, u));

      const View q = geometry::squeeze(t, a);
      REQUIRE(q.shape.size() == n - (t.shape()[static_cast<int>(a)] == 1));
      REQUIRE(offsets_of(q) == all);
    }
    const View q = geometry::squeeze(t);
    for (std::int64_t size : q.shape) REQUIRE(size != 1);
    REQUIRE(offsets_of(q) == all);

    const std::int64_t at = tensors.pick(-n - 1, n);
    const View u = geometry::unsqueeze(t, at);
    REQUIRE(u.shape.size() == n + 1);
    REQUIRE(u.shape[static_cast<int>(at < 0 ? at + n + 1 : at)] == 1);
    REQUIRE(offsets_of(u) == all);

    Shape target, asked;
    const auto lead = static_cast<int>(tensors.pick(0, 2));
    for (int i = 0; i < lead; ++i) target.push_back(tensors.pick(0, 3)), asked = target;
    for (int d = 0; d < n; ++d) {
      target.push_back(t.shape()[d] == 1 ? tensors.pick(0, 3) : t.shape()[d]);
      asked.push_back(t.shape()[d] == target.back() && tensors.pick(0, 1) ? -1 : target.back());
    }
    const View e = geometry::expand(t, asked);
    REQUIRE(e.shape == target);
    REQUIRE(offsets_of(e) == expected_offsets(t, target, [&](Index index) {
              index.erase(index.begin(), index.begin() + lead);
              for (int d = 0; d < n; ++d)
                if (t.shape()[d] == 1) index[static_cast<std::size_t>(d)] = 0;
              return index;
            }));
    REQUIRE_NOTHROW(geometry::apply(t, e));
  }
}

TEST_CASE("a shape is viewed exactly where strides for it exist") {
  RandomTensors tensors(3);
  int possible = 0, impossible = 0;
  for (int round = 0; round < 3 * kRounds; ++round) {
    const Tensor t = tensors.next();
    const Shape shape = tensors.shuffled_shape(t);
    CAPTURE(t.describe());
    CAPTURE(t.strides().str());
    CAPTURE(shape.str());
    const Offsets offsets = offsets_of(geometry::of(t));
    const auto v = geometry::view(t, shape);
    REQUIRE(v.has_value() == strides_by_force(offsets, shape).has_value());
    if (v) {
      REQUIRE(v->shape == shape);
      REQUIRE(offsets_of(*v) == offsets);
    }
    if (!t.is_contiguous()) ++(v ? possible : impossible);
  }
  CHECK(possible > 100);
  CHECK(impossible > 100);
}

TEST_CASE("view agrees with PyTorch") {
  struct Case {
    Shape shape, strides, wanted;
    std::optional<Strides> expected;
  };
  const Case cases[] = {
      // Recorded from PyTorch 1.13.
      {{2, 3, 4}, {12, 4, 1}, {6, 4}, Strides{4, 1}},
      {{2, 3, 4}, {12, 4, 1}, {2, 12}, Strides{12, 1}},
      {{3, 2}, {1, 3}, {6}, std::nullopt},
      {{3, 2}, {1, 3}, {3, 2}, Strides{1, 3}},
      {{3, 2}, {1, 3}, {3, 1, 2}, Strides{1, 6, 3}},
      {{3, 2}, {1, 3}, {1, 3, 2, 1}, Strides{3, 1, 3, 3}},
      {{3, 2}, {1, 3}, {2, 3}, std::nullopt},
      {{4, 2, 3}, {6, 3, 2}, {8, 3}, Strides{3, 2}},
      {{4, 2, 3}, {6, 3, 1}, {2, 2, 6}, Strides{12, 6, 1}},
      {{4, 2, 3}, {12, 6, 2}, {8, 3}, Strides{6, 2}},
      {{4, 2, 3}, {12, 6, 2}, {4, 6}, Strides{12, 2}},
      {{4, 2, 3}, {12, 6, 2}, {24}, Strides{2}},
      {{2, 3}, {0, 0}, {6}, Strides{0}},
      {{2, 3}, {0, 1}, {6}, std::nullopt},
      {{2, 3}, {3, 0}, {6}, std::nullopt},
      {{2, 3}, {0, 1}, {2, 3, 1}, Strides{0, 1, 1}},
      {{4, 3}, {0, 1}, {2, 2, 3}, Strides{0, 0, 1}},
      {{4, 1}, {1, 7}, {4}, Strides{1}},
      {{1, 4}, {7, 2}, {2, 2}, Strides{4, 2}},
      {{2, 1, 3}, {3, 99, 1}, {6}, Strides{1}},
      {{2, 1, 3}, {4, 99, 1}, {6}, std::nullopt},
      {{2, 1, 3}, {4, 99, 1}, {2, 3}, Strides{4, 1}},
      {{2, 3, 4, 5}, {60, 1, 15, 3}, {2, 3, 20}, Strides{60, 1, 3}},
      {{2, 3, 4, 5}, {60, 1, 15, 3}, {2, 60}, std::nullopt},
      {{2, 3, 4, 5}, {60, 1, 15, 3}, {6, 20}, std::nullopt},
      {{2, 3, 4, 5}, {60, 1, 15, 3}, {2, 3, 2, 2, 5}, Strides{60, 1, 30, 15, 3}},
      {{8}, {3}, {2, 2, 2}, Strides{12, 6, 3}},
      {{8}, {3}, {8, 1, 1}, Strides{3, 3, 3}},
      {{1, 1}, {5, 9}, {}, Strides{}},
      {{}, {}, {1, 1}, Strides{1, 1}},
      {{6, 4}, {8, 1}, {2, 3, 4}, Strides{24, 8, 1}},
      {{6, 4}, {8, 1}, {3, 8}, std::nullopt},
      {{0, 3}, {1, 5}, {3, 0}, Strides{1, 1}},
      {{0, 3}, {1, 5}, {0}, Strides{1}},
  };
  const Tensor base = empty({20000}, {.dtype = kUInt8});
  for (const Case& c : cases) {
    CAPTURE(c.shape.str());
    CAPTURE(c.strides.str());
    CAPTURE(c.wanted.str());
    const auto v = geometry::view(geometry::as_strided(base, c.shape, c.strides, 0), c.wanted);
    REQUIRE(v.has_value() == c.expected.has_value());
    if (v) CHECK(v->strides == *c.expected);
  }
}

TEST_CASE("one size may be inferred") {
  const auto infer = [](const Shape& shape, std::int64_t n) {
    return geometry::infer_shape(shape, n, "view");
  };
  CHECK(infer({2, 3}, 6) == Shape{2, 3});
  CHECK(infer({-1}, 6) == Shape{6});
  CHECK(infer({2, -1}, 6) == Shape{2, 3});
  CHECK(infer({-1, 6}, 6) == Shape{1, 6});
  CHECK(infer({}, 1) == Shape{});
  CHECK(infer({0}, 0) == Shape{0});
  CHECK(infer({-1, 3}, 0) == Shape{0, 3});
  CHECK(message_of<ShapeError>([&] {
          infer({2, 2}, 6);
        }) == "[view] shape [2, 2] has 4 elements, the tensor has 6");
  CHECK(message_of<ShapeError>([&] {
          infer({4, -1}, 6);
        }) == "[view] 6 elements cannot be arranged as [4, -1]");
  CHECK(message_of<ShapeError>([&] {
          infer({0, -1}, 0);
        }) == "[view] 0 elements cannot be arranged as [0, -1]");
  CHECK(message_of<ShapeError>([&] {
          infer({-1, -1}, 6);
        }) == "[view] only one size may be -1, got [-1, -1]");
  CHECK(message_of<ShapeError>([&] {
          infer({-2, 3}, 6);
        }) == "[view] sizes must be 0 or more, or one -1, got [-2, 3]");
  CHECK_THROWS_AS(infer({INT64_MAX, INT64_MAX, -1}, 6), ShapeError);
}

TEST_CASE("views reject invalid arguments") {
  using namespace geometry;
  const Tensor t = iota({2, 3}), scalar = iota({});
  CHECK(message_of<IndexError>([&] { select(t, 1, 3); }) ==
        "[select] index 3 is out of range for dimension 1 of size 3");
  CHECK_THROWS_AS(select(t, 1, -4), IndexError);
  CHECK(message_of<IndexError>([&] { select(t, 2, 0); }) ==
        "[select] dimension 2 is out of range: expected -2 to 1");
  CHECK(message_of<IndexError>([&] { select(scalar, 0, 0); }) ==
        "[select] a 0-dimensional tensor has nothing to index");
  CHECK(message_of<IndexError>([&] { slice(scalar, 0, 0, 1, 1); }) ==
        "[slice] a 0-dimensional tensor has nothing to slice");
  CHECK(message_of<ValueError>([&] { slice(t, 0, 0, 1, 0); }) ==
        "[slice] expected a step above 0, got 0");
  CHECK(message_of<IndexError>([&] { narrow(t, 1, 2, 2); }) ==
        "[narrow] start 2 and length 2 leave dimension 1 of size 3");
  CHECK_THROWS_AS(narrow(t, 1, -4, 1), IndexError);
  CHECK_THROWS_AS(narrow(t, 1, 0, -1), IndexError);
  CHECK_THROWS_AS(narrow(t, 1, 1, INT64_MAX), IndexError);
  CHECK_THROWS_AS(narrow(scalar, 0, 0, 0), IndexError);
  CHECK(message_of<ShapeError>([&] { permute(t, {0}); }) ==
        "[permute] expected 2 dimensions in an order of [2, 3], got [0]");
  CHECK(message_of<ValueError>([&] {
          permute(t, {0, -2});
        }) == "[permute] dimension 0 appears twice in [0, -2]");
  CHECK_THROWS_AS(transpose(t, 0, 2), IndexError);
  CHECK(message_of<ShapeError>([&] { expand(t, {3}); }) ==
        "[expand] [3] has fewer dimensions than [2, 3]");
  CHECK(message_of<ShapeError>([&] {
          expand(t, {4, 3});
        }) ==
        "[expand] [2, 3] does not expand to [4, 3]: size 2 at dimension 0 is neither 4 nor 1");
  CHECK_THROWS_AS(expand(t, {-1, 2, 3}), ShapeError);
  CHECK_THROWS_AS(expand(t, {2, -2}), ShapeError);
  CHECK_THROWS_AS(unsqueeze(t, 3), IndexError);
  CHECK_THROWS_AS(unsqueeze(iota({1, 1, 1, 1, 1, 1, 1, 1}), 0), ShapeError);
  CHECK(message_of<ValueError>([&] { unfold(t, 1, 4, 1); }) ==
        "[unfold] window size 4 does not fit dimension 1 of size 3");
  CHECK(message_of<ValueError>([&] { unfold(t, 1, 2, 0); }) ==
        "[unfold] expected a step above 0, got 0");
  CHECK_THROWS_AS(unfold(t, 1, -1, 1), ValueError);
  CHECK_THROWS_AS(unfold(scalar, 0, 1, 1), IndexError);
}

TEST_CASE("the edges of the number range do not overflow") {
  using namespace geometry;
  const Tensor t = iota({2, 3});
  CHECK(slice(t, 0, INT64_MIN, INT64_MAX, INT64_MAX).shape == Shape{1, 3});
  CHECK(slice(t, 0, 5, INT64_MIN, 1).shape == Shape{0, 3});
  CHECK(unfold(t, 0, 2, INT64_MAX).shape == Shape{1, 3, 2});
  CHECK(apply(t, slice(t, 0, 2, 9, 1)).numel() == 0);
  const Tensor none = empty({3, 0});
  CHECK(apply(none, select(none, 0, 2)).shape() == Shape{0});
  CHECK(apply(none, select(none, 0, 2)).data_ptr() == nullptr);
  CHECK(squeeze(iota({}), -1).shape == Shape{});
  CHECK(transpose(iota({}), 0, -1).shape == Shape{});
  CHECK_THROWS_AS(apply(t, expand(iota({1}), {std::int64_t{1} << 62, 4})), ShapeError);
}

TEST_CASE("whether elements of a view share memory: every small geometry, by enumeration") {
  const Tensor base = empty({64});
  int overlapping = 0, apart = 0;
  for (std::int64_t n0 = 0; n0 < 4; ++n0)
    for (std::int64_t n1 = 1; n1 < 4; ++n1)
      for (std::int64_t n2 = 1; n2 < 4; ++n2)
        for (std::int64_t strides = 0; strides < 343; ++strides) {
          const std::int64_t s0 = strides / 49, s1 = strides / 7 % 7, s2 = strides % 7;
          std::vector<std::int64_t> offsets;
          for (std::int64_t i = 0; i < n0; ++i)
            for (std::int64_t j = 0; j < n1; ++j)
              for (std::int64_t k = 0; k < n2; ++k) offsets.push_back(i * s0 + j * s1 + k * s2);
          std::ranges::sort(offsets);
          const bool expected = std::ranges::adjacent_find(offsets) != offsets.end();
          const Tensor t = geometry::as_strided(base, {n0, n1, n2}, {s0, s1, s2}, 3);
          REQUIRE_MESSAGE(geometry::overlaps_itself(t) == expected, t.shape().str(), " ",
                          t.strides().str());
          ++(expected ? overlapping : apart);
        }
  CHECK(overlapping > 1000);
  CHECK(apart > 1000);
}
