// In-place changes: how the tape handles them, and which it refuses. The values of views are
// PyTorch's.
#include <doctest/doctest.h>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/tests/autograd/util.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("leaves that require a gradient cannot be changed while recording") {
  const Tensor x = leaf({1, 2});
  CHECK_THROWS_AS(x.add_(1), AutogradError);
  CHECK_THROWS_AS(x.select(0, 1).mul_(2), AutogradError);
  CHECK_THROWS_AS(x.zero_(), AutogradError);
  CHECK(values(x) == Values{1, 2});
  no_grad([&] { x.add_(1); });
  CHECK(values(x) == Values{2, 3});
  CHECK_THROWS_AS(ones({1}).expand({3}).add_(1), ValueError);
}

TEST_CASE("a saved tensor that was changed in place is an error that names both operations") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const Tensor h = x * 2;
  const Tensor y = h * w;  // saves h
  h.add_(1);
  CHECK_THROWS_WITH_AS(sum(y).backward(), doctest::Contains("[mul]"), AutogradError);
  const Tensor h2 = x * 2;
  const Tensor y2 = h2 * w;
  h2.add_(1);
  CHECK_THROWS_WITH_AS(sum(y2).backward(), doctest::Contains("add_"), AutogradError);
}

TEST_CASE("changes that nothing saved needs are fine") {
  const Tensor x = leaf({1, 2});
  const Tensor h = x * 2;
  const Tensor y = h + 1;  // saves nothing
  h.mul_(10);
  sum(y + h).backward();
  CHECK(values(x.grad()) == Values{22, 22});
}

TEST_CASE("a change through a view, or of the base, invalidates tensors saved from either") {
  const Tensor w = leaf({3, 4});
  const Tensor base = w * 1;
  const Tensor y = base * w;
  base.select(0, 0).add_(1);
  CHECK_THROWS_AS(sum(y).backward(), AutogradError);
  const Tensor detached_base = w * 1, z = detached_base * w;
  detached_base.detach().add_(1);
  CHECK_THROWS_AS(sum(z).backward(), AutogradError);
}

TEST_CASE("in-place operations on tensors that are not leaves") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  Tensor h = x * 2;
  h.mul_(w).add_(x).div_(2);
  CHECK(h.grad_fn_name() == "div_");
  sum(h).backward();
  CHECK(values(x.grad()) == Values{3.5, 4.5});
  CHECK(values(w.grad()) == Values{1, 2});
}

TEST_CASE("a tensor becomes part of the graph through values written into it") {
  const Tensor w = leaf({3, 4});
  Tensor buffer = zeros({3, 2}, {.dtype = kFloat64});
  buffer.select(0, 1).add_(w);
  CHECK(buffer.requires_grad());
  CHECK_FALSE(buffer.is_leaf());
  sum(buffer * buffer).backward();
  CHECK(values(w.grad()) == Values{6, 8});
}

TEST_CASE("changes through views reach the base's gradient") {
  // x -> base = 2x; base[1] *= 10; sum(base * [1, 2, 3])
  const Tensor x = leaf({1, 2, 3});
  const Tensor base = x * 2;
  base.select(0, 1).mul_(10);
  CHECK(values(base) == Values{2, 40, 6});
  sum(base * from_vector<double>({1, 2, 3}, {3})).backward();
  CHECK(values(x.grad()) == Values{2, 40, 6});
}

TEST_CASE("a view made before its base was changed follows it") {
  const Tensor x = leaf({1, 2, 3});
  const Tensor base = x * 2;
  const Tensor view = base.slice(0, 1);
  base.mul_(x);  // base = 2 x^2
  sum(view).backward();
  CHECK(values(x.grad()) == Values{0, 8, 12});
}

TEST_CASE("views of which elements share memory, of a base that is changed afterwards") {
  for (const DType dtype : {kFloat64, kFloat32, kBFloat16}) {
    CAPTURE(dtype);
    const Tensor x = leaf({1, 2, 3, 4}).detach().to(dtype).set_requires_grad();
    const Tensor base = x * 1;
    const Tensor expanded = base.expand({3, 4}), windows = base.unfold(0, 3, 1);
    base.mul_(2);
    SUBCASE("expand") {
      sum(expanded).backward();
      CHECK(x.grad().to(kFloat64).to_vector<double>() == Values{6, 6, 6, 6});
    }
    SUBCASE("unfold") {
      sum(windows).backward();
      CHECK(x.grad().to(kFloat64).to_vector<double>() == Values{2, 4, 4, 2});
    }
    SUBCASE("both") {
      sum(windows.expand({2, 2, 3})).backward();
      CHECK(x.grad().to(kFloat64).to_vector<double>() == Values{4, 8, 8, 4});
    }
    x.set_grad({});
  }
  const Tensor x = leaf({1, 2});
  const Tensor base = x * 1, expanded = base.expand({3, 2});
  base.mul_(x);
  const Tensor slope = grad_of(sum(expanded * expanded), x, true);  // 3 x^4
  CHECK(values(slope) == Values{12, 96});
  CHECK(values(grad_of(sum(slope), x)) == Values{36, 144});
  const Tensor z = view_as_complex(leaf({1, 2, 3, 4}).detach().view({2, 2})).set_requires_grad();
  const Tensor numbers = z * 1, repeated = numbers.expand({3, 2});
  numbers.mul_(2);
  sum(view_as_real(repeated)).backward();
  CHECK(values(view_as_real(z.grad()).flatten()) == Values{6, 6, 6, 6});
}

