// Gradient clipping, in place; nothing is read from the device. Parameters without a gradient are
// skipped.
#pragma once

#include <span>

#include "core/tensor.h"

namespace ferrite::optim {

/// torch.nn.utils.clip_grad_norm_: scales all gradients by min(1, max_norm / (norm + 1e-6)), where
/// `norm` is that of all of them as one vector: (sum |g|^norm_type)^(1 / norm_type), or the largest
/// |g| where norm_type is infinite. Returns the norm before: one float64 number on the device of
/// the first gradient. ValueError unless norm_type > 0.
Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, double norm_type = 2);

/// torch.nn.utils.clip_grad_value_: clamps every element to [-clip_value, clip_value].
void clip_grad_value_(std::span<const Tensor> parameters, double clip_value);

}  // namespace ferrite::optim
