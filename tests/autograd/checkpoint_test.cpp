#include "ferrite/autograd/checkpoint.h"

#include <doctest/doctest.h>

#include <thread>

#include "ferrite/autograd/gradcheck.h"
#include "ferrite/core/allocator.h"
#include "ferrite/tests/autograd/util.h"

using namespace ferrite;
using namespace ferrite::test;
using autograd::checkpoint;

TEST_CASE("a checkpoint changes neither values nor gradients, and runs the function twice") {
  const Tensor x = leaf({0.5, 2}), w = leaf({3, -1});
  int runs = 0;
  const auto f = [&](const Tensor& t) {
    ++runs;
    return t * w * t / (w * w + 1.0);
  };
  const Tensor plain = f(x), y = checkpoint(f, x);
  CHECK(runs == 2);
  CHECK(values(y) == values(plain));
  sum(plain).backward();
  const Values gx = values(x.grad()), gw = values(w.grad());
  x.set_grad({}), w.set_grad({});
  sum(y).backward();
  CHECK(runs == 3);
  CHECK(values(x.grad()) == gx);
  CHECK(values(w.grad()) == gw);
}

TEST_CASE("several inputs and results; inputs that are not leaves or need no gradient") {
  const Tensor x = leaf({2}), y = leaf({3}), c = from_vector<double>({7}, {1});
  const Tensor h = x * x;
  const auto both = checkpoint(
      [](const Tensor& a, const Tensor& b, const Tensor& k) {
        return std::vector<Tensor>{a * b, a * k};
      },
      h, y, c);
  (both[0] * 10.0 + both[1]).backward();
  CHECK(values(x.grad()) == Values{10 * 3 * 4 + 7 * 4});
  CHECK(values(y.grad()) == Values{40});
  const std::vector<Tensor> list{x, y};
  const Tensor z = checkpoint([](const std::vector<Tensor>& in) { return in[0] * in[1]; }, list);
  CHECK(values(grad_of(z, x)) == Values{3});
}

TEST_CASE("parameters get their gradient though no input needs one") {
  const Tensor x = from_vector<double>({1, 2}, {2}), w = leaf({3, 4});
  const Tensor y = checkpoint([&](const Tensor& t) { return t * w * w; }, x);
  sum(y).backward();
  CHECK(values(w.grad()) == Values{6, 16});
}

TEST_CASE("memory: tensors inside are not kept") {
  const std::size_t n = 1 << 16;
  const Tensor x = leaf(Values(n, 1.0));
  const auto deep = [](const Tensor& t) {
    Tensor h = t;
    for (int i = 0; i < 10; ++i) h = h * h;
    return h;
  };
  const std::size_t before = memory_allocated({});
  {
    const Tensor y = deep(x);
    CHECK(memory_allocated({}) - before > 9 * n * sizeof(double));
  }
  {
    const Tensor y = checkpoint(deep, x);
    CHECK(memory_allocated({}) - before < 2 * n * sizeof(double));
    sum(y).backward();
    CHECK(values(x.grad())[0] == 1024);
  }
  x.set_grad({});
  CHECK(memory_allocated({}) == before);
}

TEST_CASE("nested checkpoints") {
  const Tensor x = leaf({1.5}), w = leaf({2});
  int inner_runs = 0;
  const auto inner = [&](const Tensor& t) {
    ++inner_runs;
    return t * t * w;
  };
  const auto outer = [&](const Tensor& t) {
    const Tensor a = checkpoint(inner, t * 3.0);
    return checkpoint(inner, a * a) * t;
  };
  const Tensor plain = outer(x);
  plain.backward();
  const Values gx = values(x.grad()), gw = values(w.grad());
  x.set_grad({}), w.set_grad({});
  checkpoint(outer, x).backward();
  CHECK(values(x.grad()) == gx);
  CHECK(values(w.grad()) == gw);
}

TEST_CASE("random numbers come out the same, and later ones as if nothing was run again") {
  const Tensor x = leaf(Values(8, 1.0));
  const auto noisy = [](const Tensor& t) {
    const Tensor noise = randn({8}, {.dtype = kFloat64});
    return t * noise * noise;
  };
  manual_seed(7);
  const Tensor plain = noisy(x);
  const double next_plain = randn({}, {.dtype = kFloat64}).item<double>();
  sum(plain).backward();
  const Values expected = values(x.grad());
  x.set_grad({});
  manual_seed(7);
  const Tensor y = checkpoint(noisy, x);
  const double next = randn({}, {.dtype = kFloat64}).item<double>();
  CHECK(next == next_plain);
  const PhiloxState state = default_generator({}).state();
  sum(y).backward();
  CHECK(default_generator({}).state().offset == state.offset);
  CHECK(values(x.grad()) == expected);
}

