// The in-place forms of ops/arithmetic.h.
#include <doctest/doctest.h>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/ops/arithmetic_util.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("in-place forms change the tensor and return it") {
  const Tensor t = iota({2, 2});
  const void* data = t.data_ptr();
  CHECK(t.add_(iota({2})).is_same(t));
  check_close(t, {0, 2, 2, 4}, 0);
  t.sub_(full({2, 1}, 1), 2);
  check_close(t, {-2, 0, 0, 2}, 0);
  t.mul_(iota({2, 2}));
  check_close(t, {0, 0, 0, 6}, 0);
  t.div_(full({}, 4));
  check_close(t, {0, 0, 0, 1.5}, 0);
  t.add_(1).mul_(2).sub_(3).div_(0.5);
  check_close(t, {-2, -2, -2, 4}, 0);
  t += 1;
  t -= full({2}, 1);
  t *= 2;
  t /= full({2}, 2);
  check_close(t, {-2, -2, -2, 4}, 0);
  CHECK(t.data_ptr() == data);
  CHECK(t.version() == 12);
}

TEST_CASE("in-place on every layout") {
  for (const Tensor& t :
       {iota({3, 4}).transpose(0, 1), iota({3, 8}).slice(1, 1, 8, 2), iota({5, 4})[2],
        iota({2, 3, 4, 5}).contiguous(kChannelsLast), iota({}), iota({0, 2})}) {
    auto expected = t.to_vector<double>();
    for (double& v : expected) v = (v + 1) * 2 - v * 0.5;
    const Tensor before = t.clone();
    t.add_(1).mul_(2).sub_(before, 0.5);
    check_close(t, expected, 0);
  }
}

TEST_CASE("only the elements of a view change") {
  const Tensor base = iota({3, 4});
  base.slice(1, 1, 4, 2).add_(100);
  check_close(base, {0, 101, 2, 103, 4, 105, 6, 107, 8, 109, 10, 111}, 0);
}

TEST_CASE("the other operand may share memory with the one that changes") {
  // As if it had been cloned first, however the two lie over each other.
  Tensor t = iota({3, 3});
  t.add_(t.transpose(0, 1));
  check_close(t, {0, 4, 8, 4, 8, 12, 8, 12, 16}, 0);
  t = iota({6});
  t.slice(0, 1, 6).add_(t.slice(0, 0, 5));
  check_close(t, {0, 1, 3, 5, 7, 9}, 0);
  t = iota({6});
  t.slice(0, 0, 5).sub_(t.slice(0, 1, 6));
  check_close(t, {-1, -1, -1, -1, -1, 5}, 0);
  t = iota({2, 3}) + 1;
  t.div_(t[0]);
  check_close(t, {1, 1, 1, 4, 2.5, 2}, 0);
  t = iota({2, 3}) + 1;
  t.mul_(t.select(1, 2).unsqueeze(1));
  check_close(t, {3, 6, 9, 24, 30, 36}, 0);
  t = full({70000}, 1);
  t.slice(0, 1, 70000).add_(t.slice(0, 0, 69999));
  check_close(t.sum(), {1 + 2 * 69999}, 0);
  // The very same elements.
  t = iota({4});
  t.add_(t).mul_(t.view({4})).div_(t.slice(0, 0, 4));
  check_close(t, {NAN, 1, 1, 1}, 0);
}

TEST_CASE("the dtype stays; the result must be of no higher category") {
  const Tensor ints = iota<std::int32_t>({2});
  CHECK_THROWS_WITH_AS(ints.add_(1.5),
                       "[add_] the result is float32, which cannot be stored in place in int32",
                       DTypeError);
  CHECK_THROWS_AS(ints.mul_(iota({2})), DTypeError);
  CHECK_THROWS_AS(ints.div_(2), DTypeError);
  CHECK_THROWS_AS(ints.div_(ints), DTypeError);
  const Tensor flags = full({2}, true, {.dtype = kBool});
  CHECK_THROWS_AS(flags.add_(1), DTypeError);
  CHECK_THROWS_AS(flags.add_(ints), DTypeError);
  flags.mul_(false);
  check_close(flags, {0, 0}, 0);
  // Narrower types of the same category take what a wider one computes.
  const Tensor small = full({1}, 250, {.dtype = kUInt8});
  small.add_(full({1}, 1000, {.dtype = kInt64}));
  CHECK(small.item<int>() == 1250 % 256);
  // One rounding, from the wider type: 1 + 2^-11 + 2^-23 is above the middle of two halves.
  const Tensor half = full({1}, 1, {.dtype = kFloat16});
  half.add_(full({1}, 0x1p-11 + 0x1p-23));
  CHECK(half.item<double>() == 1 + 0x1p-10);
}

TEST_CASE("the shape stays") {
  CHECK_THROWS_AS(iota({3}).add_(iota({2, 3})), ShapeError);
  CHECK_THROWS_AS(iota({1}).mul_(iota({3})), ShapeError);
  CHECK_THROWS_AS(iota({}).mul_(iota({1})), ShapeError);
  CHECK_THROWS_AS(iota({2, 3}).sub_(iota({2})), ShapeError);
}