TEST_CASE("overlapping views, changed in turn") {
  // b = 2x; b[0:2] *= 3; b[1:3] *= 5: gradients 6, 30, 10.
  const Tensor x = leaf({1, 1, 1});
  const Tensor b = x * 2;
  const Tensor left = b.narrow(0, 0, 2), right = b.narrow(0, 1, 2);
  left.mul_(3);
  right.mul_(5);
  CHECK(values(b) == Values{6, 30, 10});
  CHECK(values(left) == Values{6, 30});
  sum(left).backward({}, true);
  CHECK(values(x.grad()) == Values{6, 30, 0});
  x.set_grad({});
  sum(b).backward();
  CHECK(values(x.grad()) == Values{6, 30, 10});
}

TEST_CASE("views of views, transposed") {
  Tensor x = from_vector<double>({1, 2, 3, 4, 5, 6}, {2, 3});
  x.set_requires_grad();
  const Tensor w = leaf({10, 20});
  const Tensor base = x * 1;
  base.t().select(0, 1).mul_(w);  // column 1
  CHECK(values(base) == Values{1, 20, 3, 4, 100, 6});
  sum(base * base).backward();
  CHECK(values(x.grad()) == Values{2, 400, 6, 8, 4000, 12});
  CHECK(values(w.grad()) == Values{2 * 20 * 2, 2 * 100 * 5});
}

TEST_CASE("a channels-last base changed through a view") {
  Tensor x = ones({1, 2, 2, 2}, {.dtype = kFloat64, .memory_format = kChannelsLast});
  x.set_requires_grad();
  const Tensor base = x * 1;
  base.select(1, 0).mul_(3);
  sum(base).backward();
  CHECK(values(x.grad()) == Values{3, 3, 3, 3, 1, 1, 1, 1});
}

TEST_CASE("gradcheck through in-place operations on views, to the second order") {
  const Tensor a = leaf({0.5, -1, 2}), b = leaf({1.5, 2.5});
  const auto f = [](const std::vector<Tensor>& in) {
    const Tensor h = in[0] * in[0];
    h.slice(0, 1).mul_(in[1]);
    h.select(0, 0).add_(in[1].select(0, 1));
    return h * h;
  };
  CHECK(autograd::gradcheck(f, {a, b}));
  CHECK(autograd::gradcheck(f, {a, b}, {.second_order = true}));
}

TEST_CASE("changing a detached tensor is not recorded, but is counted") {
  const Tensor x = leaf({1, 2});
  const Tensor h = x * 2;
  const auto before = h.version();
  h.detach().add_(1);
  CHECK(h.version() == before + 1);
  CHECK(h.grad_fn_name() == "mul");
}

TEST_CASE("parts of one split changed in place") {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor h = x * 1;
  const Tensor a = h.narrow(0, 0, 2), b = h.narrow(0, 2, 2);
  a.mul_(b);
  sum(h).backward();
  CHECK(values(x.grad()) == Values{3, 4, 2, 3});
}

TEST_CASE("a view made under no_grad is not changed in place while recording") {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor h = x * 1;
  Tensor view, of_view, part, of_leaf;
  no_grad([&] {
    view = h.narrow(0, 1, 2);
    of_leaf = x.reshape({2, 2});
    part = split(h, 2)[0];
  });
  of_view = view.select(0, 0);
  for (const Tensor& v : {view, of_view, part, of_leaf}) {
    CHECK_FALSE(v.requires_grad());
    CHECK_THROWS_AS(v.mul_(2), AutogradError);
    CHECK_THROWS_AS(v.add_(1), AutogradError);
    CHECK_THROWS_AS(v.fill_(1), AutogradError);
  }
  CHECK_THROWS_WITH_AS(view.zero_(), doctest::Contains("no_grad"), AutogradError);
  CHECK(values(h) == Values{1, 2, 3, 4});
  no_grad([&] { view.mul_(10); });
  view.detach().add_(1);
  CHECK(values(h) == Values{1, 21, 31, 4});
  // It stays a constant when its base changes.
  h.mul_(2);
  CHECK_FALSE(view.requires_grad());
  CHECK_FALSE((view * 1).requires_grad());
  CHECK(values(view) == Values{42, 62});
  sum(h).backward();
  CHECK(values(x.grad()) == Values{2, 2, 2, 2});
}

