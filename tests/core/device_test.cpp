#include "ferrite/core/device.h"

#include <fmt/format.h>

#include "ferrite/tests/core/test_util.h"

using namespace ferrite;
using ferrite::test::message_of;

TEST_CASE("devices read and print") {
  CHECK(Device() == Device("cpu"));
  CHECK(Device().is_host());
  CHECK(Device().str() == "cpu");
  CHECK(Device().index() == -1);
  const Device d("cpu:3");
  CHECK(d.is_cpu());
  CHECK_FALSE(d.is_cuda());
  CHECK_FALSE(d.is_host());
  CHECK(d.index() == 3);
  CHECK(d == Device(DeviceType::cpu, 3));
  CHECK_FALSE(d == Device("cpu"));
  CHECK_FALSE(d == Device("cpu:2"));
  CHECK(fmt::format("{}", d) == "cpu:3");
  CHECK(Device(std::string("cpu:63")).str() == "cpu:63");
}

TEST_CASE("invalid devices are rejected with a message") {
  for (const char* text : {"", "cp", "CPU", "cpu:", "cpu:x", "cpu:-1", "cpu:+1", "cpu:1x", "cpu: 1",
                           "cpu:64", "cpu:1:2", "cpu:99999999999999999999", "gpu:0"}) {
    CAPTURE(text);
    CHECK(message_of<DeviceError>([&] { Device{text}; }) ==
          fmt::format("[device] cannot read '{}'; expected cpu, cpu:N, cuda or cuda:N with N from "
                      "0 to 63",
                      text));
  }
  CHECK(message_of<DeviceError>([] { Device(DeviceType::cpu, 64); }) ==
        "[device] index 64 is out of range; expected cpu, cpu:N, cuda or cuda:N with N from 0 to "
        "63");
  CHECK_THROWS_AS(Device(DeviceType::cpu, -2), DeviceError);
  CHECK_THROWS_AS(Device(DeviceType::cpu, 256), DeviceError);  // would be 0 in eight bits
}

TEST_CASE("a CUDA device that is not there") {
  if (!cuda::is_available()) {
    CHECK(cuda::device_count() == 0);
    CHECK(message_of<DeviceError>([] { Device("cuda"); }) ==
          "[device] cuda was asked for, but no CUDA device is available; use \"cpu\"");
    CHECK_THROWS_AS(Device("cuda:1"), DeviceError);
  } else {
    CHECK(Device("cuda") == Device("cuda:0"));
    if (cuda::device_count() < 64)
      CHECK_THROWS_AS(Device(DeviceType::cuda, cuda::device_count()), DeviceError);
  }
}
