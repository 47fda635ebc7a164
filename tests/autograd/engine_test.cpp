#include "ferrite/autograd/engine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/autograd/meta.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/allocator.h"
#include "ferrite/ops/concat.h"
#include "ferrite/tests/autograd/util.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("gradients accumulate over passes and over uses") {
  const Tensor x = leaf({1, 2, 3});
  sum(x * x).backward();
  CHECK(values(x.grad()) == Values{2, 4, 6});
  sum(x * 10).backward();
  CHECK(values(x.grad()) == Values{12, 14, 16});
  x.set_grad({});
  sum(x + x + x).backward();
  CHECK(values(x.grad()) == Values{3, 3, 3});
}

TEST_CASE("diamonds: every path counts, each node runs once") {
  const Tensor x = leaf({3});
  const Tensor a = x * 2;
  int runs = 0;
  a.register_hook([&](const Tensor&) {
    ++runs;
    return Tensor();
  });
  const Tensor b = a * a, c = a * 5;
  sum(b + c + b).backward();
  CHECK(values(x.grad()) == Values{2 * (2 * 2 * 6 + 5)});
  CHECK(runs == 1);
}

TEST_CASE("nodes of several threads have unique numbers, ascending within a thread") {
  constexpr std::size_t kThreads = 3, kNodes = 2500;  // more than a thread takes in one block
  std::vector<std::vector<std::uint64_t>> numbers(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : numbers)
    threads.emplace_back([&mine] {
      const Tensor x = leaf({1});
      for (std::size_t i = 0; i < kNodes; ++i)
        mine.push_back(autograd::gradient_edge(x * 2).node->sequence);
    });
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint64_t> all;
  for (const auto& mine : numbers) {
    CHECK(std::is_sorted(mine.begin(), mine.end()));
    all.insert(mine.begin(), mine.end());
  }
  CHECK(all.size() == kThreads * kNodes);
}

TEST_CASE("threads may take turns on one graph: backward runs in the right order") {
  const Tensor x = leaf({3});
  Tensor y = x * x;
  for (int turn = 0; turn < 4; ++turn) {
    std::thread([&y] { y = y * 2 + y; }).join();
    y = y * 0.5 + y;
  }
  sum(y).backward();
  CHECK(values(x.grad()) == Values{2 * 3 * 410.0625});
}

TEST_CASE("leaves without a gradient, and leaves that nothing depends on, get none") {
  const Tensor x = leaf({1, 2}), frozen = from_vector<double>({3, 4}, {2}), unused = leaf({1});
  sum(x * frozen).backward();
  CHECK(values(x.grad()) == Values{3, 4});
  CHECK_FALSE(frozen.grad().defined());
  CHECK_FALSE(unused.grad().defined());
}

TEST_CASE("gradients given to backward") {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * x;
  y.backward(from_vector<double>({10, 100}, {2}));
  CHECK(values(x.grad()) == Values{20, 400});
  // The given gradient still belongs to the caller.
  const Tensor g = from_vector<double>({1, 1}, {2}), z = leaf({5, 6});
  z.backward(g);
  z.backward(g);
  CHECK(values(z.grad()) == Values{2, 2});
  CHECK(values(g) == Values{1, 1});
  const Tensor w = leaf({1, 2});
  (w * 2).backward(full({2}, 3, {.dtype = kFloat32}));  // of another floating type
  CHECK(values(w.grad()) == Values{6, 6});
}

TEST_CASE("errors of backward") {
  const Tensor x = leaf({1, 2});
  CHECK_THROWS_AS((x * 2).backward(), ShapeError);
  CHECK_THROWS_AS((x * 2).backward(ones({3}, {.dtype = kFloat64})), ShapeError);
  CHECK_THROWS_AS((x * 2).backward(ones({2}, {.dtype = kInt64})), DTypeError);
  CHECK_THROWS_AS((x * 2).backward(ones({2}, {.dtype = kFloat64, .device = "cpu:0"})), DeviceError);
  CHECK_THROWS_AS(x.detach().backward(), AutogradError);
  CHECK_THROWS_AS(Tensor().backward(), AutogradError);
  const Tensor y = sum(x * x);
  y.backward();
  CHECK_THROWS_WITH_AS(y.backward(), doctest::Contains("retain_graph"), AutogradError);
  const std::vector<Tensor> two{sum(x), sum(x * x)}, one{two[0]};
  CHECK_THROWS_AS(autograd::backward(two, one), ValueError);
}

