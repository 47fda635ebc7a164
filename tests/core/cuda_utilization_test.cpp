// Device utilization, with a test library (tests/support/fake_nvml.cpp) in place of NVML.
#include "ferrite/core/cuda_utilization.h"

#include <cstdlib>
#include <filesystem>

#include "ferrite/core/cuda.h"
#include "ferrite/tests/core/test_util.h"
#include "ferrite/tests/paths.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

std::string fake_nvml() { return bin_dir() + "/fake_nvml.so"; }

/// Sets an environment variable for the scope of the object.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("utilization of a device that is not there") {
  CHECK_THROWS_AS(cuda::utilization(-1), DeviceError);
  CHECK_THROWS_AS(cuda::utilization(cuda::device_count()), DeviceError);
}

TEST_CASE("utilization comes from NVML, which knows a device by its bus") {
  REQUIRE_EMULATOR();  // cuda:i is on bus i + 1, which the fake library reports as the percentage
  REQUIRE(std::filesystem::exists(fake_nvml()));
  const Setting library("FERRITE_NVML", fake_nvml());
  for (int i = 0; i < cuda::device_count(); ++i) {
    const auto busy = cuda::utilization(i);
    REQUIRE(busy.has_value());
    CHECK(busy->kernels == i + 1);
    CHECK(busy->memory == (i + 1) / 2);
  }
  for (const char* function : {"handle", "rates"}) {
    const Setting failing("FAKE_NVML_FAILS", function);
    CHECK_FALSE(cuda::utilization(0).has_value());
  }
  CHECK(cuda::utilization(0).has_value());
}

TEST_CASE("where NVML is missing, or is something else, nothing is known") {
  REQUIRE_CUDA(1);
  for (const std::string name : {"/nosuch/libnvidia-ml.so", "libm.so.6"}) {
    CAPTURE(name);
    const Setting library("FERRITE_NVML", name);
    CHECK_FALSE(cuda::utilization(0).has_value());
    CHECK_FALSE(cuda::utilization(0).has_value());
  }
  {
    // Another name for the same file: it is opened again, and fails to initialize.
    const Setting failing("FAKE_NVML_FAILS", "init");
    const Setting library("FERRITE_NVML", bin_dir() + "/./fake_nvml.so");
    CHECK_FALSE(cuda::utilization(0).has_value());
  }
  if (!is_emulated()) return;
  // The real driver's library, if present, does not know emulated devices.
  const Setting usual("FERRITE_NVML", "");
  const auto busy = cuda::utilization(0);
  CHECK((!busy || (busy->kernels >= 0 && busy->kernels <= 100)));
}
