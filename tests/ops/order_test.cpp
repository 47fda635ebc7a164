#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/tests/ops/reduce_util.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;
using autograd::gradcheck;

namespace {

/// The order of `v` as indices; stable.
std::vector<std::size_t> order(const std::vector<double>& v, bool descending) {
  std::vector<std::size_t> index(v.size());
  std::iota(index.begin(), index.end(), std::size_t{0});
  std::stable_sort(index.begin(), index.end(), [&](std::size_t a, std::size_t b) {
    return descending ? v[a] > v[b] : v[a] < v[b];
  });
  return index;
}

/// What sorting `t` along its last dimension gives: values, or places.
std::vector<double> sorted(const Tensor& t, bool descending, bool places, std::size_t k) {
  std::vector<double> result;
  for (const auto& row : groups(t, {-1})) {
    const auto at = order(row, descending);
    for (std::size_t i = 0; i < k; ++i)
      result.push_back(places ? static_cast<double>(at[i]) : row[at[i]]);
  }
  return result;
}

}  // namespace

TEST_CASE("sort, argsort and topk agree with a stable sort for every dtype") {
  for (DType dtype :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool}) {
    CAPTURE(dtype);
    for (std::int64_t n : {1, 2, 9, 40}) {
      const Tensor base = numbers({3, n, 2}, dtype);
      const Tensor last = base.permute({0, 2, 1});  // the sorted dimension last, with gaps
      for (bool descending : {false, true}) {
        const auto [values, indices] = sort(last, -1, descending);
        const std::size_t size = static_cast<std::size_t>(n);
        CHECK(values.dtype() == dtype);
        check_close(values, sorted(last, descending, false, size), 0);
        check_close(indices, sorted(last, descending, true, size), 0);
        // Along the middle dimension of the row-major tensor.
        check_close(sort(base, 1, descending).values.permute({0, 2, 1}), values, 0);
        check_equal(argsort(base, 1, descending).permute({0, 2, 1}), indices);
        for (std::int64_t k = 0; k <= std::min<std::int64_t>(n, 5); ++k) {
          const auto top = topk(base, k, 1, descending);
          const std::size_t count = static_cast<std::size_t>(k);
          check_close(top.values.permute({0, 2, 1}), sorted(last, descending, false, count), 0);
          check_close(top.indices.permute({0, 2, 1}), sorted(last, descending, true, count), 0);
        }
      }
    }
  }
}

TEST_CASE("running sums agree with a reference") {
  for (DType dtype :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool}) {
    CAPTURE(dtype);
    const Tensor base = numbers({2, 300, 3}, dtype);
    for (const Tensor& t : {base, base.permute({2, 0, 1}), base.slice(1, 0, 300, 7)})
      for (int dim = 0; dim < 3; ++dim) {
        const Tensor moved = t.transpose(dim, 2);
        std::vector<double> expected;
        for (const auto& row : groups(moved, {2})) {
          double sum = 0;
          for (double x : row) expected.push_back(sum += x);
        }
        const Tensor out = cumsum(t, dim);
        CHECK(out.dtype() == (is_floating(dtype) ? dtype : kInt64));
        check_close(out.transpose(dim, 2), expected, itemsize(dtype) == 2 ? rounding_of(dtype) : 0);
      }
  }
  check_close(cumsum(full({4}, 1, {.dtype = kInt32}), 0, kFloat64), {1.0, 2.0, 3.0, 4.0}, 0);
  CHECK(cumsum(full({4}, 1, {.dtype = kInt32}), 0, kInt32).dtype() == kInt32);
  check_close(cumsum(full({}, 2.0), 0), {2.0}, 0);
  CHECK(cumsum(empty({0, 2}), 0).shape() == Shape({0, 2}));
  const Tensor tenth = full({1'000'000}, 0.1f);
  check_close(cumsum(tenth, 0).slice(0, 999'999), {static_cast<double>(0.1f) * 1e6}, 1e-6);
}

TEST_CASE("shapes and errors of sort and topk") {
  const Tensor one = full({}, 3.0);
  check_close(sort(one).values, one);
  CHECK(sort(one).indices.item<int>() == 0);
  CHECK(topk(one, 1).values.shape() == Shape());
  CHECK(sort(empty({0, 3}), 0).values.shape() == Shape({0, 3}));
  CHECK(topk(empty({0, 3}), 2).values.shape() == Shape({0, 2}));
  CHECK(message_of<ValueError>([] {
          topk(numbers({2, 3}), 4);
        }) == "[topk] expected k from 0 to 3, the size of dimension 1, got 4");
  CHECK_THROWS_AS(topk(numbers({3}), -1), ValueError);
  CHECK_THROWS_AS(sort(numbers({3}), 1), IndexError);
  CHECK_THROWS_AS(cumsum(numbers({3}), -2), IndexError);
  CHECK_THROWS_AS(sort(Tensor()), ValueError);
}

TEST_CASE("gradients of sort, topk and cumsum") {
  const Tensor x = randn({3, 5, 2}, {.dtype = kFloat64}).set_requires_grad();
  const autograd::GradcheckOptions second{.second_order = true};
  CHECK(gradcheck([](const auto& in) { return sort(in[0] * in[0], 1).values; }, {x}, second));
  CHECK(gradcheck([](const auto& in) { return topk(in[0] * in[0], 2, 1).values; }, {x}, second));
  CHECK(gradcheck([](const auto& in) { return cumsum(in[0] * in[0], 1); }, {x}, second));
}

TEST_CASE("sort, topk and cumsum against PyTorch") {
  const Golden golden("reduce");
  const Tensor x = golden.get("input", "x");
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> functions = {
      {"cumsum", [](const Tensor& t) { return cumsum(t, 1); }},
      {"topk", [](const Tensor& t) { return topk(t, 2, 1).values; }},
      {"sort", [](const Tensor& t) { return sort(t, 2, true).values; }}};
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    check_close(f(x), golden.get(name, "out"), 1e-12);
    check_close(weighted_gradient(f, x), golden.get(name, "grad"), 1e-12);
  }
  const Tensor n = golden.get("nan", "x");
  check_equal(sort(n, 1).values, golden.get("nan", "sort"));
  check_equal(sort(n, 1).indices, golden.get("nan", "sort_at"));
  check_equal(sort(n, 1, true).values, golden.get("nan", "descending"));
  check_equal(sort(n, 1, true).indices, golden.get("nan", "descending_at"));
  check_equal(topk(n, 3, 1).values, golden.get("nan", "topk"));
  check_equal(cumsum(n, 1), golden.get("nan", "cumsum"));
  check_equal(cumsum(golden.get("uint8", "x"), 1), golden.get("uint8", "cumsum"));
}
