// as_strided(), and its gradients as PyTorch 2 computes them.
#include <doctest/doctest.h>

#include <functional>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/error.h"
#include "ferrite/ops/complex.h"
#include "ferrite/tests/autograd/util.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

Tensor counted(std::int64_t n) { return arange(1, n + 1, 1, {.dtype = kFloat64}); }

Tensor weights(const Shape& shape) { return (counted(shape.numel()) / 2 + 0.5).reshape(shape); }

using View = std::function<Tensor(const Tensor&)>;

/// Checks the values of a view, the gradient of its weighted cubes, and that of the sum of squares
/// of that gradient.
void check_view(const char* name, const Tensor& x, const View& view, const Values& wanted,
                const Values& first, const Values& second) {
  CAPTURE(name);
  x.set_requires_grad();
  const Tensor y = view(x);
  CHECK(y.shares_storage(x));
  CHECK(values(y) == wanted);
  const Tensor loss = (weights(y.shape()) * y * y * y).sum();
  const Tensor gradient = grad_of(loss, x, true);
  CHECK(gradient.shape() == x.shape());
  CHECK(values(gradient) == first);
  CHECK(values(grad_of((gradient * gradient).sum(), x)) == second);
}

}  // namespace

TEST_CASE("as_strided() is on the tape") {
  check_view("windows", counted(5),
             [](const Tensor& x) {
               return as_strided(x, {3, 3}, {1, 1});
             },
             {1, 2, 3, 2, 3, 4, 3, 4, 5}, {3, 48, 243, 384, 375},
             {36, 4608, 78732, 147456, 112500});
  check_view("offset", counted(6),
             [](const Tensor& x) {
               return x.as_strided({2, 2}, {2, 1}, 1);
             },
             {2, 3, 4, 5}, {0, 12, 40.5, 96, 187.5, 0}, {0, 288, 2187, 9216, 28125, 0});
  check_view("transposed base", counted(6).reshape({2, 3}),
             [](const Tensor& x) {
               return as_strided(x.t(), {2, 2}, {1, 2}, 1);
             },
             {2, 4, 3, 5}, {0, 12, 54, 72, 187.5, 0}, {0, 288, 3888, 5184, 28125, 0});
  check_view("beyond the columns of the base", counted(8).reshape({2, 4}),
             [](const Tensor& x) { return as_strided(x.slice(1, 1, 4), {3}, {1}, 2); }, {3, 4, 5},
             {0, 0, 27, 72, 0, 0, 0, 0}, {0, 0, 972, 5184, 0, 0, 0, 0});
  check_view("before the base", counted(6),
             [](const Tensor& x) { return as_strided(x.slice(0, 3, 6), {4}, {1}, 1); },
             {2, 3, 4, 5}, {0, 0, 0, 96, 187.5, 0}, {0, 0, 0, 9216, 28125, 0});
  check_view("base with gaps", counted(7),
             [](const Tensor& x) {
               return as_strided(x.slice(0, 0, 7, 2), {2, 2}, {2, 2});
             },
             {1, 3, 3, 5}, {3, 0, 94.5, 0, 187.5, 0, 0}, {36, 0, 11907, 0, 28125, 0, 0});
  check_view("the offset of the base", counted(6),
             [](const Tensor& x) {
               return as_strided(x.slice(0, 2, 6), {2, 2}, {1, 1});
             },
             {3, 4, 4, 5}, {0, 0, 27, 168, 187.5, 0}, {0, 0, 972, 28224, 28125, 0});
  check_view("expanded base", counted(3),
             [](const Tensor& x) {
               return as_strided(x.expand({4, 3}), {2, 3}, {0, 1});
             },
             {1, 2, 3, 1, 2, 3}, {10.5, 54, 148.5}, {441, 5832, 29403});
  check_view("part of an expanded base", counted(3),
             [](const Tensor& x) {
               return as_strided(x.expand({4, 3}), {2}, {2});
             },
             {1, 3}, {3, 0, 40.5}, {36, 0, 2187});
  const Tensor x = counted(5);
  x.set_requires_grad();
  as_strided(x, {0, 3}, {1, 1}).sum().backward();
  CHECK(values(x.grad()) == Values(5, 0));
  CHECK_FALSE(no_grad([&] { return as_strided(x, {2}, {1}); }).requires_grad());
  CHECK_THROWS_AS(as_strided(x, {6}, {1}), ShapeError);
  CHECK_THROWS_AS(as_strided(x, {2}, {1, 1}), ShapeError);
}

TEST_CASE("as_strided() of complex and 16-bit numbers has gradients") {
  const Tensor z = complex(counted(4), counted(4) * -2);
  z.set_requires_grad();
  real(as_strided(z, {2, 3}, {1, 1})).sum().backward();
  CHECK(values(real(z.grad())) == Values{1, 2, 2, 1});
  const Tensor h = counted(3).to(kBFloat16);
  h.set_requires_grad();
  as_strided(h, {400, 3}, {0, 1}).sum().backward();
  CHECK(values(h.grad()) == Values{400, 400, 400});
}

TEST_CASE("changes in place of what as_strided() gives, and of its base") {
  const Tensor x = leaf({1, 2, 3, 4, 5});
  {
    const Tensor y = x * 1;
    as_strided(y, {2}, {3}, 1).mul_(from_vector<double>({3, 5}, {2}));
    CHECK(values(y) == Values{1, 6, 3, 4, 25});
    CHECK(values(grad_of((weights({5}) * y * y).sum(), x)) == Values{2, 54, 12, 20, 750});
  }
  {
    const Tensor y = x * 1, view = as_strided(y, {3, 3}, {1, 1});
    y.mul_(from_vector<double>({3, 5, 7, 9, 11}, {5}));
    CHECK(values(grad_of((weights({3, 3}) * view * view).sum(), x)) ==
          Values{18, 400, 2646, 5184, 6050});
    CHECK_THROWS_AS(view.mul_(2), ValueError);
  }
  const Tensor six = leaf({1, 2, 3, 4, 5, 6});
  const Tensor y = six * 1, view = as_strided(y.slice(0, 1, 6), {2, 2}, {2, 1});
  y.mul_(2);
  view[0].mul_(3);
  CHECK(values(y) == Values{2, 12, 18, 8, 10, 12});
  CHECK(values(grad_of((weights({2, 2}) * view * view).sum() + y.sum(), six)) ==
        Values{2, 150, 330, 66, 102, 2});
  CHECK_THROWS_AS(as_strided(x, {2}, {1}).mul_(2), AutogradError);
}
