#include <thread>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_control.h"
#include "ferrite/core/device.h"
#include "ferrite/core/generator.h"
#include "ferrite/tests/core/test_util.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("without a device there is a reason, and naming one is an error") {
  CHECK(cuda::is_available() == (cuda::device_count() > 0));
  CHECK(cuda::why_unavailable().empty() == cuda::is_available());
  const std::string text = cuda::describe();
  CHECK(text.find("CUDA runtime") == 0);
  CHECK(text.find("NCCL") != std::string::npos);
  if (cuda::is_available()) return;
  CHECK(text.find("no CUDA device: ") != std::string::npos);
  CHECK_THROWS_AS(Device("cuda"), DeviceError);
  CHECK_THROWS_AS(cuda::properties(0), DeviceError);
  CHECK_THROWS_AS(cuda::current_device(), DeviceError);
  CHECK_THROWS_AS(cuda::set_device(0), DeviceError);
  CHECK_THROWS_AS(pinned_allocator(), DeviceError);
  CHECK_THROWS_AS(empty({2}, {.pinned = true}), DeviceError);
}

TEST_CASE("scopes make no context on a device that nothing has used") {
  REQUIRE_EMULATOR();
  REQUIRE_CUDA(2);
  if (has_context(0)) return;  // of another file's tests
  std::thread([] {
    {
      const cuda::DeviceScope scope(1);
      CHECK(empty({8}, {.device = "cuda"}).device() == Device("cuda:1"));
    }
    CHECK(cuda::current_device() == 0);
    CHECK_FALSE(has_context(0));
    CHECK(has_context(1));
  }).join();
}

TEST_CASE("properties and versions") {
  REQUIRE_CUDA(1);
  const cuda::DeviceProperties& p = cuda::properties(0);
  CHECK_FALSE(p.name.empty());
  CHECK(p.major >= 5);
  CHECK(p.total_memory > 0);
  CHECK(p.multiprocessors > 0);
  CHECK(p.warp_size == 32);
  CHECK(p.max_threads_per_block == 1024);
  CHECK(p.max_shared_memory_per_block >= p.shared_memory_per_block);
  const cuda::MemoryInfo memory = cuda::memory_info(0);
  CHECK(memory.free > 0);
  CHECK(memory.free <= memory.total);
  const cuda::Versions v = cuda::versions();
  CHECK(v.runtime.find('.') != std::string::npos);
  CHECK(v.driver != "none");
  const std::string text = cuda::describe();
  CHECK(text.find("cuda:0  " + p.name) != std::string::npos);
  CHECK_THROWS_AS(cuda::properties(cuda::device_count()), DeviceError);
  CHECK_THROWS_AS(cuda::properties(-1), DeviceError);
  CHECK_THROWS_AS(Device(DeviceType::cuda, cuda::device_count()), DeviceError);
}

TEST_CASE("cuda means the current device of each thread") {
  REQUIRE_CUDA(2);
  CHECK(cuda::current_device() == 0);
  CHECK(Device("cuda") == Device("cuda:0"));
  cuda::set_device(1);
  CHECK(cuda::current_device() == 1);
  CHECK(Device("cuda") == Device("cuda:1"));
  CHECK(Device(DeviceType::cuda) == Device("cuda:1"));
  std::thread([] { CHECK(cuda::current_device() == 0); }).join();
  cuda::set_device(0);
  CHECK_THROWS_AS(cuda::set_device(cuda::device_count()), DeviceError);
  CHECK(cuda::current_device() == 0);
}

TEST_CASE("work on one device leaves another one current") {
  REQUIRE_CUDA(3);
  const auto touch = [](const char* device) {
    const Tensor t = empty({8}, {.device = device});
    fill_bytes(current_stream(t.device()), t.data_ptr(), 0, t.nbytes());
    CHECK(t.to_vector<float>() == std::vector<float>(8, 0.0f));
  };
  touch("cuda:1");
  CHECK(cuda::current_device() == 0);
  // A thread that was never on device 0, and is on it again afterwards.
  std::thread([&] {
    touch("cuda:2");
    CHECK(cuda::current_device() == 0);
    touch("cuda:1");
    CHECK(cuda::current_device() == 0);
    cuda::set_device(2);
    touch("cuda:1");
    CHECK(cuda::current_device() == 2);
    touch("cuda:0");
    CHECK(cuda::current_device() == 2);
  }).join();
}

TEST_CASE("calls of the program's own go on on the device that they have used") {
  REQUIRE_CUDA(4);
  // Ferrite itself has not used cuda:3.
  std::thread([] {
    set_runtime_device(3);
    const Tensor t = empty({8}, {.device = "cuda:1"});
    CHECK(runtime_device() == 3);
    fill_bytes(current_stream(t.device()), t.data_ptr(), 0, t.nbytes());
    CHECK(t.to_vector<float>() == std::vector<float>(8, 0.0f));
    CHECK(runtime_device() == 3);
    CHECK(cuda::current_device() == 3);
  }).join();
}

TEST_CASE("manual_seed covers every device") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  default_generator(device).reserve(7);
  manual_seed(5);
  CHECK(default_generator(device).seed() == 5);
  CHECK(default_generator(device).state().offset == 0);
  CHECK(default_generator(device).next_u64() == Generator(5).next_u64());
  CHECK(&default_generator(device) != &default_generator(Device()));
}

TEST_CASE("ranges of the profile") {
  const bool before = cuda::is_profiling();
  for (const bool on : {true, false}) {
    cuda::set_profiling(on);
    CHECK(cuda::is_profiling() == on);
    const cuda::NvtxRange outer("outer");
    const cuda::NvtxRange inner("inner");
    cuda::set_profiling(!on);  // an open range is still closed
  }
  cuda::set_profiling(before);
}
