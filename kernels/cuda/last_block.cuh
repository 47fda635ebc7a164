// The block that ends last, which reads what the others wrote.
#pragma once

#include <cstdint>

#include "ferrite/kernels/cuda/launch.cuh"

namespace ferrite::kernels::cuda::detail {

/// Whether all but this one of `blocks` blocks have come here with this counter, which is left at
/// 0: then it sees what they wrote before.
__device__ inline bool is_last(std::int32_t* counter, unsigned blocks) {
  FERRITE_SHARED(last, bool);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1) == static_cast<std::int32_t>(blocks) - 1;
    if (last) atomicExch(counter, 0);
  }
  __syncthreads();
  __threadfence();
  return last;
}

}  // namespace ferrite::kernels::cuda::detail
