// Arithmetic of two operands, with broadcasting and PyTorch's type promotion.
//
// Shapes broadcast (ShapeError otherwise), devices must agree (DeviceError). Every function takes a
// scalar for either tensor. Integers wrap around; bool adds as logical or and multiplies as and,
// and is subtracted only from or with other types (DTypeError). `alpha` must be an integer for
// integers (DTypeError).
//
// The in-place forms keep the dtype of `self` (DTypeError if the result would have a higher
// category) and its shape. The other operand may share memory with `self` in any way: its previous
// values are used.
#pragma once

#include <string_view>

#include "ferrite/core/tensor.h"

namespace ferrite {

/// a + alpha * b, elementwise. Shapes broadcast (ShapeError), dtypes are promoted as in PyTorch;
/// bool adds as logical or. DTypeError if alpha is floating and the result is not.
///
///   add(ones({2, 3}), arange(3), 2);  // float32 [2, 3], rows 1, 3, 5
Tensor add(const Tensor& a, const Tensor& b, Scalar alpha = 1);
Tensor add(const Tensor& a, Scalar b);
/// a - alpha * b, elementwise; otherwise as add(). DTypeError if both are bool: use logical_xor().
Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha = 1);
Tensor sub(const Tensor& a, Scalar b);
Tensor sub(Scalar a, const Tensor& b);
/// The elementwise product. Shapes broadcast (ShapeError), dtypes are promoted as in PyTorch; bool
/// multiplies as logical and.
Tensor mul(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, Scalar b);
/// The elementwise quotient. Shapes broadcast (ShapeError), dtypes are promoted; integers and bool
/// are divided in the default dtype, float32: the result is floating or complex.
/// floor_divide() rounds down.
Tensor div(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, Scalar b);
Tensor div(Scalar a, const Tensor& b);
/// The quotient rounded to a whole number: "trunc" rounds towards 0, "floor" down, as
/// floor_divide(). The dtype is the promoted one: integers stay integers, and divided by 0 give 0.
/// The gradient is 0. ValueError for another mode; DTypeError for complex numbers, and if both are
/// bool.
///
///   div(tensor({7, -7}), 2, "trunc");  // 3, -3
Tensor div(const Tensor& a, const Tensor& b, std::string_view rounding_mode);
Tensor div(const Tensor& a, Scalar b, std::string_view rounding_mode);

/// The elementwise sum; see add().
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator+(const Tensor& a, Scalar b) { return add(a, b); }
inline Tensor operator+(Scalar a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator-(const Tensor& a, Scalar b) { return sub(a, b); }
inline Tensor operator-(Scalar a, const Tensor& b) { return sub(a, b); }
/// Elementwise; see mul().
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator*(const Tensor& a, Scalar b) { return mul(a, b); }
inline Tensor operator*(Scalar a, const Tensor& b) { return mul(b, a); }
/// The elementwise quotient; see div().
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator/(const Tensor& a, Scalar b) { return div(a, b); }
inline Tensor operator/(Scalar a, const Tensor& b) { return div(a, b); }

inline const Tensor& operator+=(const Tensor& a, const Tensor& b) { return a.add_(b); }
inline const Tensor& operator-=(const Tensor& a, const Tensor& b) { return a.sub_(b); }
inline const Tensor& operator*=(const Tensor& a, const Tensor& b) { return a.mul_(b); }
inline const Tensor& operator/=(const Tensor& a, const Tensor& b) { return a.div_(b); }
inline const Tensor& operator+=(const Tensor& a, Scalar b) { return a.add_(b); }
inline const Tensor& operator-=(const Tensor& a, Scalar b) { return a.sub_(b); }
inline const Tensor& operator*=(const Tensor& a, Scalar b) { return a.mul_(b); }
inline const Tensor& operator/=(const Tensor& a, Scalar b) { return a.div_(b); }

}  // namespace ferrite
