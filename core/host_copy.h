// Copies of tensors that the host can read.
#pragma once

#include <string_view>

#include "ferrite/core/tensor.h"

namespace ferrite::detail {

/// For ops that read values of `device` on the host: throws CudaError naming `op` if this thread's
/// stream for the device is being captured into a graph, or waiting is forbidden
/// (cuda::set_sync_debug_mode). Call it before any of the op's work is queued.
void check_may_read(const Device& device, std::string_view op);

/// `t` itself if it is in host memory, else a copy there with the same shape and strides (including
/// the gaps between elements). Waits for the device's current stream; `op` names the caller for
/// check_may_read().
Tensor readable_on_host(const Tensor& t, std::string_view op);

}  // namespace ferrite::detail
