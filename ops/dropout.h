// Dropout (Srivastava et al., 2014): elements become 0 with probability `p`, the others are scaled
// by 1 / (1 - p).
//
// No mask is kept: backward draws the same random numbers again. The input itself is returned if
// not training, or with p = 0. ValueError unless 0 <= p <= 1; floating dtypes. Draws from
// `generator`, or from the default generator of the device.
#pragma once

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// Elements become zero with probability p while training, the others grow by 1 / (1 - p).
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
               Generator* generator = nullptr);
/// In place; PyTorch's dropout(..., inplace=True).
const Tensor& dropout_(const Tensor& self, double p = 0.5, bool training = true,
                       Generator* generator = nullptr);

/// Zeroes whole channels (Tompson et al., 2015): x[n, c] of an [N, C, *] tensor. These functions
/// throw ShapeError for inputs of other layouts.
Tensor feature_dropout(const Tensor& x, double p = 0.5, bool training = true,
                       Generator* generator = nullptr);
/// For [N, C, L], or [C, L].
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true,
                 Generator* generator = nullptr);
/// For [N, C, H, W], or [N, C, L].
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true,
                 Generator* generator = nullptr);
/// For [N, C, D, H, W], or [C, D, H, W].
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true,
                 Generator* generator = nullptr);

/// Dropout that keeps mean and variance of what selu gives (Klambauer et al., 2017): dropped
/// elements become -selu's scale * alpha, and then all are scaled and shifted.
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false,
                     Generator* generator = nullptr);
/// The same for whole channels: x[n, c] of [N, C, *].
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = false,
                             Generator* generator = nullptr);

}  // namespace ferrite