TEST_CASE("expanded tensors cannot be changed") {
  CHECK_THROWS_AS(iota({3}).expand({2, 3}).add_(1), ValueError);
  CHECK_THROWS_AS(iota({3}).expand({2, 3}).mul_(iota({3})), ValueError);
  iota({3}).expand({1, 3}).add_(1);
}

TEST_CASE("a leaf that requires a gradient cannot be changed while recording") {
  const Tensor leaf = iota({3}).set_requires_grad();
  CHECK_THROWS_AS(leaf.add_(1), AutogradError);
  CHECK_THROWS_AS(leaf.mul_(iota({3})), AutogradError);
  CHECK_THROWS_AS(leaf.slice(0, 0, 2).div_(2), AutogradError);
  NoGradGuard guard;
  leaf.add_(1);
  check_close(leaf, {1, 2, 3}, 0);
}

// ---- Gradients

namespace {

Tensor random_leaf(const Shape& shape, Generator& random) {
  Tensor t = empty(shape, {.dtype = kFloat64});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<double>()[i] = (random.next_below(2) ? 1 : -1) * (0.5 + random.next_double());
  return t.set_requires_grad();
}

}  // namespace

TEST_CASE("gradients of in-place forms to the second order") {
  Generator random(3);
  using Function = void (*)(const Tensor& t, const Tensor& b);
  const Function functions[] = {
      [](const Tensor& t, const Tensor& b) { t.add_(b); },
      [](const Tensor& t, const Tensor& b) { t.add_(b, 2.5); },
      [](const Tensor& t, const Tensor& b) { t.sub_(b); },
      [](const Tensor& t, const Tensor& b) { t.sub_(b, 3); },
      [](const Tensor& t, const Tensor& b) { t.mul_(b); },
      [](const Tensor& t, const Tensor& b) { t.div_(b); },
      [](const Tensor& t, const Tensor& b) { t.mul_(2).add_(b).div_(4).sub_(1).mul_(b); },
      [](const Tensor& t, const Tensor& b) { t.mul_(t).add_(b); },
      [](const Tensor& t, const Tensor& b) { t.add_(t).mul_(b * b); },
      [](const Tensor& t, const Tensor& b) { t.div_(t).add_(b); },
      [](const Tensor& t, const Tensor& b) { t.mul_(t.slice(0, 0, 1)).mul_(b); },
      [](const Tensor& t, const Tensor& b) { t.mul_(b).slice(0, 1, 2).mul_(t.slice(0, 0, 1)); },
      [](const Tensor& t, const Tensor& b) { t.add_(b).slice(0, 0, 1).div_(t[1]); },
  };
  for (const Shape& shape : {Shape{3}, Shape{1}, Shape{}})
    for (std::size_t i = 0; i < std::size(functions); ++i) {
      CAPTURE(i);
      CHECK(autograd::gradcheck(
          [&](const std::vector<Tensor>& in) {
            const Tensor t = in[0] * 1;
            functions[i](t, in[1]);
            return t * t;
          },
          {random_leaf({2, 3}, random), random_leaf(shape, random)}, {.second_order = true}));
    }
}

TEST_CASE("a gradient into a tensor that required none before") {
  const Tensor target = full({2}, 3), x = full({2}, 2).set_requires_grad();
  target.mul_(x);
  CHECK(target.requires_grad());
  CHECK(target.grad_fn_name() == "mul_");
  target.sum().backward();
  check_close(x.grad(), {3, 3}, 0);
}

TEST_CASE("mixed dtypes: gradients have the operands' dtypes") {
  const Tensor x = full({2}, 2).set_requires_grad();
  const Tensor y = full({2}, 3, {.dtype = kFloat64}).set_requires_grad();
  for (int which : {0, 1}) {
    const Tensor t = x * 1;
    which == 0 ? t.mul_(y) : t.div_(y);
    CHECK(t.dtype() == kFloat32);
    x.set_grad({});
    y.set_grad({});
    t.sum().backward();
    CHECK(x.grad().dtype() == kFloat32);
    CHECK(y.grad().dtype() == kFloat64);
    check_close(x.grad(), std::vector<double>(2, which == 0 ? 3 : 1 / 3.0), 1e-6);
    check_close(y.grad(), std::vector<double>(2, which == 0 ? 2 : -2 / 9.0), 1e-6);
  }
}

TEST_CASE("an operand that is changed after its value was saved is found out") {
  const Tensor x = full({2}, 2).set_requires_grad(), y = full({2}, 3);
  const Tensor t = x * 1;
  t.mul_(y);
  y.add_(1);
  CHECK_THROWS_AS(t.sum().backward(), AutogradError);
  // sub_ is called by its own name.
  const Tensor z = x * y;
  y.sub_(y);
  try {
    z.sum().backward();
    FAIL("no error");
  } catch (const AutogradError& e) {
    CHECK(std::string(e.what()).find("sub_") != std::string::npos);
  }
}
