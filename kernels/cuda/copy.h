#pragma once

#include "ferrite/kernels/copy.h"

namespace ferrite::kernels::cuda {

// What copy() is made of; dtypes differ in the first, and agree in the second.
void convert(const Stream& stream, const View& out, const View& in);
/// Does the copy if it is a batch of transposes, and returns whether it was.
bool try_transpose(const Stream& stream, const View& out, const View& in);

}  // namespace ferrite::kernels::cuda
