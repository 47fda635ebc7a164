// Gradient clipping, in place; nothing is read from the device. Parameters without a gradient are
// skipped. To give groups of parameters different limits, call it for each:
// clip_grad_norm_(optimizer.parameters(group), ...).
#pragma once

#include "ferrite/core/tensor_list.h"

namespace ferrite::optim {

/// torch.nn.utils.clip_grad_norm_: scales all gradients by min(1, max_norm / (norm + 1e-6)), where
/// `norm` is that of all of them as one vector: (sum |g|^norm_type)^(1 / norm_type), or the largest
/// |g| where norm_type is infinite. Returns the norm before: one float64 number on the device of
/// the first gradient. ValueError unless norm_type > 0.
///
/// With `error_if_nonfinite`, gradients whose norm is infinite or NaN stay as they are, and there
/// is a ValueError: at once on the host; for other devices, which are not waited for, when their
/// stream is next waited for (item(), synchronize(), printing).
///
///   loss.backward();
///   optim::clip_grad_norm_(model.parameters(), 1.0);  // or ({w, v}, 1.0), or (w, 1.0)
Tensor clip_grad_norm_(TensorList parameters, double max_norm, double norm_type = 2,
                       bool error_if_nonfinite = false);

/// torch.nn.utils.clip_grad_value_: clamps every element to [-clip_value, clip_value].
void clip_grad_value_(TensorList parameters, double clip_value);

/// torch.nn.utils.get_total_norm: the norm of `tensors` (gradients, parameters) as one vector.
/// Undefined tensors are skipped.
Tensor get_total_norm(TensorList tensors, double norm_type = 2, bool error_if_nonfinite = false);

/// torch.nn.utils.clip_grads_with_norm_: clips by a known norm, one floating-point number, such as
/// that of gradients on several processes.
void clip_grads_with_norm_(TensorList parameters, double max_norm, const Tensor& total_norm);

}  // namespace ferrite::optim

namespace ferrite::nn::utils {
using optim::clip_grad_norm_;
using optim::clip_grad_value_;
using optim::clip_grads_with_norm_;
using optim::get_total_norm;
}  // namespace ferrite::nn::utils
