#pragma once

#include "ferrite/kernels/copy.h"

namespace ferrite::kernels::cuda {

// The parts of copy(): the dtypes differ in the first, and agree in the second.
void convert(const Stream& stream, const View& out, const View& in);
/// If the copy is a batch of transposes, performs it and returns true.
bool try_transpose(const Stream& stream, const View& out, const View& in);

}  // namespace ferrite::kernels::cuda
