// Hooks on tensors and leaves, and retain_grad.
#include <doctest/doctest.h>

#include <functional>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/tests/autograd/util.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("a leaf's hook fires once, with the final gradient") {
  const Tensor x = leaf({2, 3});
  std::vector<Values> seen;
  x.register_hook([&](const Tensor& g) {
    seen.push_back(values(g));
    return Tensor();
  });
  sum(x * x + x * 5).backward();
  CHECK(seen == std::vector<Values>{{9, 11}});
  sum(x * 1).backward();
  CHECK(seen.size() == 2);
  CHECK(seen[1] == Values{1, 1});
  CHECK(values(x.grad()) == Values{10, 12});
}

TEST_CASE("hooks may replace gradients, and be removed") {
  const Tensor x = leaf({2});
  const Tensor h = x * 3;
  TensorHook on_h = h.register_hook([](const Tensor& g) { return g * 10; });
  TensorHook on_x = x.register_hook([](const Tensor& g) { return g + 1; });
  sum(h).backward({}, true);
  CHECK(values(x.grad()) == Values{31});
  on_h.remove();
  on_h.remove();
  on_x.remove();
  x.set_grad({});
  sum(h).backward();
  CHECK(values(x.grad()) == Values{3});
  CHECK_THROWS_AS(x.detach().register_hook([](const Tensor& g) { return g; }), AutogradError);
}

TEST_CASE("hooks run in the order they were added; one may remove itself") {
  const Tensor x = leaf({2});
  TensorHook first;
  int calls = 0;
  first = x.register_hook([&](const Tensor& g) {
    ++calls;
    first.remove();
    return g + 1;
  });
  x.register_hook([](const Tensor& g) { return g * 2; });
  sum(x).backward();
  CHECK(values(x.grad()) == Values{4});
  x.set_grad({});
  sum(x).backward();
  CHECK(values(x.grad()) == Values{2});
  CHECK(calls == 1);
}

TEST_CASE("a hook may not change the gradient's shape") {
  const Tensor x = leaf({2});
  const Tensor h = x * 1;
  h.register_hook([](const Tensor&) { return ones({3}, {.dtype = kFloat64}); });
  CHECK_THROWS_AS(sum(h).backward(), ShapeError);
  const Tensor y = leaf({2});
  y.register_hook([](const Tensor&) { return ones({3}, {.dtype = kFloat64}); });
  CHECK_THROWS_AS(sum(y).backward(), ShapeError);
}

TEST_CASE("a hook may not change the gradient's dtype") {
  const auto rounded = [](const Tensor& g) { return g.to(kFloat32); };
  const Tensor x = leaf({2});
  const Tensor h = x * 1;
  h.register_hook(rounded);
  CHECK_THROWS_WITH_AS(sum(h).backward(),
                       doctest::Contains("a gradient of float64[1] on cpu into "
                                         "one of float32[1] on cpu"),
                       DTypeError);
  const Tensor y = leaf({2});
  y.register_hook(rounded);
  CHECK_THROWS_WITH_AS(sum(y).backward(), doctest::Contains("[register_hook]"), DTypeError);
}

TEST_CASE("post-accumulate hooks see the accumulated gradient") {
  const Tensor x = leaf({2});
  std::vector<Values> seen;
  TensorHook hook = x.register_post_accumulate_grad_hook(
      [&](const Tensor& t) { seen.push_back(values(t.grad())); });
  sum(x * 3).backward();
  sum(x * 4).backward();
  hook.remove();
  sum(x * 4).backward();
  CHECK(seen == std::vector<Values>{{3}, {7}});
  CHECK_THROWS_AS((x * 1).register_post_accumulate_grad_hook([](const Tensor&) {}), AutogradError);
}

