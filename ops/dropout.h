// Dropout (Srivastava et al., 2014): elements become 0 with probability `p`, the others are scaled
// by 1 / (1 - p).
//
// No mask is kept: backward draws the same random numbers again. Not training, or with p of 0, the
// input itself is returned. ValueError unless 0 <= p <= 1; floating dtypes. Draws from `generator`,
// or from the default generator of the device.
#pragma once

#include "core/generator.h"
#include "core/tensor.h"

namespace ferrite {

Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
               Generator* generator = nullptr);
/// In place; PyTorch's dropout(..., inplace=True).
const Tensor& dropout_(const Tensor& self, double p = 0.5, bool training = true,
                       Generator* generator = nullptr);
/// Zeroes whole channels: x[n, c] of an [N, C, H, W] or [N, C, L] tensor (ShapeError otherwise).
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true,
                 Generator* generator = nullptr);

}  // namespace ferrite