TEST_CASE("a grad() that backward cannot add to is an error") {
  const Tensor x = leaf({1, 2}), h = x * 2;
  h.retain_grad();
  for (const Tensor& t : {x, h})
    for (const Tensor& present : {zeros({1}, {.dtype = kFloat64}), zeros({2}), zeros({3, 2})}) {
      t.mutable_grad() = present;
      for (const bool create_graph : {false, true})
        CHECK_THROWS_WITH_AS(sum(h * h).backward({}, true, create_graph),
                             doctest::Contains("present grad()"), AutogradError);
      t.set_grad({});
    }
  sum(h * h).backward();
  CHECK(values(h.grad()) == Values{4, 8});
}

TEST_CASE("retain_graph keeps the graph, and is not needed if nothing is saved") {
  const Tensor x = leaf({2});
  const Tensor y = x * x;
  y.backward({}, /*retain_graph=*/true);
  y.backward();
  CHECK(values(x.grad()) == Values{8});
  const Tensor z = leaf({2}), shared = z.reshape({1, 1}) + 1;
  sum(shared * 2).backward();
  sum(shared * 3).backward();
  CHECK(values(z.grad()) == Values{5});
}

TEST_CASE("several outputs at once") {
  const Tensor x = leaf({2}), y = leaf({5});
  const Tensor p = x * y, q = x * x;
  const std::vector<Tensor> outputs{p, q};
  autograd::backward(outputs);
  CHECK(values(x.grad()) == Values{5 + 4});
  CHECK(values(y.grad()) == Values{2});
  autograd::backward({x * y, x * x});
  CHECK(values(x.grad()) == Values{2 * (5 + 4)});
  autograd::backward({x * y}, {y.detach()});
  CHECK(values(y.grad()) == Values{2 + 2 + 2 * 5});
}