TEST_CASE("a view made under no_grad of a tensor off the tape is like any other tensor") {
  const Tensor w = leaf({3, 4});
  const Tensor base = zeros({2, 2}, {.dtype = kFloat64});
  const Tensor view = no_grad([&] { return base.select(0, 0); });
  view.add_(1);
  view.add_(w);
  sum(view * view).backward();
  CHECK(values(w.grad()) == Values{8, 10});

  const Tensor frozen = leaf({1, 2});
  const Tensor thawed = no_grad([&] { return frozen.slice(0, 1); });
  frozen.set_requires_grad(false);
  thawed.add_(1);
  CHECK(values(frozen) == Values{1, 3});
  thawed.set_requires_grad();  // a leaf that shares memory
  const Tensor out = thawed.reshape({1}) * 3;
  out.backward();
  CHECK(values(thawed.grad()) == Values{3});
}

TEST_CASE("a number added in place: gradients, hooks and grad() tell the old value from the new") {
  const Tensor x = leaf({1, 1});
  {
    const Tensor y = x * 2, z = y * 3;
    y.add_(1);
    y.register_hook([](const Tensor& g) { return g * 10; });
    (sum(z) + sum(y)).backward();
    CHECK(values(x.grad()) == Values{26, 26});
  }
  {
    const Tensor y = x * 2, z = y * 3;
    y[0].sub_(1);
    CHECK(values(grad_of(sum(z) + sum(y), y)) == Values{1, 1});
    y.retain_grad();
    (sum(y * 3) + sum(y)).backward();
    CHECK(values(y.grad()) == Values{4, 4});
  }
}

TEST_CASE("results of ops that end in a view are no views") {
  const Tensor x = leaf({1, 2, 3, 4}), w = ones({2, 2}, {.dtype = kFloat64});
  const Tensor batch = (x * 1).reshape({2, 1, 2});
  int hooks = 0;
  const auto count = [&](const Tensor& g) {
    ++hooks;
    return g;
  };
  const Tensor results[] = {linear(batch, w), matmul(batch, w), matmul(w, x.narrow(0, 0, 2))};
  for (const Tensor& h : results) {
    hooks = 0;
    h.register_hook(count);
    h.add_(ones_like(h));
    sum(h).backward();
    CHECK(hooks == 1);
  }
  CHECK(values(x.grad()).size() == 4);
  CHECK_FALSE(matmul(batch, w).detach_().requires_grad());
  // What else holds the base, or another view of it, sees the change.
  const Tensor base = x * 2, view = base.view({2, 2}), other = base.narrow(0, 0, 2);
  CHECK_THROWS_AS(view.detach_(), AutogradError);
  view.mul_(10);
  CHECK(values(other) == Values{20, 40});
  CHECK(values(grad_of(sum(other), x)) == Values{20, 20, 0, 0});
  const std::vector<Tensor> parts = split(x * 3, 2);
  parts[0].mul_(5);
  CHECK(values(grad_of(sum(parts[0]) + sum(parts[1]), x)) == Values{15, 15, 3, 3});
}

TEST_CASE("a view that is a leaf, and views of it, are not changed in place while recording") {
  const Tensor base = ones({4});
  const Tensor views[] = {base.view({2, 2}).set_requires_grad(),
                          ones({4}).view({2, 2}).set_requires_grad()};
  for (const Tensor& v : views) {
    CHECK_THROWS_WITH_AS(v.mul_(2), doctest::Contains("is a leaf:"), AutogradError);
    CHECK_THROWS_WITH_AS(v[0].mul_(2), doctest::Contains("through a view"), AutogradError);
    no_grad([&] { v.mul_(2); });
    CHECK(v.is_leaf());
    sum(v * 3).backward();
    CHECK(values(v.grad()) == Values{3, 3, 3, 3});
  }
  base.add_(1);
  CHECK(values(base) == Values{3, 3, 3, 3});
}

TEST_CASE("a quotient may be changed in place: its gradients need the operands alone") {
  const Tensor a = leaf({6, 8}), b = leaf({2, 4});
  const Tensor y = a / b;
  y.mul_(2);
  sum(y).backward();
  CHECK(values(a.grad()) == Values{1, 0.5});
  CHECK(values(b.grad()) == Values{-3, -1});
  const Tensor x = leaf({1, -3}), s = softsign(x);
  s.mul_(2);
  CHECK(values(grad_of(sum(s), x)) == Values{0.5, 0.125});
}
