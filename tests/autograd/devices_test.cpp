// Backward from several threads, and over several devices.
#include <doctest/doctest.h>

#include <thread>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/record.h"
#include "ferrite/tests/autograd/util.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

template <class F>
void run_threads(int count, F body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([=] { body(i); });
  for (std::thread& t : threads) t.join();
}

}  // namespace

TEST_CASE("threads on leaves of their own") {
  std::vector<Tensor> x;
  for (int i = 0; i < 4; ++i) x.push_back(leaf({1.0 * i, 2}));
  run_threads(4, [&](int i) {
    const Tensor& mine = x[static_cast<std::size_t>(i)];
    for (int k = 0; k < 50; ++k) sum(mine * mine).backward();
  });
  for (int i = 0; i < 4; ++i)
    CHECK(values(x[static_cast<std::size_t>(i)].grad()) == Values{100.0 * i, 200});
}

TEST_CASE("threads on shared leaves: nothing is lost") {
  for (const char* device : {"cpu", "cpu:0"}) {
    const Tensor w = leaf({3, 5}, device),
                 frozen = ones({2}, {.dtype = kFloat64, .device = device});
    run_threads(4, [&](int i) {
      for (int k = 0; k < 50; ++k)
        sum(w.reshape({2, 1}) * frozen.unsqueeze(1) * (1.0 + i)).backward();
    });
    synchronize(device);
    CHECK(values(w.grad()) == Values{500, 500});
  }
}

TEST_CASE("a graph over cpu, cpu:0 and cpu:1") {
  const Tensor x = leaf({1, 2}), y = leaf({3, 4}, "cpu:0"), z = leaf({5, 6}, "cpu:1");
  for (int pass = 1; pass <= 5; ++pass) {
    const Tensor a = x.to(Device("cpu:0")) * y;       // cpu:0
    const Tensor b = a.to(Device("cpu:1")) * z;       // cpu:1
    const Tensor c = b.cpu() * x + (z * z).cpu();     // host
    const Tensor d = sum(c.to(Device("cpu:0")) * y);  // cpu:0; x^2 y^2 z + z^2 y
    d.backward();
    for (const char* device : {"cpu:0", "cpu:1"}) synchronize(device);
    const double n = pass;
    CHECK(values(x.grad()) == Values{n * 2 * 1 * 9 * 5, n * 2 * 2 * 16 * 6});
    CHECK(values(y.grad()) == Values{n * (2 * 3 * 5 + 25), n * (4 * 2 * 4 * 6 + 36)});
    CHECK(values(z.grad()) == Values{n * (9 + 2 * 5 * 3), n * (4 * 16 + 2 * 6 * 4)});
  }
}

TEST_CASE("second derivatives over devices") {
  const Tensor x = leaf({2});
  const Tensor moved = x.to(Device("cpu:1"));
  const Tensor y = (moved * moved * moved).to(Device("cpu:0"));
  const Tensor g = grad_of(y, x, true);
  CHECK(values(g) == Values{12});
  CHECK(values(grad_of(g, x)) == Values{12});
}

TEST_CASE("many branches over many devices, with hooks") {
  const Tensor x = leaf({1, 1, 1});
  int hooks = 0;
  x.register_hook([&](const Tensor&) {
    ++hooks;
    return Tensor();
  });
  Tensor total = x * 0.0;
  for (int i = 0; i < 40; ++i) {
    Tensor branch = x.to(Device(DeviceType::cpu, i % 4));
    for (int k = 0; k < 5; ++k) branch = branch * 1.0 + branch * 0.0;
    total = total + branch.cpu() * (1.0 + i);
  }
  sum(total).backward();
  CHECK(values(x.grad()) == Values{820, 820, 820});
  CHECK(hooks == 1);
}

TEST_CASE("side streams: backward runs where forward ran") {
  const Device device("cpu:0");
  const Tensor x = leaf({2, 3}, device);
  synchronize(device);
  Tensor y;
  {
    StreamGuard guard(Stream::create(device));
    y = x * x;
  }
  current_stream(device).wait(Stream::create(device));
  synchronize(device);
  sum(y * 2.0).backward();
  CHECK(values(x.grad()) == Values{8, 12});
}

TEST_CASE("an exception on one device ends the pass on all") {
  const Tensor x = leaf({2}), z = leaf({2}, "cpu:1");
  const Tensor a = x.to(Device("cpu:0"));
  Tensor broken = no_grad([&] { return a * 1.0; });
  autograd::record(broken, "broken", {a},
                   [](const Tensor&, autograd::Needs) -> Tensor { throw ValueError("no"); });
  const Tensor out = sum(broken.cpu() * (z * z).cpu());
  CHECK_THROWS_AS(out.backward(), ValueError);
  z.set_grad({});
  sum(z * z).backward();
  CHECK(values(z.grad()) == Values{4});
}

TEST_CASE("backward over devices inside a hook of a backward over devices") {
  const Tensor x = leaf({2}), other = leaf({3}, "cpu:0");
  const Tensor h = x.to(Device("cpu:1")) * 1.0;
  h.register_hook([&](const Tensor& g) {
    EnableGradGuard on;
    sum(other.to(Device("cpu:1")) * other.to(Device("cpu:1"))).backward();
    return g * 2.0;
  });
  sum(h.cpu()).backward();
  CHECK(values(x.grad()) == Values{2});
  CHECK(values(other.grad()) == Values{6});
}

TEST_CASE("gradients that meet on another device than their node's, from two streams") {
  const Device here = "cpu:0", there = "cpu:1";
  const Stream second = Stream::create(there);
  for (int pass = 0; pass < 20; ++pass) {
    const Tensor x = leaf({1, 2}, here);
    std::vector<Tensor> copies = {x.detach().clone(), x.detach().to(there)};
    autograd::record_many(copies, "both", {&x, 1},
                          [here](autograd::Gradients& grads, autograd::Needs) {
                            return autograd::Gradients{grads[0] + grads[1].to(here)};
                          });
    Tensor y = sum(copies[1] * 3.0);
    {
      const StreamGuard guard(second);
      second.wait(default_stream(there));
      y = y + sum(copies[1] * copies[1] * 4.0);
    }
    default_stream(there).wait(second);
    const Tensor z = sum(copies[0] * 5.0) + y.to(here);
    z.backward();
    synchronize(here);
    CHECK(values(x.grad()) == Values{5 + 3 + 8, 5 + 3 + 16});
  }
}
