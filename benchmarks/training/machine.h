// The yardstick of the CPU's rows: what its cores can do at most, and what a network needs.
#pragma once

#include <nlohmann/json.hpp>

#include "ferrite/nn/module.h"

namespace bench {

/// The limits of the machine, measured by `threads` threads at once for some 0.3 s.
/// "flops_per_second": float32 multiplications and additions by the widest registers, where a fused
/// one counts as two. "bytes_per_second": bytes read and written by a copy of more than the caches
/// hold.
nlohmann::json machine_limits(int threads);

/// Multiplications and additions of all layers but norms for one image, in the forward pass:
/// "direct", as the sums are defined; "winograd", with 6 x 6 products for 4 x 4 results of
/// convolutions with 3 x 3 taps, and for 2 x 2 results with 5 x 5 taps and 32 input channels or
/// more (stride 1). A training step needs both twice more, except the gradient of the images:
/// "direct_first" and "winograd_first" are those of a first convolution.
nlohmann::json network_flops(ferrite::nn::Module& network, const ferrite::Tensor& image);

}  // namespace bench
