// Complex numbers: the types complex64 and complex128 (docs/tensors.md says which ops take them).
// Gradients follow PyTorch: that of a real loss L by z = x + iy is dL/dx + i dL/dy.
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite {

/// real + i imag: complex64 of two float32 tensors, complex128 of two float64 ones (DTypeError).
/// Shapes broadcast (ShapeError).
///
///   Tensor z = complex(tensor({1.0, 0.0}), tensor({2.0, 3.0}));  // 1 + 2i, 3i
Tensor complex(const Tensor& real, const Tensor& imag);
/// abs (cos(angle) + i sin(angle)), with the angle in radians; dtypes and shapes as of complex().
Tensor polar(const Tensor& abs, const Tensor& angle);

/// A view [...] as [..., 2]: real and imaginary parts, float32 of complex64 and float64 of
/// complex128. DTypeError unless complex.
Tensor view_as_real(const Tensor& x);
/// The inverse: a view [..., 2] as [...]. DTypeError unless float32 or float64. ShapeError unless
/// the last dimension has size 2 and stride 1, and other strides and the offset are even: clone()
/// with kContiguous makes them so.
Tensor view_as_complex(const Tensor& x);

/// The real part, a view of half the element size; `x` itself if it is real. Changing it in place
/// changes x.
Tensor real(const Tensor& x);
/// The imaginary part, a view as of real(). DTypeError unless complex.
Tensor imag(const Tensor& x);
/// x with the opposite imaginary part; `x` itself if it is real. A copy, where PyTorch has a view
/// that is computed later.
Tensor conj(const Tensor& x);
/// atan2(imag, real), in radians, real: float32 of complex64, float64 of complex128. Of real
/// numbers it is 0, pi for negative ones, or NaN.
Tensor angle(const Tensor& x);
/// Whether elements are complex numbers.
bool is_complex(const Tensor& x);

}  // namespace ferrite