TEST_CASE(
    "an optimizer in a post-accumulate hook: the leaf may be changed and its gradient freed") {
  const Tensor x = leaf({1, 2});
  x.register_post_accumulate_grad_hook([](const Tensor& t) {
    NoGradGuard guard;
    t.sub_(t.grad());
    t.set_grad({});
  });
  sum(x * 0.5).backward();
  CHECK(values(x) == Values{0.5, 1.5});
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("retain_grad keeps an inner gradient, as later hooks leave it") {
  const Tensor x = leaf({2});
  const Tensor h = x * 3;
  h.retain_grad();
  h.retain_grad();
  h.register_hook([](const Tensor& g) { return g * 2; });
  sum(h * h).backward({}, true);
  CHECK(values(h.grad()) == Values{24});
  sum(h * h).backward();
  CHECK(values(h.grad()) == Values{48});
  x.retain_grad();  // nothing to do on a leaf
  CHECK(values(x.grad()) == Values{144});
  CHECK_THROWS_AS(x.detach().retain_grad(), AutogradError);
}

TEST_CASE("retain_grad keeps the gradient of the tensor as it is after changes in place") {
  const Tensor x = leaf({2, 5});
  {
    const Tensor h = x * 3;
    h.retain_grad();
    h.mul_(4);
    sum(h * 7).backward();
    CHECK(values(h.grad()) == Values{7, 7});
    CHECK(values(x.grad()) == Values{84, 84});
  }
  {  // through a view, before and after a backward pass
    const Tensor h = x * 3;
    h.retain_grad();
    sum(h).backward({}, true);
    h[0].mul_(4);
    sum(h * 7).backward();
    CHECK(values(h.grad()) == Values{8, 8});
  }
  {  // of a view whose base changes
    const Tensor h = x * 3, view = h.narrow(0, 1, 1);
    view.retain_grad();
    h.mul_(4);
    sum(view * 7).backward();
    CHECK(values(view.grad()) == Values{7});
  }
  {
    const Tensor h = x * 3, view = h.narrow(0, 1, 1);
    view.retain_grad();
    view.mul_(4);
    sum(h * 7).backward();
    CHECK(!h.grad().defined());
  }
}

TEST_CASE("retain_grad under create_graph keeps a gradient that can be differentiated") {
  const Tensor x = leaf({2});
  const Tensor h = x * 3;
  h.retain_grad();
  const Tensor y = sum(h * h * h);
  y.backward({}, true, true);
  CHECK(values(h.grad()) == Values{3 * 36});
  y.backward({}, true, true);
  CHECK(values(h.grad()) == Values{2 * 3 * 36});
  CHECK(values(grad_of(sum(h.grad()), x)) == Values{2 * 6 * 6 * 3});
  // What grad() returns of it is another tensor.
  const Tensor again = x * 3;
  again.retain_grad();
  const Tensor returned = grad_of(sum(again * again), again, true);
  CHECK_FALSE(returned.shares_storage(again.grad()));
  no_grad([&] { returned.zero_(); });
  CHECK(values(again.grad()) == Values{12});
  again.set_grad({});
  // The histories of the gradients hold the tensors, and these the gradients.
  h.set_grad({});
  x.set_grad({});
  CHECK_FALSE(h.grad().defined());
}

TEST_CASE("hooks run under grad() too, and no grad() is touched") {
  const Tensor x = leaf({2});
  x.register_hook([](const Tensor& g) { return g * 10; });
  bool accumulated = false;
  x.register_post_accumulate_grad_hook([&](const Tensor&) { accumulated = true; });
  CHECK(values(grad_of(x * x, x)) == Values{40});
  CHECK_FALSE(accumulated);
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("backward inside a hook") {
  const Tensor x = leaf({2}), other = leaf({5});
  const Tensor h = x * 3;
  h.register_hook([&](const Tensor& g) {
    EnableGradGuard on;
    sum(other * other).backward();
    return g * 2;
  });
  x.register_hook([&](const Tensor& g) {
    EnableGradGuard on;
    const Tensor y = leaf({4});
    return g + grad_of(y * y, y);
  });
  sum(h).backward();
  CHECK(values(x.grad()) == Values{14});
  CHECK(values(other.grad()) == Values{10});
}

TEST_CASE("an exception in a hook reaches the caller") {
  const Tensor x = leaf({2});
  TensorHook hook = x.register_hook([](const Tensor&) -> Tensor { throw ValueError("stop"); });
  CHECK_THROWS_AS(sum(x * x).backward(), ValueError);
  CHECK_FALSE(x.grad().defined());
  hook.remove();
  sum(x * x).backward();
  CHECK(values(x.grad()) == Values{4});
}

TEST_CASE("queue_callback: at the end of the pass, in order, once") {
  Tensor x = ones({2}), y = ones({2});
  for (const Tensor& t : {x, y}) t.set_requires_grad();
  CHECK_THROWS_WITH_AS(autograd::queue_callback([] {}), doctest::Contains("no backward pass"),
                       AutogradError);
  std::vector<std::string> calls;
  const auto note = [&](const char* what) {
    calls.push_back(std::string(what) + (x.grad().defined() && y.grad().defined() ? "" : " early"));
  };
  TensorHook hook = x.register_post_accumulate_grad_hook([&](const Tensor&) {
    autograd::queue_callback([&] {
      note("first");
      CHECK_FALSE(grad_enabled());
      // A pass in a callback has its own callbacks; a callback may add another.
      Tensor z = ones({});
      {
        EnableGradGuard guard;
        z.set_requires_grad();
        TensorHook inner = z.register_post_accumulate_grad_hook(
            [&](const Tensor&) { autograd::queue_callback([&] { note("inner"); }); });
        (z * 2).backward();
      }
      autograd::queue_callback([&] { note("last"); });
    });
    autograd::queue_callback([&] { note("second"); });
  });
  const auto run = [&] { (x * 2 + y * y).sum().backward(); };
  run();
  CHECK(calls == std::vector<std::string>{"first", "inner", "second", "last"});
  hook.remove();
  run();
  CHECK(calls.size() == 4);

  // A root that is itself a leaf; a failed pass; a failed callback.
  hook = x.register_post_accumulate_grad_hook(
      [&](const Tensor&) { autograd::queue_callback([&] { note("root"); }); });
  x.backward(ones({2}));
  CHECK(calls.back() == "root");
  CHECK(calls.size() == 5);
  TensorHook failing = x.register_hook([](const Tensor&) -> Tensor { fail("test", "no"); });
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("no"), Error);
  CHECK(calls.size() == 5);
  failing.remove();
  hook.remove();
  hook = x.register_post_accumulate_grad_hook(
      [&](const Tensor&) { autograd::queue_callback([] { fail<ValueError>("test", "late"); }); });
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("late"), ValueError);
  CHECK_THROWS_AS(autograd::queue_callback([] {}), AutogradError);
}

