// Tensors where the host can read them.
#pragma once

#include <string_view>

#include "ferrite/core/tensor.h"

namespace ferrite::detail {

/// For what has values of `device` read on the host: throws CudaError naming `op` where this
/// thread's stream for the device is being captured into a graph, or waiting is forbidden
/// (cuda::set_sync_debug_mode). To be called before any of the op's work is queued.
void check_may_read(const Device& device, std::string_view op);

/// `t` itself where its memory is the host's, else a copy of it there with the same shape and
/// strides (gaps between its elements are copied along). Waits for the device's current stream;
/// `op` is who reads, for check_may_read().
Tensor readable_on_host(const Tensor& t, std::string_view op);

}  // namespace ferrite::detail
