// Complex numbers: pairs of floats in memory, real part first. Kernels of real numbers do what
// treats both parts alike (copies, sums, products with real numbers), on the view that as_real()
// gives; this family has the rest. Every other kernel refuses complex views (kernels/kernel.h).
#pragma once

#include "ferrite/kernels/elementwise.h"

namespace ferrite::kernels {

/// The same memory with the two parts as a new last dimension. ShapeError at kMaxDims dimensions.
View as_real(const View& v);
/// One part: 0 is the real one, 1 the imaginary.
View complex_part(const View& v, int part);

/// out = a op b for mul and div, where all are of one complex dtype, and eq and ne, where `out` is
/// bool. Quotients are Smith's ("Algorithm 116: Complex division", 1962): without squares of b's
/// parts, which would overflow or underflow long before the result. Parts within a factor of 2 of
/// the largest number may still overflow, and digits are lost where the quotient of b's smaller and
/// larger part, or its product with a part of a or b, underflows.
FERRITE_KERNEL_FUNCTION(complex_binary, BinaryOp op, const View& out, const View& a, const View& b);

}  // namespace ferrite::kernels
