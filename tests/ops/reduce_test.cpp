#include "ferrite/ops/reduce.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/core/stream.h"
#include "ferrite/tests/ops/reduce_util.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;
using autograd::gradcheck;

TEST_CASE("sum and mean agree with a float64 reference for every dtype and choice of dimensions") {
  const std::vector<Shape> lists = {{},     {0},    {1},    {2},       {3},       {0, 1},
                                    {2, 3}, {0, 2}, {1, 3}, {0, 2, 3}, {1, 2, 3}, {-1, -4}};
  for (DType dtype :
       {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool}) {
    CAPTURE(dtype);
    const Tensor base = numbers({3, 5, 4, 7}, dtype);
    // Row-major, channels-last, transposed, sliced with gaps, and expanded.
    const std::vector<Tensor> layouts = {base, base.contiguous(kChannelsLast),
                                         base.permute({3, 1, 0, 2}), base.slice(3, 0, 7, 2),
                                         base.select(1, 2).unsqueeze(1).expand({3, 6, 4, 7})};
    for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
      CAPTURE(layout);
      const Tensor& t = layouts[layout];
      for (const Shape& dims : lists) {
        CAPTURE(dims.str());
        const Tensor s = sum(t, dims);
        CHECK(s.dtype() == (is_floating(dtype) ? dtype : kInt64));
        // Sums of multiples of 1/64 are exact until they are rounded to 16 bits.
        const double rounding = itemsize(s.dtype()) == 2 ? rounding_of(dtype) : 0;
        check_close(s, reference(t, dims, total), rounding);
        check_close(sum(t, dims, true).reshape(s.shape()), s);
        const auto average = [](const auto& v) { return total(v) / static_cast<double>(v.size()); };
        if (is_floating(dtype))
          check_close(mean(t, dims), reference(t, dims, average), rounding_of(dtype), 1e-7);
        else
          check_close(mean(t, dims, false, kFloat32), reference(t, dims, average), 1e-6);
      }
    }
  }
}

TEST_CASE("sums of sizes around the blocks of the kernel") {
  for (std::int64_t n : {1, 15, 16, 17, 31, 33, 255, 257, 1023, 1025, 4097, 65537, 200001}) {
    CAPTURE(n);
    const Tensor t = numbers({n}, kFloat32);
    check_close(sum(t), reference(t, {}, total), 0);
    check_close(sum(t.slice(0, 0, n, 2)), reference(t.slice(0, 0, n, 2), {}, total), 0);
    for (std::int64_t c : {1, 3, 10, 127, 128, 129, 300}) {
      if (n * c > 400000) continue;
      const Tensor m = numbers({n, c}, kFloat32);
      check_close(sum(m, {0}), reference(m, {0}, total), 0);
      check_close(sum(m, {1}), reference(m, {1}, total), 0);
    }
  }
}

TEST_CASE("float32 sums keep five digits over ten million elements of one sign") {
  const std::int64_t n = 10'000'000;
  const Tensor t = full({n}, 0.1f);
  check_close(sum(t), {static_cast<double>(0.1f) * n}, 1e-6);
  check_close(mean(t), {static_cast<double>(0.1f)}, 1e-6);
  check_close(sum(t.reshape({n / 10, 10}), {0}),
              std::vector<double>(10, static_cast<double>(0.1f) * n / 10), 1e-6);
  // 16-bit sums run in float32: ones would stop at 2048 in float16.
  check_close(sum(ones({100000}, {.dtype = kFloat16}), {}, false, kFloat32), {100000.0}, 0);
  check_close(mean(full({100000}, 0.5f, {.dtype = kFloat16})), {0.5}, 0);
}

TEST_CASE("sums do not depend on the number of threads") {
  const int before = num_threads();
  const Tensor t = randn({300, 1000});
  std::vector<Tensor> results[2];
  for (int round : {0, 1}) {
    set_num_threads(round ? 4 : 1);
    for (const Shape& dims : std::vector<Shape>{{}, {0}, {1}})
      results[round].push_back(sum(t, dims));
    results[round].push_back(sum(t.reshape({10, 30, 100, 10}), {0, 2, 3}));
    results[round].push_back(sum(t.reshape({30000, 10}), {0}));
  }
  set_num_threads(before);
  for (std::size_t i = 0; i < results[0].size(); ++i) check_equal(results[1][i], results[0][i]);
}

TEST_CASE("empty and 0-dimensional tensors") {
  check_close(sum(empty({0, 3})), {0.0});
  check_close(sum(empty({0, 3}), {0}), {0.0, 0.0, 0.0});
  CHECK(sum(empty({0, 3}), {1}).shape() == Shape({0}));
  check_close(mean(empty({0, 2}), {0}), {NAN, NAN});
  check_close(mean(empty({0})), {NAN});
  const Tensor one = full({}, 2.5);
  check_close(sum(one), one);
  check_close(sum(one, {0}), one);
  check_close(mean(one, {-1}, true), one);
  check_close(sum(full({1, 1}, 3.0), {1}), {3.0});
}

