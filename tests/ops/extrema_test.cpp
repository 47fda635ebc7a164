#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/tests/ops/reduce_util.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;
using autograd::gradcheck;

namespace {

double highest(const std::vector<double>& v) { return *std::max_element(v.begin(), v.end()); }
double lowest(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }
double first_highest(const std::vector<double>& v) {
  return static_cast<double>(std::max_element(v.begin(), v.end()) - v.begin());
}
double first_lowest(const std::vector<double>& v) {
  return static_cast<double>(std::min_element(v.begin(), v.end()) - v.begin());
}

const std::vector<DType> kAll = {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64,
                                 kInt32,   kInt16,   kInt8,    kUInt8,    kBool};

}  // namespace

TEST_CASE("extrema agree with a reference for every dtype, layout and dimension") {
  for (DType dtype : kAll) {
    CAPTURE(dtype);
    const Tensor base = numbers({3, 5, 4, 7}, dtype);
    for (const Tensor& t : {base, base.contiguous(kChannelsLast), base.permute({3, 1, 0, 2}),
                            base.slice(3, 0, 7, 2)}) {
      CAPTURE(t.strides().str());
      for (int dim = 0; dim < 4; ++dim) {
        CAPTURE(dim);
        const auto [values, indices] = max(t, dim);
        CHECK(values.dtype() == dtype);
        CHECK(indices.dtype() == kInt64);
        check_close(values, reference(t, {dim}, highest), 0);
        check_close(indices, reference(t, {dim}, first_highest), 0);
        check_close(min(t, dim).values, reference(t, {dim}, lowest), 0);
        check_close(min(t, dim, true).indices, reference(t, {dim}, first_lowest), 0);
        check_close(argmax(t, dim), reference(t, {dim}, first_highest), 0);
        check_close(argmin(t, dim - 4, true), reference(t, {dim}, first_lowest), 0);
      }
      for (const Shape& dims : std::vector<Shape>{{}, {0, 2}, {1, 3}, {0, 2, 3}}) {
        check_close(amax(t, dims), reference(t, dims, highest), 0);
        check_close(amin(t, dims, true), reference(t, dims, lowest), 0);
      }
      check_close(max(t), reference(t, {}, highest), 0);
      check_close(min(t), reference(t, {}, lowest), 0);
      check_close(argmax(t), reference(t, {}, first_highest), 0);
      check_close(argmin(t, {}, true), reference(t, {}, first_lowest), 0);
    }
  }
}

TEST_CASE("extrema of long rows and columns") {
  for (std::int64_t n : {1, 31, 32, 1023, 1024, 1025, 5000}) {
    CAPTURE(n);
    const Tensor t = randn({3, n});
    check_close(argmax(t, 1), reference(t, {1}, first_highest), 0);
    check_close(max(t.t(), 0).indices, reference(t, {1}, first_highest), 0);
    check_close(argmin(t.slice(1, 0, n, 3), 1), reference(t.slice(1, 0, n, 3), {1}, first_lowest),
                0);
    check_close(amin(t, {1}), reference(t, {1}, lowest), 0);
  }
}

TEST_CASE("shapes of extrema") {
  const Tensor t = numbers({3, 1, 4});
  CHECK(max(t, 1).values.shape() == Shape({3, 4}));
  CHECK(max(t, 1, true).indices.shape() == Shape({3, 1, 4}));
  CHECK(argmax(t, {}, true).shape() == Shape({1, 1, 1}));
  CHECK(amax(t, {0, 2}, true).shape() == Shape({1, 1, 1}));
  CHECK(max(empty({0, 3}), 1).values.shape() == Shape({0}));
  const Tensor one = full({}, 2.0);
  CHECK(max(one, 0).indices.item<int>() == 0);
  CHECK(max(one, -1).values.shape() == Shape());
  CHECK(argmax(one).item<int>() == 0);
  check_close(one.max(), one);
  check_close(one.min(), one);
  CHECK(t.argmax(2).shape() == Shape({3, 1}));
  CHECK(t.argmin().shape() == Shape());
}

