#pragma once

#include "ferrite/kernels/conv.h"

namespace ferrite::kernels::cuda {

void add_channels(const Stream& stream, const View& out, const View& bias, Activation activation);

}  // namespace ferrite::kernels::cuda
