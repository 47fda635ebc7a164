// core/cuda_utilization.h for builds without CUDA.
#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_utilization.h"
#include "ferrite/core/error.h"

namespace ferrite::cuda {

std::optional<Utilization> utilization(int) {
  fail<DeviceError>("utilization", "there are no CUDA devices: {}", why_unavailable());
}

}  // namespace ferrite::cuda
