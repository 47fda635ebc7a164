// Copies between layouts and element types, and constant fills.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

/// out[i] = in[i], converted as a C++ cast does (float to integer truncates; to bool is != 0; bool
/// is 0 or 1); of a complex number, the real part, which bool does not take (DTypeError). Equal
/// sizes, any strides, any dtypes. The views must be identical or not overlap.
FERRITE_KERNEL_FUNCTION(copy, const View& out, const View& in);

/// out[i] = value, converted to out's dtype.
FERRITE_KERNEL_FUNCTION(fill, const View& out, Scalar value);

}  // namespace ferrite::kernels