TEST_CASE("create_graph: derivatives of derivatives") {
  const Tensor x = leaf({2, -3});
  const Tensor y = sum(x * x * x * x);
  const Tensor first = grad_of(y, x, true);
  CHECK(values(first) == Values{32, -108});
  const Tensor second = grad_of(sum(first), x, true);
  CHECK(values(second) == Values{48, 108});
  const Tensor third = grad_of(sum(second), x);
  CHECK(values(third) == Values{48, -72});
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("create_graph through division, shared factors and both operands") {
  const Tensor x = leaf({2}), y = leaf({3});
  const Tensor gx = grad_of(x * x / y, x, true);                        // 2x / y
  CHECK(values(grad_of(gx, y, true))[0] == doctest::Approx(-4.0 / 9));  // -2x / y^2
  const Tensor gxx = grad_of(gx, x, true);                              // 2 / y
  CHECK(values(grad_of(gxx, y))[0] == doctest::Approx(-2.0 / 9));
}

TEST_CASE("create_graph in backward(): grad() is on the tape") {
  const Tensor x = leaf({3});
  (x * x * x).backward({}, true, true);
  CHECK(x.grad().requires_grad());
  const Tensor g = x.grad();
  x.set_grad({});
  g.backward();
  CHECK(values(x.grad()) == Values{18});
  x.set_grad({});  // breaks the cycle of leaf, gradient and graph
}

TEST_CASE("second order by gradcheck") {
  const Tensor a = leaf({0.5, -1.25, 2}), b = leaf({1.5, 0.75, -2});
  CHECK(autograd::gradcheck(
      [](const std::vector<Tensor>& in) { return in[0] * in[0] * in[1] / (in[1] * in[1] + 1.0); },
      {a, b}, {.second_order = true}));
}

TEST_CASE("gradgradcheck finds gradients that are right, but not on the tape as they should be") {
  const auto squared = [](auto gradient_of) {
    return [gradient_of](const std::vector<Tensor>& in) {
      const Tensor& x = in[0];
      const Tensor out = no_grad([&] { return x * x; });
      if (autograd::recording(x))
        autograd::record(out, "squared", {x},
                         [x = autograd::Saved(x), gradient_of](const Tensor& g, autograd::Needs) {
                           return gradient_of(g, x.get());
                         });
      return out;
    };
  };
  using T = const Tensor&;
  const Tensor x = leaf({0.5, -1.25, 2});
  CHECK(autograd::gradgradcheck(squared([](T g, T v) { return g * v * 2; }), {x}));
  const auto no_x = squared([](T g, T v) { return g * v.detach() * 2; });
  const auto no_grad_of_out = squared([](T g, T v) { return g.detach() * v * 2; });
  const auto neither = squared([](T g, T v) { return (g * v * 2).detach(); });
  for (const auto& f :
       {autograd::GradcheckFunction(no_x), autograd::GradcheckFunction(no_grad_of_out),
        autograd::GradcheckFunction(neither)}) {
    CHECK(autograd::gradcheck(f, {x}));
    CHECK_THROWS_WITH_AS(autograd::gradgradcheck(f, {x}), doctest::Contains("gradient of input 0"),
                         AutogradError);
  }
  // Of constant gradients.
  CHECK(autograd::gradgradcheck([](const auto& in) { return in[0] * 3; }, {x}));
  CHECK(autograd::gradgradcheck([](const auto& in) { return in[0] * 3 + in[1]; }, {x, leaf({1})}));
}

TEST_CASE("what is on the tape cannot become the result of an operation") {
  const Tensor x = leaf({2, 3}), y = x * 2;
  const auto same = [](const Tensor& g, autograd::Needs) { return g; };
  for (const Tensor& t : {x, y}) {
    CHECK_THROWS_WITH_AS(autograd::record(t, "reversed", {t}, same),
                         doctest::Contains("on the tape already"), AutogradError);
    CHECK(t.is_leaf() == t.is_same(x));
  }
}

TEST_CASE("grad(): only the requested gradients, in that order") {
  const Tensor x = leaf({2}), y = leaf({3}), unused = leaf({1});
  const Tensor h = x * y, out = h * h;
  const std::vector<Tensor> inputs{y, h, x};
  const auto g = autograd::grad({&out, 1}, inputs, {}, /*retain_graph=*/true);
  CHECK(values(g[0]) == Values{24});
  CHECK(values(g[1]) == Values{12});
  CHECK(values(g[2]) == Values{36});
  CHECK_FALSE(x.grad().defined());
  const std::vector<Tensor> with_unused{x, unused};
  CHECK_THROWS_AS(autograd::grad({&out, 1}, with_unused, {}, true), AutogradError);
  const auto some = autograd::grad({&out, 1}, with_unused, {}, true, false, true);
  CHECK(values(some[0]) == Values{36});
  CHECK_FALSE(some[1].defined());
  const Tensor plain = ones({1});
  CHECK_THROWS_AS(autograd::grad({&out, 1}, {&plain, 1}, {}, true), AutogradError);
  CHECK(values(autograd::grad({&out, 1}, {&out, 1})[0]) == Values{1});
}

TEST_CASE("grad() of an inner tensor leaves the graph below it") {
  const Tensor x = leaf({2});
  const Tensor h = x * x, out = h * h;
  const Tensor g = grad_of(out, h);
  CHECK(values(g) == Values{8});
  h.backward(g);
  CHECK(values(x.grad()) == Values{32});
}

TEST_CASE("grad() computes no gradient that was not asked for") {
  const Tensor x = leaf({2}), w = leaf({3});
  bool asked_for_w = false;
  Tensor out = no_grad([&] { return x * w; });
  autograd::record(out, "probe", {x, w},
                   [&](const Tensor& grad, autograd::Needs needs) -> autograd::Gradients {
                     asked_for_w = needs[1];
                     return {grad, needs[1] ? grad : Tensor()};
                   });
  grad_of(out, x, true);
  CHECK_FALSE(asked_for_w);
  out.backward();
  CHECK(asked_for_w);
}

TEST_CASE("no_grad, enable_grad, detach") {
  const Tensor x = leaf({2});
  {
    NoGradGuard off;
    CHECK_FALSE((x * x).requires_grad());
    EnableGradGuard on;
    CHECK((x * x).requires_grad());
  }
  CHECK((x * x).requires_grad());
  CHECK_FALSE(no_grad([&] { return x * x; }).requires_grad());
  const Tensor d = (x * 3).detach();
  CHECK_FALSE(d.requires_grad());
  CHECK(d.is_leaf());
  (d * x).backward();
  CHECK(values(x.grad()) == Values{6});
  CHECK(x.is_leaf());
  CHECK_FALSE((x * 1).is_leaf());
  CHECK((x * 1).grad_fn_name() == "mul");
  CHECK(x.grad_fn_name().empty());
  CHECK_THROWS_AS((x * 1).set_requires_grad(false), AutogradError);
  CHECK((x * 1).set_requires_grad().grad_fn_name() == "mul");  // it does already
  CHECK_THROWS_AS(ones({1}, {.dtype = kInt64}).set_requires_grad(), AutogradError);
}

TEST_CASE("freezing: no gradient, and none is computed") {
  const Tensor x = leaf({2}), w = leaf({3});
  w.set_requires_grad(false);
  (x * w).backward();
  CHECK_FALSE(w.grad().defined());
  CHECK(values(x.grad()) == Values{3});
  w.set_requires_grad();
  const Tensor y = x * w;
  w.set_requires_grad(false);
  y.backward();
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("a chain of 100,000 operations runs backward and goes away") {
  const Tensor x = leaf({1});
  const std::size_t before = memory_allocated({});
  {
    Tensor y = x;
    for (int i = 0; i < 100000; ++i) y = y * 1.0;
    y.backward();
    CHECK(values(x.grad()) == Values{1});
    x.set_grad({});
  }
  {
    Tensor y = x;  // never run
    for (int i = 0; i < 100000; ++i) y = y * x;
  }
  CHECK(memory_allocated({}) == before);
}

TEST_CASE("wide graphs") {
  const Tensor x = leaf({1});
  Tensor total = x * 0;
  for (int i = 1; i <= 2000; ++i) total = total + x * i;
  total.backward();
  CHECK(values(x.grad()) == Values{2001000});
}

TEST_CASE("saved tensors and outputs make no cycles and leak nothing") {
  const std::size_t before = memory_allocated({});
  {
    const Tensor x = leaf({1, 2}), w = leaf({3, 4});
    for (int i = 0; i < 3; ++i) {
      const Tensor y = sum(x / w * (1.0 / x));  // div saves its output
      if (i > 0) y.backward({}, i == 2);
      const Tensor parts = (x * w).select(0, 1) + w.slice(0, 0, 1);
      sum(parts).backward();
    }
    Tensor z = x * w;
    z.mul_(w);
    z.select(0, 0).add_(w.select(0, 1));
    sum(z).backward({}, true);
  }
  CHECK(memory_allocated({}) == before);
}

TEST_CASE("an exception in backward leaves things usable") {
  const Tensor x = leaf({2});
  bool fails = true;
  Tensor out = no_grad([&] { return x * 2; });
  autograd::record(out, "fragile", {x}, [&](const Tensor& grad, autograd::Needs) {
    if (fails) throw ValueError("no");
    return grad * 2;
  });
  const Tensor y = out * 1.0;
  CHECK_THROWS_AS(y.backward({}, true), ValueError);
  CHECK(grad_enabled());
  CHECK(autograd::current_node() == nullptr);
  CHECK_FALSE(autograd::creating_graph());
  CHECK_FALSE(x.grad().defined());
  fails = false;
  y.backward();
  CHECK(values(x.grad()) == Values{2});
}

TEST_CASE("a backward with the wrong number or kind of gradients is found out") {
  const Tensor x = leaf({2, 3});
  const auto run = [&](auto backward) {
    Tensor out = no_grad([&] { return x * 1; });
    autograd::record(out, "wrong", {x}, backward);
    sum(out).backward();
  };
  CHECK_THROWS_AS(run([](const Tensor& g, autograd::Needs) -> autograd::Gradients {
                    return {g, g};
                  }),
                  AutogradError);
  CHECK_THROWS_AS(run([](const Tensor&, autograd::Needs) { return ones({2}); }), AutogradError);
  CHECK_THROWS_AS(
      run([](const Tensor&, autograd::Needs) { return ones({3}, {.dtype = kFloat64}); }),
      AutogradError);
  CHECK_FALSE(x.grad().defined());
  // Of an inner tensor, whose own backward could compute something of it.
  const Tensor w = leaf({1, 2}), inner = w * 2, out = no_grad([&] { return inner * 1; });
  autograd::record(out, "summing", {inner},
                   [](const Tensor& g, autograd::Needs) { return sum(g).unsqueeze(0); });
  CHECK_THROWS_WITH_AS(sum(out).backward(),
                       doctest::Contains("[summing] its backward returned a gradient of [1] for "
                                         "input 0, which is [2]"),
                       AutogradError);
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("a gradient made of kernels refuses create_graph") {
  const Tensor x = leaf({2});
  Tensor out = no_grad([&] { return x * 2; });
  autograd::record(out, "raw", {x}, [](const Tensor& grad, autograd::Needs) {
    autograd::once_differentiable();
    return grad;
  });
  CHECK_THROWS_WITH_AS(out.backward({}, true, true), doctest::Contains("[raw]"), AutogradError);
  out.backward();
  CHECK(values(x.grad()) == Values{1});
}

TEST_CASE("zero-size tensors") {
  const Tensor x = leaf({});
  const Tensor y = sum(x * x.reshape({0}));
  y.backward();
  CHECK(x.grad().shape() == Shape{0});
  const Tensor z = leaf({1, 2});
  sum(z.slice(0, 1, 1)).backward();
  CHECK(values(z.grad()) == Values{0, 0});
}

TEST_CASE("hooks and gradients of operations with several results") {
  const Tensor x = leaf({1, 2, 3, 4});
  const auto parts = split(x * 1.0, {1, 3});
  parts[1].register_hook([](const Tensor& g) { return g * 10.0; });
  parts[0].retain_grad();
  sum(parts[0] * 2.0).backward({}, true);
  CHECK(values(x.grad()) == Values{2, 0, 0, 0});
  sum(cat({parts[1], parts[0]})).backward();
  CHECK(values(x.grad()) == Values{3, 10, 10, 10});
  CHECK(values(parts[0].grad()) == Values{3});
}

TEST_CASE("leaf gradients are laid out as the leaf and own their memory") {
  Tensor x = ones({2, 3, 4, 5}, {.memory_format = kChannelsLast});
  x.set_requires_grad();
  sum(x.contiguous() * 2).backward();
  CHECK(x.grad().is_contiguous(kChannelsLast));
  const Tensor v = leaf({1, 2});
  sum(v).backward();  // an expanded gradient
  CHECK(v.grad().is_contiguous());
  CHECK(v.grad().storage()->nbytes() == 2 * sizeof(double));
}

TEST_CASE("nodes that communicate run newest first, on whatever device") {
  const Device devices[] = {Device("cpu:0"), Device("cpu:1")};
  std::mutex mutex;
  std::vector<int> order;
  const auto communicating = [&](const Tensor& x, int number) {
    Tensor out = x.detach().clone();
    autograd::record(out, "communicating", {x},
                     [&, number](const Tensor& grad, autograd::Needs) -> Tensor {
                       const std::lock_guard lock(mutex);
                       order.push_back(number);
                       return grad;
                     });
    autograd::mark_communicating(out);
    return out;
  };
  for (int round = 0; round < 20; ++round) {
    order.clear();
    std::vector<Tensor> leaves, ends;
    for (const Device& device : devices) {
      leaves.push_back(ones({64}, {.device = device}).set_requires_grad());
      ends.push_back(leaves.back());
    }
    // Chains of two devices that have nothing to do with each other.
    for (int number = 0; number < 12; ++number) {
      Tensor& end = ends[static_cast<std::size_t>(number % 5 % 2)];
      end = communicating(end * 2, number);
    }
    autograd::backward(std::vector{ends[0].sum(), ends[1].sum()});
    CHECK(order == std::vector{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
    for (const Tensor& leaf : leaves) CHECK(leaf.grad().defined());
  }
}

TEST_CASE("nodes that communicate and were made by several threads do not wait for each other") {
  const Tensor x = ones({3}, {.device = Device("cpu:1")}).set_requires_grad();
  const auto communicating = [](const Tensor& x) {
    Tensor out = x.detach().clone();
    autograd::record(out, "communicating", {x},
                     [](const Tensor& grad, autograd::Needs) -> Tensor { return grad * 3; });
    autograd::mark_communicating(out);
    return out;
  };
  const Tensor first = x * 1;  // this thread's numbers are the lower ones
  Tensor middle;
  std::thread([&] {
    for (int i = 0; i < 2000; ++i) middle = x * 2;
    middle = communicating(middle);
  }).join();
  const Tensor last = communicating(middle + first).to("cpu:0");
  (last * 2).sum().backward();
  CHECK(values(x.grad().cpu()) == Values{42, 42, 42});
}
