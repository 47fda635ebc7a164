#pragma once

#include "ferrite/kernels/augment.h"

namespace ferrite::kernels::cuda {

void augment(const Stream& stream, const View& out, const View& images, const AugmentArgs& args,
             PhiloxState state);

}  // namespace ferrite::kernels::cuda
