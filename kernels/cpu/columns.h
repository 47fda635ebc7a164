#pragma once

#include "ferrite/kernels/columns.h"

namespace ferrite::kernels::cpu {

void im2col(const View& columns, const View& input, const ConvParams& params);
void col2im(const View& image, const View& columns, const ConvParams& params);

}  // namespace ferrite::kernels::cpu
