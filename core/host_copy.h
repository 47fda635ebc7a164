// Tensors where the host can read them.
#pragma once

#include <string_view>

#include "core/tensor.h"

namespace ferrite::detail {

/// `t` itself where its memory is the host's, else a copy of it there with the same shape and
/// strides (gaps between its elements are copied along). Waits for the device's current stream;
/// `op` is who asks, for errors.
Tensor readable_on_host(const Tensor& t, std::string_view op);

}  // namespace ferrite::detail
