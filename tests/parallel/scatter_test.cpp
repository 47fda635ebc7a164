#include "ferrite/parallel/data_parallel/scatter.h"

#include <doctest/doctest.h>

#include <map>
#include <optional>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/allocator.h"
#include "ferrite/tests/parallel/scatter_gather.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Sizes = std::vector<std::int64_t>;

Sizes chunks_of(std::int64_t n, int devices) {
  return sizes_of(parallel::scatter(counting({n, 2}, "cpu"), cpu_devices(devices)));
}

}  // namespace

TEST_CASE("scatter: torch's chunks") {
  CHECK(chunks_of(30, 4) == Sizes{8, 8, 8, 6});
  CHECK(chunks_of(10, 4) == Sizes{3, 3, 3, 1});
  CHECK(chunks_of(5, 4) == Sizes{2, 2, 1});
  CHECK(chunks_of(3, 4) == Sizes{1, 1, 1});
  CHECK(chunks_of(4, 4) == Sizes{1, 1, 1, 1});
  CHECK(chunks_of(1, 3) == Sizes{1});
  CHECK(chunks_of(0, 4) == Sizes{0});
  CHECK(chunks_of(7, 1) == Sizes{7});
}

TEST_CASE("scatter and gather: shapes, strides and dtypes, between the host and virtual devices") {
  for (const char* source : {"cpu", "cpu:0", "cpu:3"}) check_round_trips(source, cpu_devices(3));
  check_round_trips("cpu:1", {"cpu:1", "cpu", "cpu:2"});
  check_round_trip(counting({7, 2}, "cpu:1"), {"cpu:1"}, 0);
  check_round_trip(counting({7, 2}, "cpu:0"), {"cpu:1", "cpu:1", "cpu:0"}, 0);
}

TEST_CASE("scatter and gather: gradients, twice") {
  for (const char* source : {"cpu", "cpu:0", "cpu:3"}) check_gradients(source, cpu_devices(3));
  check_gradients("cpu:1", {"cpu", "cpu:1"});
}

TEST_CASE("scatter: one device, its own, is a pass-through") {
  const Tensor x = counting({4, 2}, "cpu:0").set_requires_grad();
  const std::vector<Device> own = {"cpu:0"}, other = {"cpu:1"};
  CHECK(parallel::scatter(x, own)[0].is_same(x));
  const Tensor there = parallel::scatter(x, other)[0];
  CHECK(there.device() == other[0]);
  sum(there * 3.0).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>(8, 3));
}

TEST_CASE("scatter: a chunk on the tensor's device is a view of it, on the tape too") {
  const std::vector<Device> devices = cpu_devices(2);
  const Tensor leaf = counting({4}, "cpu:0", kFloat64).set_requires_grad();
  const Tensor x = leaf * 1.0;
  const std::vector<Tensor> chunks = parallel::scatter(x, devices);
  chunks[0].mul_(10);
  CHECK(x.to_vector<double>() == std::vector<double>{0, 10, 2, 3});
  (sum(chunks[0]) + sum(chunks[1]).to(devices[0]) + sum(x)).backward();
  CHECK(leaf.grad().to_vector<double>() == std::vector<double>{20, 20, 2, 2});
  const Tensor y = counting({4}, "cpu:0").set_requires_grad();
  CHECK_THROWS_AS(parallel::scatter(y, devices)[0].mul_(2), AutogradError);
}

TEST_CASE("scatter: later work on the source does not affect the chunks") {
  const std::vector<Device> devices = cpu_devices(3);
  for (const char* source : {"cpu", "cpu:0"}) {
    const Tensor x = counting({300, 64}, source);
    const std::vector<double> before = x.to_vector<double>();
    const std::vector<Tensor> chunks = parallel::scatter(x, devices);
    x.fill_(-1);
    std::vector<double> got;
    for (std::size_t i = 1; i < 3; ++i)
      for (const double v : chunks[i].to_vector<double>()) got.push_back(v);
    CHECK(got == std::vector<double>(before.begin() + 100 * 64, before.end()));
  }
}

TEST_CASE("scatter: values of all forms") {
  const std::vector<Device> devices = cpu_devices(2);
  using Inputs = std::tuple<Tensor, std::vector<Tensor>, std::map<std::string, Tensor>, double,
                            std::optional<Tensor>>;
  const Tensor x = counting({5, 2}, "cpu"), s = full({}, 7.0);
  const Inputs inputs{x, {x, s}, {{"labels", counting({5}, "cpu", kInt64)}}, 0.5, std::nullopt};
  const std::vector<Inputs> chunks = parallel::scatter(inputs, devices);
  REQUIRE(chunks.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& [a, list, labels, number, nothing] = chunks[i];
    CHECK(a.shape() == Shape{i == 0 ? 3 : 2, 2});
    CHECK(list[0].to_vector<double>() == a.to_vector<double>());
    CHECK(list[1].device() == devices[i]);
    CHECK(list[1].item<double>() == 7);
    CHECK(labels.at("labels").to_vector<int>() ==
          (i == 0 ? std::vector{0, 1, 2} : std::vector{3, 4}));
    CHECK(number == 0.5);
    CHECK_FALSE(nothing.has_value());
  }
  // Nothing that splits: one per device, undefined tensors stay undefined.
  const auto all = parallel::scatter(std::pair(s, Tensor()), devices);
  REQUIRE(all.size() == 2);
  CHECK(all[1].first.device() == devices[1]);
  CHECK_FALSE(all[1].second.defined());
  CHECK(parallel::scatter(3, devices) == std::vector{3, 3});
  CHECK(parallel::scatter(std::tuple<>(), devices).size() == 2);
}

TEST_CASE("scatter: errors") {
  const std::vector<Device> devices = cpu_devices(4), none;
  const Tensor x = counting({30, 3}, "cpu");
  CHECK(message_of<ShapeError>(
            [&] { parallel::scatter(std::pair(x, counting({5}, "cpu")), devices); }) ==
        "[scatter] tensors that are split together must give the same number of chunks: along "
        "dimension 0 over 4 devices float32[30, 3] on cpu gives 4, float32[5] on cpu gives 3");
  CHECK_THROWS_AS(parallel::scatter(x, none), ValueError);
  CHECK_THROWS_AS(parallel::scatter(Tensor(), devices), ValueError);
  CHECK_THROWS_AS(parallel::scatter(x, devices, 2), IndexError);
  CHECK_THROWS_AS(parallel::scatter(std::pair(x, counting({30}, "cpu")), devices, 1), IndexError);
}

TEST_CASE("scatter: nothing is recorded without recording or without a gradient") {
  const std::vector<Device> devices = cpu_devices(2);
  const Tensor x = counting({4}, "cpu").set_requires_grad();
  no_grad([&] { CHECK_FALSE(parallel::scatter(x, devices)[1].requires_grad()); });
  CHECK_FALSE(parallel::scatter(x.detach(), devices)[1].requires_grad());
  CHECK(parallel::scatter(x, devices)[1].grad_fn_name() == "scatter");
}

TEST_CASE("scatter and gather: memory is used again, step after step") {
  const std::vector<Device> devices = cpu_devices(2);
  const Tensor x = counting({64, 32}, "cpu").set_requires_grad();
  std::vector<std::size_t> reserved;
  for (int step = 0; step < 12; ++step) {
    sum(parallel::gather(parallel::scatter(x, devices), devices[0])).backward();
    for (const Device& device : devices) synchronize(device);
    if (step % 4 == 3) reserved.push_back(memory_reserved("cpu:0") + memory_reserved("cpu:1"));
  }
  CHECK(reserved[1] == reserved[2]);
}
