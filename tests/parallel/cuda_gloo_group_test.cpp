// CUDA tensors with Gloo, staged through the host.
#include <doctest/doctest.h>

#include "ferrite/core/cuda.h"
#include "ferrite/core/device.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/tests/parallel/collectives.h"
#include "ferrite/tests/parallel/processes.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/sanitizers.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using namespace parallel;
using namespace std::chrono_literals;

const auto kPatient = sanitized() ? 200s : 60s;

RANK_FUNCTION(cuda_gloo_collectives) {
  init_process_group("gloo", rank_init_options(kPatient));
  {
    const Device device(DeviceType::cuda, get_local_rank() % cuda::device_count());
    check_collectives(*default_group(), device, {.large = 6'001});
    // After the present work of the stream, and before work queued after wait()
    const Tensor t = full({1000}, get_rank(), {.device = device});
    t.add_(1);
    const Work work = default_group()->all_reduce(t);
    work.wait();
    t.mul_(2);
    CHECK(t.to_vector<int>() == std::vector<int>(1000, get_world_size() * (get_world_size() + 1)));
  }
  destroy_process_group();
}

TEST_CASE("gloo on CUDA devices, each rank on one of its own") {
  REQUIRE_CUDA(1);
  if (!has_gloo()) {
    MESSAGE("skipped: this build is without Gloo");
    return;
  }
  for (const char* way : {"auto", "gloo"})
    check_processes("cuda_gloo_collectives", 2,
                    {.environment = {{"FERRITE_GLOO_ALL_REDUCE", way}}, .deadline = kPatient});
}

}  // namespace
