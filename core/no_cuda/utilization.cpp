// core/cuda_utilization.h for builds without CUDA.
#include "core/cuda.h"
#include "core/cuda_utilization.h"
#include "core/error.h"

namespace ferrite::cuda {

std::optional<Utilization> utilization(int) {
  fail<DeviceError>("utilization", "there are no CUDA devices: {}", why_unavailable());
}

}  // namespace ferrite::cuda
