#include "ferrite/parallel/data_parallel/device_comm.h"

#include <doctest/doctest.h>

#include <thread>

#include "ferrite/core/error.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/tests/parallel/device_comm_cases.h"
#include "ferrite/tests/support/gate.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::parallel;
using ferrite::test::Gate;

namespace {

std::vector<Device> virtual_devices(int count) {
  std::vector<Device> devices;
  for (int d = 0; d < count; ++d) devices.emplace_back(DeviceType::cpu, d);
  return devices;
}

}  // namespace

TEST_CASE("virtual devices exchange tensors of every kind") {
  for (int count = 1; count <= 4; ++count) {
    CAPTURE(count);
    const auto comm = dp::make_device_comm(virtual_devices(count));
    CHECK(comm->backend() == "copies");
    if (count != 2) test::check_broadcast(*comm);
    if (count != 4) test::check_reduce_add(*comm);
    test::check_order(*comm);
  }
  test::check_memory(*dp::make_device_comm(virtual_devices(3), "copies"));
}

TEST_CASE("the host is a device among others") {
  const auto comm = dp::make_device_comm({"cpu:2", "cpu", "cpu:0"});
  test::check_broadcast(*comm);
  const auto root = dp::make_device_comm({"cpu", "cpu:1"});
  test::check_reduce_add(*root);
  test::check_order(*root);
}

TEST_CASE("devices exchange earlier writes, but not later ones") {
  const auto comm = dp::make_device_comm(virtual_devices(3));
  const Tensor source = zeros({70000}, {.device = "cpu:0"});
  test::Lists copies;
  {
    Gate gate(current_stream("cpu:0"));
    source.fill_(3);
    copies = comm->broadcast(std::vector{source});  // returns at once
    source.fill_(9);
    CHECK_FALSE(current_stream("cpu:1").query());
    copies[0][0].add_(1);
    gate.open();
  }
  CHECK(copies[0][0].to_vector<float>() == std::vector<float>(70000, 4));
  CHECK(copies[1][0].to_vector<float>() == std::vector<float>(70000, 3));

  const Tensor one = zeros({70000}, {.device = "cpu:1"}), two = zeros({70000}, {.device = "cpu:2"});
  Tensor sum;
  {
    Gate gate(current_stream("cpu:2"));
    one.fill_(1);
    two.fill_(2);
    sum = comm->reduce_add(test::Lists{{one}, {two}})[0];
    one.fill_(10);
    two.fill_(20);
    sum.add_(source);
    gate.open();
  }
  CHECK(sum.to_vector<float>() == std::vector<float>(70000, 12));
}

TEST_CASE("devices exchange on the streams that are current") {
  const auto comm = dp::make_device_comm(virtual_devices(2));
  const Stream root = Stream::create("cpu:0"), peer = Stream::create("cpu:1");
  Gate busy(default_stream("cpu:0")), too(default_stream("cpu:1"));
  std::thread([&] {
    const StreamGuard use_root(root), use_peer(peer);
    const Tensor source = full({1000}, 3, {.device = "cpu:0"});
    const test::Lists copies = comm->broadcast(std::vector{source});
    CHECK(copies[0][0].to_vector<float>() == std::vector<float>(1000, 3));
    const Tensor sum = comm->reduce_add(copies)[0];
    CHECK(sum.to_vector<float>() == std::vector<float>(1000, 3));
  }).join();
}

TEST_CASE("devices that cannot exchange tensors are told why") {
  using test::message_of;
  CHECK_THROWS_AS(dp::make_device_comm({}), ValueError);
  CHECK(message_of<Error>([] {
          dp::make_device_comm({"cpu:0", "cpu:1", "cpu:0"});
        }) == "[device_comm] expected each device once, cpu:0 is named twice");
  CHECK(message_of<Error>([] {
          dp::make_device_comm({"cpu:0", "cpu:1"}, "gloo");
        }) ==
        "[device_comm] expected the backend to be \"nccl\", \"copies\" or \"\", got \"gloo\"");
  CHECK_THROWS_AS(dp::make_device_comm({"cpu:0", "cpu:1"}, "gloo"), ValueError);
  CHECK_THROWS_AS(dp::make_device_comm({"cpu:0", "cpu:1"}, "nccl"), DeviceError);
  CHECK_THROWS_AS(dp::make_device_comm({"cpu:0", "cpu:1", "cpu:0"}), ValueError);
  CHECK_THROWS_AS(dp::make_device_comm({"cpu:0", "cpu:64"}), DeviceError);

  const auto comm = dp::make_device_comm(virtual_devices(2));
  const Tensor here = ones({2}, {.device = "cpu:0"}), there = ones({2}, {.device = "cpu:1"});
  CHECK(message_of<Error>([&] {
          comm->broadcast(std::vector{here, there});
        }) ==
        "[broadcast] expected tensors on cpu:0, the first of the devices, tensor 1 of 2 is "
        "float32[2] on cpu:1");
  CHECK_THROWS_AS(comm->broadcast(std::vector{here, Tensor()}), ValueError);
  CHECK_THROWS_AS(comm->reduce_add(test::Lists{{here}}), DeviceError);
  CHECK_THROWS_AS(comm->reduce_add(test::Lists{{here}, {here}}, 0), DeviceError);
  CHECK_THROWS_AS(comm->reduce_add(test::Lists{{there}, {there}}), ValueError);
  CHECK_THROWS_AS(comm->reduce_add(test::Lists{{here}, {there, there}}, 0), ValueError);
  CHECK_THROWS_AS(comm->reduce_add(test::Lists{{there}}, -1), ValueError);
  CHECK_THROWS_AS(comm->reduce_add(test::Lists{{here}, {there.to(kFloat64)}}, 0), DTypeError);
  CHECK_THROWS_AS(comm->reduce_add(test::Lists{{here}, {there.reshape({2, 1})}}, 0), ShapeError);
  CHECK_THROWS_AS(comm->reduce_add(test::Lists{{there.to(kBool)}}), DTypeError);
  CHECK(comm->bytes_broadcast() == 0);
}
