// Complex numbers: the types complex64 and complex128 (docs/tensors.md says which ops take them).
// Gradients follow PyTorch: that of a real loss L by z = x + iy is dL/dx + i dL/dy.
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite {

/// real + i imag, of two tensors of one type, float32 or float64, that broadcast.
Tensor complex(const Tensor& real, const Tensor& imag);
/// abs (cos(angle) + i sin(angle)), likewise.
Tensor polar(const Tensor& abs, const Tensor& angle);

/// [..., 2]: real and imaginary parts, a view. DTypeError unless complex.
Tensor view_as_real(const Tensor& x);
/// The inverse, for float32 and float64 and a last dimension of size 2 and stride 1 (ShapeError).
Tensor view_as_complex(const Tensor& x);

/// The real part, a view; `x` itself if it is real.
Tensor real(const Tensor& x);
/// The imaginary part, a view. DTypeError unless complex.
Tensor imag(const Tensor& x);
/// x with the opposite imaginary part; `x` itself if it is real. A copy, where PyTorch has a view
/// that is computed later.
Tensor conj(const Tensor& x);
/// atan2(imag, real), in radians; of real numbers 0, pi or NaN.
Tensor angle(const Tensor& x);
/// Whether elements are complex numbers.
bool is_complex(const Tensor& x);

}  // namespace ferrite