TEST_CASE("the leaves that a pass accumulates into are known while it runs") {
  Tensor x = ones({2}), y = ones({2}), other = ones({2});
  for (const Tensor& t : {x, y, other}) t.set_requires_grad();
  CHECK_FALSE(autograd::accumulates());
  CHECK_FALSE(autograd::accumulates_into(x));
  const Tensor loss = (x * y).sum();
  bool accumulates = false;
  std::vector<bool> into;
  loss.register_hook([&](const Tensor&) {
    accumulates = autograd::accumulates();
    into.clear();
    for (const Tensor& t : {x, y, other}) into.push_back(autograd::accumulates_into(t));
    return Tensor();
  });
  (loss * 2).backward({}, true);
  CHECK(accumulates);
  CHECK(into == std::vector<bool>{true, true, false});
  autograd::grad({{loss * 2}}, {{x}});
  CHECK_FALSE(accumulates);
  CHECK(into == std::vector<bool>{false, false, false});
}

TEST_CASE("backward inside hooks, to any depth") {
  // Too deep for one stack.
  constexpr int kDepth = 20000;
  int left = kDepth;
  std::function<void()> next = [&] {
    EnableGradGuard on;
    const Tensor x = leaf({1});
    const Tensor h = x * 2;
    h.register_hook([&](const Tensor&) {
      if (--left > 0) next();
      return Tensor();
    });
    sum(h).backward();
    CHECK(values(x.grad()) == Values{2});
  };
  next();
  CHECK(left == 0);
}

TEST_CASE("deep inside hooks: leaves, errors, and callbacks at the end of a pass") {
  constexpr int kDepth = 200;
  int left = kDepth, complete = 0;
  std::function<void()> next = [&] {
    const Tensor x = leaf({1});
    x.register_hook([&](const Tensor&) -> Tensor {
      autograd::queue_callback([&] { ++complete; });
      if (--left == 0) throw ValueError("the innermost");
      next();
      return {};
    });
    x.backward(x.detach());  // this pass begins and ends at a leaf
  };
  CHECK_THROWS_WITH_AS(next(), "the innermost", ValueError);
  CHECK(complete == 0);
  left = -1;  // and from here on all succeed
  std::function<void(int)> count = [&](int depth) {
    const Tensor x = leaf({1});
    x.register_hook([&, depth](const Tensor&) {
      autograd::queue_callback([&] { ++complete; });
      if (depth > 1) count(depth - 1);
      return Tensor();
    });
    x.backward(x.detach());
    CHECK(values(x.grad()) == Values{1});
  };
  count(kDepth);
  CHECK(complete == kDepth);
}
