// Two batch norms whose results are added, as at the end of a residual block that changes the size.
#pragma once

#include "ferrite/ops/norm.h"

namespace ferrite::ops {

/// batch_norm() with `options.shortcut`. In training both norms and a ReLU behind their sum are one
/// pass. Otherwise, and where there is another thing to do in the pass (a max pooling, parts of a
/// larger batch), the norms run one by one, as they do while tracing.
Tensor batch_norm_shortcut(const Tensor& input, const Tensor& running_mean,
                           const Tensor& running_var, const Tensor& weight, const Tensor& bias,
                           const BatchNormFuncOptions& options);

}  // namespace ferrite::ops