TEST_CASE("bad arguments to extrema") {
  const Tensor nothing = empty({2, 0});
  CHECK(message_of<ValueError>([&] { max(nothing); }) ==
        "[max] float32[2, 0] on cpu has no elements to choose from");
  CHECK(message_of<ValueError>([&] { min(nothing, 1); }) ==
        "[min] dimension 1 of float32[2, 0] on cpu has no elements");
  CHECK_THROWS_AS(argmax(nothing), ValueError);
  CHECK_THROWS_AS(amax(nothing, {1}), ValueError);
  CHECK(amax(nothing, {0}).shape() == Shape({0}));
  CHECK_THROWS_AS(max(numbers({2}), 1), IndexError);
  CHECK_THROWS_AS(argmin(full({}, 1.0), 1), IndexError);
  CHECK_THROWS_AS(max(Tensor()), ValueError);
  CHECK_THROWS_AS(argmax(Tensor()), ValueError);
}

TEST_CASE("gradients of extrema") {
  // Distinct numbers, so that differences do not cross a tie.
  const Tensor x = randn({3, 4, 2}, {.dtype = kFloat64}).set_requires_grad();
  const autograd::GradcheckOptions second{.second_order = true};
  CHECK(gradcheck([](const auto& in) { return max(in[0]) * 2; }, {x}));
  CHECK(gradcheck([](const auto& in) { return min(in[0] * in[0], 1).values; }, {x}, second));
  CHECK(gradcheck([](const auto& in) { return max(in[0] * in[0], 2, true).values; }, {x}, second));
  CHECK(gradcheck([](const auto& in) { return amax(in[0] * in[0], {0, 2}); }, {x}, second));
  CHECK(gradcheck([](const auto& in) { return amin(in[0], {1}, true); }, {x}));
}

TEST_CASE("extrema against PyTorch") {
  const Golden golden("reduce");
  const Tensor x = golden.get("input", "x");
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> functions = {
      {"amax",
       [](const Tensor& t) {
         return amax(t, {0, 2});
       }},
      {"amin", [](const Tensor& t) { return amin(t, {1}); }},
      {"max_dim", [](const Tensor& t) { return max(t, 1).values; }},
      {"min_dim", [](const Tensor& t) { return min(t, 2).values; }},
      {"max_all", [](const Tensor& t) { return max(t); }}};
  for (const auto& [name, f] : functions) {
    CAPTURE(name);
    check_equal(f(x), golden.get(name, "out"));
    check_close(weighted_gradient(f, x), golden.get(name, "grad"));
  }
  const Tensor ties = golden.get("ties", "x");
  check_close(weighted_gradient([](const Tensor& t) { return amax(t, {1}); }, ties),
              golden.get("ties_amax", "grad"));
  check_close(weighted_gradient([](const Tensor& t) { return amin(t, {1}); }, ties),
              golden.get("ties_amin", "grad"));
  check_close(weighted_gradient([](const Tensor& t) { return max(t); }, ties),
              golden.get("ties_max_all", "grad"));
  const Tensor n = golden.get("nan", "x");
  check_equal(amax(n, {1}), golden.get("nan", "amax"));
  check_equal(amin(n, {1}), golden.get("nan", "amin"));
  check_equal(max(n, 1).values, golden.get("nan", "max"));
  check_equal(max(n, 1).indices, golden.get("nan", "max_at"));
  check_equal(min(n, 1).values, golden.get("nan", "min"));
  check_equal(min(n, 1).indices, golden.get("nan", "min_at"));
  check_equal(argmax(n), golden.get("nan", "argmax"));
  // Columns are another path.
  check_equal(max(n.t().contiguous(), 0).indices, golden.get("nan", "max_at"));
  check_equal(amin(n.t().contiguous(), {0}), golden.get("nan", "amin"));
  check_equal(max(golden.get("uint8", "x"), 1).values, golden.get("uint8", "max"));
}
