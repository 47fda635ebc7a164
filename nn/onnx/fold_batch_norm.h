// Batch norms as a part of the convolutions before them.
#pragma once

#include "ferrite/nn/onnx/recording.h"

namespace ferrite::onnx {

/// Where a batch norm alone reads the result of a convolution or a linear layer, and both have
/// numbers for parameters, puts its factors into their weight and bias, and takes it out.
void fold_batch_norms(Recording& recording);

}  // namespace ferrite::onnx
