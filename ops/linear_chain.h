// Linear layers with ReLUs between them as one op of a GPU.
#pragma once

#include <optional>
#include <span>

#include "ferrite/core/tensor.h"

namespace ferrite::ops {

/// The parameters of a layer; an undefined bias is none.
struct LinearLayer {
  Tensor weight, bias;
};

/// linear() of each of at least two layers, with a ReLU before each but the first: of floating
/// matrices on a GPU, where the gradients of the ReLUs are part of the products. Nothing for other
/// tensors, under autocast and while tracing: then the layers are called one by one.
std::optional<Tensor> linear_chain(const Tensor& input, std::span<const LinearLayer> layers);

}  // namespace ferrite::ops
