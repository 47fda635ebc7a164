#include "ferrite/parallel/data_parallel/gather.h"

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <unordered_map>

#include "ferrite/tests/parallel/scatter_gather.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;
using parallel::gather;

namespace {

using Map = std::unordered_map<std::string, Tensor>;

std::vector<Tensor> on(const std::vector<Device>& devices, const std::vector<Shape>& shapes) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    tensors.push_back(counting(shapes[i], devices[i]) + static_cast<double>(100 * i));
  return tensors;
}

}  // namespace

TEST_CASE("gather: parts of any sizes, along any dimension, to any device") {
  const std::vector<Device> devices = cpu_devices(3);
  const std::vector<Tensor> parts = on(devices, {{2, 3}, {2, 0}, {2, 1}});
  for (const char* target : {"cpu", "cpu:0", "cpu:2", "cpu:5"}) {
    const Tensor whole = gather(parts, target, -1);
    CHECK(whole.device() == Device(target));
    CHECK(whole.shape() == Shape{2, 4});
    CHECK(whole.to_vector<int>() == std::vector{0, 1, 2, 200, 3, 4, 5, 201});
  }
  const std::vector<Tensor> one = {parts[2]};
  CHECK(gather(one, devices[2]).is_same(parts[2]));
  CHECK(gather(one, devices[0]).to_vector<int>() == std::vector{200, 201});
}

TEST_CASE("gather: losses become a vector") {
  const std::vector<Device> devices = cpu_devices(2);
  const std::vector<Tensor> losses = on(devices, {{}, {}});
  CHECK(gather(losses, devices[1]).shape() == Shape{2});
  CHECK(gather(losses, devices[1], 1).shape() == Shape{2});
  CHECK(gather(losses, devices[1]).to_vector<int>() == std::vector{0, 100});
  const std::vector<Tensor> one = {losses[1]};
  CHECK(gather(one, devices[1]).shape() == Shape{1});
}

TEST_CASE("gather: the result is contiguous unless all parts are channels-last") {
  const std::vector<Device> devices = cpu_devices(2);
  std::vector<Tensor> parts = on(devices, {{2, 3, 4, 2}, {1, 3, 4, 2}});
  const std::vector<double> values = gather(parts, "cpu").to_vector<double>();
  for (Tensor& part : parts) {
    CHECK(gather(parts, "cpu").is_contiguous());
    CHECK(gather(parts, "cpu").to_vector<double>() == values);
    part = part.to(kChannelsLast);
  }
  CHECK(gather(parts, "cpu").is_contiguous(kChannelsLast));
  CHECK(gather(parts, "cpu").to_vector<double>() == values);
}

TEST_CASE("gather: later work on a replica does not affect the result") {
  const std::vector<Device> devices = cpu_devices(2);
  const std::vector<Tensor> parts = on(devices, {{300, 64}, {200, 64}});
  const std::vector<double> expected = cat({parts[0].cpu(), parts[1].cpu()}).to_vector<double>();
  const Tensor whole = gather(parts, devices[0]);
  for (const Tensor& part : parts) part.fill_(-1);
  CHECK(whole.to_vector<double>() == expected);
}

TEST_CASE("gather: each part has its slice of the gradient, on its device") {
  const std::vector<Device> devices = cpu_devices(3);
  std::vector<Tensor> parts = on(devices, {{2, 3}, {1, 3}, {2, 3}});
  parts[0].set_requires_grad(), parts[2].set_requires_grad();
  gather(parts, devices[0]).backward(counting({5, 3}, devices[0]));
  CHECK(parts[0].grad().to_vector<int>() == std::vector{0, 1, 2, 3, 4, 5});
  CHECK_FALSE(parts[1].grad().defined());
  CHECK(parts[2].grad().device() == devices[2]);
  CHECK(parts[2].grad().to_vector<int>() == std::vector{9, 10, 11, 12, 13, 14});
}