TEST_CASE("grad(), retain_graph, create_graph and gradcheck through a checkpoint") {
  const Tensor x = leaf({2}), w = leaf({3});
  const auto cube = [&](const Tensor& t) { return t * t * t * w; };
  const Tensor y = checkpoint(cube, x);
  CHECK(values(grad_of(y, x, true)) == Values{36});
  const Tensor g = grad_of(y, x, true);
  CHECK(values(grad_of(g, x, true)) == Values{36});
  CHECK(values(grad_of(grad_of(g, x, true), w)) == Values{12});
  CHECK_FALSE(w.grad().defined());
  CHECK(autograd::gradcheck(
      [](const std::vector<Tensor>& in) {
        return checkpoint([](const Tensor& a, const Tensor& b) { return a * b / (a * a + 1.0); },
                          in[0], in[1]);
      },
      {leaf({0.5, -1}), leaf({2, 3})}, {.second_order = true}));
}

TEST_CASE("without recording the function just runs") {
  const Tensor x = leaf({2});
  const Tensor y = no_grad([&] { return checkpoint([](const Tensor& t) { return t * t; }, x); });
  CHECK_FALSE(y.requires_grad());
  CHECK(values(y) == Values{4});
}

TEST_CASE("a function that does something else the second time is found out") {
  const Tensor x = leaf({2});
  int run = 0;
  const Tensor y = checkpoint([&](const Tensor& t) { return run++ == 0 ? t * t * t : t * t; }, x);
  CHECK_THROWS_WITH_AS(y.backward(), doctest::Contains("[checkpoint]"), AutogradError);
  run = 0;
  const Tensor z = checkpoint(
      [&](const Tensor& t) {
        const Tensor u = run++ == 0 ? t : t.expand({2});
        return sum(u * u * 1.0);
      },
      x * 1.0);
  CHECK_THROWS_AS(z.backward(), AutogradError);
}

TEST_CASE("an input changed in place since is found out; an exception leaves things usable") {
  const Tensor x = leaf({2});
  const Tensor h = x * 1.0;
  const Tensor y = checkpoint([](const Tensor& t) { return t * t; }, h);
  h.add_(1);
  CHECK_THROWS_AS(y.backward(), AutogradError);
  bool fails = false;
  const Tensor z = checkpoint(
      [&](const Tensor& t) {
        if (fails) throw ValueError("no");
        return t * t;
      },
      x * 1.0);
  fails = true;
  CHECK_THROWS_AS(z.backward({}, true), ValueError);
  CHECK(autograd::detail::checkpoint_region == nullptr);
  fails = false;
  z.backward();
  CHECK(values(x.grad()) == Values{4});
}

TEST_CASE("checkpoints on several devices") {
  const Tensor x = leaf({2}, "cpu:0");
  const Tensor y = checkpoint(
      [](const Tensor& t) {
        const Tensor a = t * t;
        return (a.to(Device("cpu:1")) * a.to(Device("cpu:1"))).to(Device("cpu:0")) * t;
      },
      x);
  y.backward();
  CHECK(values(x.grad()) == Values{80});
}

TEST_CASE("one thread recomputes while others draw random numbers") {
  const Tensor x = leaf(Values(8, 1.5));
  Values drawn[2], others;
  int run = 0;
  const auto noisy = [&](const Tensor& t) {
    const Tensor noise = randn({8}, {.dtype = kFloat64});
    if (run == 1) std::thread([&] { others = values(randn({8}, {.dtype = kFloat64})); }).join();
    const Tensor more = randn({8}, {.dtype = kFloat64});
    drawn[run++] = values(more);
    return t * noise * more;
  };
  manual_seed(7);
  const Tensor y = checkpoint(noisy, x);
  const PhiloxState state = default_generator({}).state();
  sum(y).backward();
  CHECK(drawn[1] == drawn[0]);
  CHECK(default_generator({}).state().offset > state.offset);
  default_generator({}).set_state(state);
  CHECK(others == values(randn({8}, {.dtype = kFloat64})));
  // A function that seeds does not affect other random numbers in the rerun.
  const Tensor z = checkpoint(
      [](const Tensor& t) {
        manual_seed(11);
        return t * randn({8}, {.dtype = kFloat64});
      },
      x);
  x.set_grad({});
  manual_seed(11);
  const Values expected = values(randn({8}, {.dtype = kFloat64}));
  const std::uint64_t after = default_generator({}).state().offset;
  sum(z).backward();
  CHECK(values(x.grad()) == expected);
  CHECK(default_generator({}).state().offset == after);
}
