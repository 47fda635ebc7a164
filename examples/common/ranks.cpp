#include "ferrite/examples/common/ranks.h"

#include <cstdio>
#include <exception>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/cuda.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/process_group.h"

namespace examples {

using namespace ferrite;

ProcessGroupScope::ProcessGroupScope(const std::string& backend, const Device& device, bool graph)
    : exceptions_(std::uncaught_exceptions()) {
  parallel::InitOptions options;
  if (device.is_cuda()) options.device = device;
  const bool nccl = device.is_cuda() && parallel::has_nccl();
  const std::string chosen = !backend.empty() ? backend : nccl ? "nccl" : "gloo";
  FERRITE_CHECK(!graph || chosen == "nccl", ValueError, "--graph",
                "{} averages gradients on the host, which a CUDA graph cannot wait for: use nccl, "
                "or omit --graph",
                chosen);
  parallel::init_process_group(chosen, options);
  if (parallel::get_rank() > 0) {
    std::fflush(stdout);
    FERRITE_CHECK(std::freopen("/dev/null", "w", stdout), IoError, "ranks",
                  "cannot open /dev/null");
  }
}

ProcessGroupScope::~ProcessGroupScope() {
  // A failed rank must not look as if it had finished.
  if (std::uncaught_exceptions() > exceptions_) return;
  try {
    parallel::destroy_process_group();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
}

Device device_of_rank(const std::string& name) {
  if (name != "auto" && name != "cuda") return name;
  if (name == "auto" && !cuda::is_available()) return Device();
  const int count = cuda::device_count(), local_rank = parallel::get_local_rank();
  if (count == 1) return Device(DeviceType::cuda, 0);
  FERRITE_CHECK(local_rank < count, DeviceError, "--device",
                "this is local rank {}, but there are {} CUDA devices; start fewer processes on "
                "this host, or use --device cpu",
                local_rank, count);
  return Device(DeviceType::cuda, local_rank);
}

void share_buffers(const nn::Module& model) {
  const NoGradGuard guard;
  for (const Tensor& buffer : model.buffers()) parallel::broadcast(buffer);
}

}  // namespace examples