TEST_CASE("gather: values of all forms") {
  const std::vector<Device> devices = cpu_devices(2);
  struct Output {
    Tensor logits, states;
  };
  using Value = std::tuple<Output, Map, std::optional<Tensor>, int, Tensor>;
  std::vector<Value> values;
  for (std::size_t i = 0; i < 2; ++i) {
    Map map;  // with a different iteration order
    for (int k = 0; k < 20; ++k) {
      const int key = i == 0 ? k : 19 - k;
      map[std::to_string(key)] =
          full({2}, key + 100.0 * static_cast<double>(i), {.device = devices[i]});
    }
    const std::vector<Tensor> t = on(devices, {{2, 3}, {1, 3}});
    values.emplace_back(Output{t[i], t[i]}, map, t[i], static_cast<int>(i) + 7, Tensor());
  }
  const auto [output, map, maybe, number, undefined] = gather(values, devices[0]);
  CHECK(output.states.to_vector<int>() == std::vector{0, 1, 2, 3, 4, 5, 100, 101, 102});
  REQUIRE(map.size() == 20);
  for (const auto& [key, t] : map) {
    const double k = std::stod(key);
    CHECK(t.to_vector<double>() == std::vector<double>{k, k, k + 100, k + 100});
  }
  CHECK(maybe->shape() == Shape{3, 3});
  CHECK(number == 7);
  CHECK_FALSE(undefined.defined());
}

TEST_CASE("gather: the host waits for the devices, and throws their errors") {
  const std::vector<Device> devices = cpu_devices(2);
  const std::vector<Tensor> parts = on(devices, {{2}, {2}});
  current_stream(devices[1]).enqueue([] { fail<IndexError>("embedding", "index 7 of 5"); });
  CHECK(message_of<IndexError>([&] { gather(parts, "cpu"); }) == "[embedding] index 7 of 5");
  CHECK(gather(parts, "cpu").to_vector<int>() == std::vector{0, 1, 100, 101});
}

TEST_CASE("gather: errors name the replica and its device") {
  const std::vector<Device> devices = cpu_devices(2);
  const auto error = [&]<class E = ShapeError>(const auto& values, E* = nullptr) {
    return message_of<E>([&] { gather(values, devices[0]); });
  };
  CHECK(error(on(devices, {{2, 3}, {2, 4}})) ==
        "[gather] all sizes but that of dimension 0 must agree, got float32[2, 4] on cpu:1 of "
        "replica 1 and float32[2, 3] on cpu:0 of replica 0");
  CHECK(error(on(devices, {{2, 3}, {2}})).find("of replica 1") != std::string::npos);
  CHECK(error(on(devices, {{2, 3}, {}})) ==
        "[gather] float32[] on cpu:1 of replica 1 has no dimensions, others have");
  std::vector<Tensor> parts = on(devices, {{2}, {2}});
  parts[1] = parts[1].to(kFloat64);
  CHECK(message_of<DTypeError>([&] { gather(parts, devices[0]); }) ==
        "[gather] expected one dtype, got float64[2] on cpu:1 of replica 1 and float32[2] on cpu:0 "
        "of replica 0");
  CHECK_THROWS_AS(gather(parts, devices[0], 1), IndexError);
  CHECK_THROWS_AS(gather(std::vector<Tensor>(), devices[0]), ValueError);
  CHECK_THROWS_AS(gather(std::span<const Tensor>(), devices[0]), ValueError);
  parts[1] = Tensor();
  CHECK_THROWS_AS(gather(std::span<const Tensor>(parts), devices[0]), ValueError);

  const Tensor t = counting({2}, "cpu");
  const auto form = [&](const auto& a, const auto& b) {
    return message_of<ValueError>([&] { gather(std::vector{a, b}, devices[0]); });
  };
  using List = std::vector<Tensor>;
  using Maybe = std::optional<Tensor>;
  CHECK(form(List{t, t, t}, List{t}) == "[gather] replica 1 returned a list of 1, replica 0 3");
  CHECK(form(Map{{"a", t}}, Map{{"b", t}}) ==
        "[gather] replica 1 returned a map without the key \"a\", replica 0 one with it");
  CHECK(form(Map{{"a", t}}, Map{}) == "[gather] replica 1 returned a map of 0 keys, replica 0 1");
  CHECK(form(Maybe(t), Maybe()) ==
        "[gather] replica 1 returned nothing for an optional value, replica 0 one");
  CHECK(form(t, Tensor()) == "[gather] the tensor of replica 1 is undefined");
  CHECK(form(List{t}, List{Tensor()}) ==
        "[gather] replica 1 returned an undefined tensor, replica 0 float32[2] on cpu");
}
