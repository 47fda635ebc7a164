// Linear layers with ReLUs between them as one op of a GPU.
#pragma once

#include <optional>
#include <span>

#include "ferrite/core/tensor.h"

namespace ferrite::ops {

/// The weight [out, in] and the bias [out] of a layer; an undefined bias counts as zero.
struct LinearLayer {
  Tensor weight, bias;
};

/// relu(linear(x)) for each layer but the last, and linear(x) for the last: [N, in] to [N, out of
/// the last layer]. The gradients of the ReLUs are part of the products. It takes at least two
/// layers and a floating input [N, in] on a GPU, with parameters of the same dtype and device.
/// Otherwise, under autocast and while tracing it returns nothing, and the caller runs the layers
/// one by one.
std::optional<Tensor> linear_chain(const Tensor& input, std::span<const LinearLayer> layers);

}  // namespace ferrite::ops
