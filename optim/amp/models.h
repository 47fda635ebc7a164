// What initialize() does to models.
#pragma once

#include "ferrite/nn/module.h"
#include "ferrite/optim/amp/options.h"

namespace ferrite::optim::amp {

/// Converts parameters and buffers of floating types, in place: handles on them follow. Batch norms
/// keep theirs where asked.
void convert(nn::Module& model, DType dtype, bool keep_batchnorm_fp32);

/// Has calls of the model convert inputs and outputs, and run in a region, as the level wants.
void wrap_forward(nn::Module& model, const Properties& properties, DType outputs);

}  // namespace ferrite::optim::amp