TEST_CASE("dtype of the result") {
  const Tensor i = numbers({2, 3}, kInt32);
  CHECK(sum(i, kInt32).dtype() == kInt32);
  CHECK(sum(i, kFloat64).dtype() == kFloat64);
  check_close(sum(i, {0}, false, kFloat64), reference(i, {0}, total));
  CHECK(mean(i, kFloat16).dtype() == kFloat16);
  const Tensor h = numbers({4, 3}, kFloat16);
  CHECK(sum(h, {0}, false, kFloat32).dtype() == kFloat32);
  // The gradient comes back in the input's dtype.
  const Tensor leaf = h.detach().set_requires_grad();
  sum(leaf, kFloat32).backward();
  check_equal(leaf.grad(), ones({4, 3}, {.dtype = kFloat16}));
}

TEST_CASE("sum_to undoes a broadcast") {
  const Tensor t = numbers({4, 3, 5});
  check_close(sum_to(t, {3, 5}), sum(t, {0}));
  check_close(sum_to(t, {1, 5}), sum(t, {0, 1}).unsqueeze(0));
  check_close(sum_to(t, {4, 1, 1}), sum(t, {1, 2}, true));
  check_close(sum_to(t, {}), sum(t));
  CHECK(sum_to(t, {4, 3, 5}).is_same(t));
  CHECK(message_of<ShapeError>([&] {
          sum_to(t, {2, 5});
        }) == "[sum_to] float64[4, 3, 5] on cpu is no broadcast of the shape [2, 5]");
  CHECK_THROWS_AS(sum_to(t, {1, 4, 3, 5}), ShapeError);
}

TEST_CASE("gradients of sum, mean and sum_to") {
  const Tensor x = numbers({3, 4, 2}).set_requires_grad();
  for (const Shape& dims : std::vector<Shape>{{}, {1}, {0, 2}})
    for (bool keepdim : {false, true}) {
      CHECK(gradcheck([&](const auto& in) { return sum(in[0] * in[0], dims, keepdim); }, {x},
                      {.second_order = true}));
      CHECK(gradcheck([&](const auto& in) { return mean(in[0] * in[0], dims, keepdim); }, {x},
                      {.second_order = true}));
    }
  CHECK(gradcheck(
      [&](const auto& in) {
        return sum_to(in[0] * in[0], {4, 1});
      },
      {x}, {.second_order = true}));
  const Tensor strided = numbers({4, 3}).t().set_requires_grad();
  CHECK(gradcheck([](const auto& in) { return in[0].sum({1}); }, {strided}));
}

TEST_CASE("the method forms") {
  const Tensor t = numbers({3, 4});
  check_close(t.sum(), sum(t));
  check_close(t.sum({1}, true), sum(t, {1}, true));
  check_close(t.mean(), mean(t));
  check_close(t.mean({0}), mean(t, {0}));
}

TEST_CASE("one dimension as a plain number") {
  const Tensor x = numbers({3, 4, 5}, kFloat32);
  check_equal(x.sum(1), x.sum({1}));
  check_equal(sum(x, -1, true), sum(x, {-1}, true));
  check_equal(mean(x, 0), mean(x, {0}));
}

TEST_CASE("bad arguments to sum and mean") {
  const Tensor t = numbers({3, 4}, kFloat32);
  CHECK_THROWS_AS(sum(t, {2}), IndexError);
  CHECK_THROWS_AS(sum(t, {-3}), IndexError);
  CHECK(message_of<ValueError>([&] {
          sum(t, {1, -1});
        }) == "[sum] dimension 1 is given twice in [1, -1]");
  CHECK(message_of<DTypeError>([] { mean(numbers({2}, kInt64)); }) ==
        "[mean] expected a floating type, got int64; give one, as in mean(t, kFloat32)");
  CHECK_THROWS_AS(sum(Tensor()), ValueError);
}

TEST_CASE("a virtual device") {
  const Tensor t = numbers({300, 70}, kFloat32);
  const Tensor far = sum(t.to(Device("cpu:1")), {0});
  CHECK(far.device() == Device("cpu:1"));
  check_equal(far.cpu(), sum(t, {0}));
}

TEST_CASE("sum, mean and integers against PyTorch") {
  const Golden golden("reduce");
  const Tensor x = golden.get("input", "x");
  check_close(sum(x, {0, 2}), golden.get("sum", "out"), 1e-12, 1e-14);
  check_close(mean(x, {1, 2}, true), golden.get("mean", "out"), 1e-12, 1e-14);
  check_close(weighted_gradient(
                  [](const Tensor& t) {
                    return sum(t, {0, 2});
                  },
                  x),
              golden.get("sum", "grad"));
  check_close(weighted_gradient(
                  [](const Tensor& t) {
                    return mean(t, {1, 2}, true);
                  },
                  x),
              golden.get("mean", "grad"));
  check_equal(sum(golden.get("uint8", "x"), {1}), golden.get("uint8", "sum"));
  check_equal(sum(golden.get("bool", "x"), {0}), golden.get("bool", "sum"));
  const Tensor h = golden.get("half", "x");
  check_close(sum(h, {0}), golden.get("half", "sum"), 1e-3);
  check_close(sum(h, {1}, false, kFloat32), golden.get("half", "sum32"), 1e-5, 1e-6);
  check_close(mean(h), golden.get("half", "mean"), 1e-3);
  check_equal(sum(golden.get("nan", "x"), {1}), golden.get("nan", "sum"));
}
