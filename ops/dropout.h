// Dropout (Srivastava et al., 2014): elements become 0 with probability `p`, the others are scaled
// by 1 / (1 - p).
//
// Shape and dtype stay. The input itself is returned if not training, or with p = 0; p = 1 gives
// zeros. No mask is kept: backward draws the same random numbers again. DTypeError unless floating,
// ValueError unless 0 <= p <= 1. Draws from `generator`, or from the default generator of the
// device.
#pragma once

#include "ferrite/core/generator.h"
#include "ferrite/core/tensor.h"

namespace ferrite {

/// Elements become 0 with probability p, and the others are multiplied by 1 / (1 - p); x itself
/// unless `training`. DTypeError unless floating, ValueError for a p outside [0, 1].
///
///   Tensor y = dropout(x, 0.1, model.is_training());
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
               Generator* generator = nullptr);
/// The same in place, as PyTorch's dropout(..., inplace=True); returns `self`. AutogradError as of
/// all functions in place (core/in_place_methods.h), unless `self` stays as it is. The same holds
/// for the functions below whose names end in _.
const Tensor& dropout_(const Tensor& self, double p = 0.5, bool training = true,
                       Generator* generator = nullptr);

/// dropout() of whole channels (Tompson et al., 2015): each x[n, c] of [N, C, *] becomes 0 or is
/// scaled as a whole. ShapeError for fewer than 2 dimensions.
Tensor feature_dropout(const Tensor& x, double p = 0.5, bool training = true,
                       Generator* generator = nullptr);
const Tensor& feature_dropout_(const Tensor& self, double p = 0.5, bool training = true,
                               Generator* generator = nullptr);
/// dropout() of whole channels of [N, C, L], or of [C, L] (ShapeError).
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true,
                 Generator* generator = nullptr);
const Tensor& dropout1d_(const Tensor& self, double p = 0.5, bool training = true,
                         Generator* generator = nullptr);
/// dropout() of whole channels of [N, C, H, W], or of [N, C, L] (ShapeError). Three dimensions are
/// [N, C, L], as in PyTorch, not [C, H, W].
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true,
                 Generator* generator = nullptr);
const Tensor& dropout2d_(const Tensor& self, double p = 0.5, bool training = true,
                         Generator* generator = nullptr);
/// dropout() of whole channels of [N, C, D, H, W], or of [C, D, H, W] (ShapeError).
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true,
                 Generator* generator = nullptr);
const Tensor& dropout3d_(const Tensor& self, double p = 0.5, bool training = true,
                         Generator* generator = nullptr);

/// Dropout that keeps mean and variance of what selu() gives (Klambauer et al., 2017): dropped
/// elements become the limit of selu() at minus infinity, and then all are scaled and shifted.
/// `training` is false by default, as in PyTorch. Errors are those of dropout().
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false,
                     Generator* generator = nullptr);
const Tensor& alpha_dropout_(const Tensor& self, double p = 0.5, bool training = false,
                             Generator* generator = nullptr);
/// alpha_dropout() of whole channels: x[n, c] of [N, C, *]. ShapeError for fewer than 2 dimensions.
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = false,
                             Generator* generator = nullptr);
const Tensor& feature_alpha_dropout_(const Tensor& self, double p = 0.5, bool training = false,
                                     Generator* generator = nullptr);

}  // namespace ferrite
