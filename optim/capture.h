// What a step must not do while it is captured into a graph.
#pragma once

#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/core/stream.h"

namespace ferrite::optim {

inline bool is_capturing(const Device& device) {
  return ferrite::detail::cuda::is_capturing(current_stream(device));
}

/// CudaError if the device's current stream is being captured: each replay would make such state
/// anew, and its values would be lost.
inline void refuse_new_state(const Device& device, const char* op, const char* what) {
  FERRITE_CHECK(!is_capturing(device), CudaError, op,
                "{} would be made while the step is captured into a graph, and be reset by each "
                "replay; run one step eagerly before the capture",
                what);
}

}  // namespace ferrite::optim
