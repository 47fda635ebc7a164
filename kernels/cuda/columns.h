#pragma once

#include "ferrite/kernels/columns.h"

namespace ferrite::kernels::cuda {

void im2col(const Stream& stream, const View& columns, const View& input, const ConvParams& params);
void col2im(const Stream& stream, const View& image, const View& columns, const ConvParams& params);

}  // namespace ferrite::kernels::cuda
