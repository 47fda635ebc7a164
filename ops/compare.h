// Comparisons, selections and the remaining functions of two operands, with broadcasting and
// PyTorch's type promotion as in ops/arithmetic.h. The second operand may be a scalar.
#pragma once

#include <optional>

#include "ferrite/core/tensor.h"

namespace ferrite {

// ---- Comparisons: bool results, off the tape. NaN equals nothing.
/// Whether the elements are equal: bool, off the tape. Shapes broadcast (ShapeError), dtypes are
/// promoted. NaN equals nothing.
///
///   eq(arange(3), 1);  // false, true, false; also written arange(3) == 1
Tensor eq(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, Scalar b);
/// Whether the elements differ: bool. Shapes broadcast.
Tensor ne(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, Scalar b);
/// Whether the left element is below the right one: bool. Shapes broadcast. DTypeError for complex
/// numbers, here and in le(), gt() and ge().
Tensor lt(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, Scalar b);
/// Whether the left element is at most the right one: bool. Shapes broadcast.
Tensor le(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, Scalar b);
/// Whether the left element is above the right one: bool. Shapes broadcast.
Tensor gt(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, Scalar b);
/// Whether the left element is at least the right one: bool. Shapes broadcast.
Tensor ge(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, Scalar b);
// Any dtype; nonzero is true.
/// Whether both elements are not zero: bool, of any dtype. Shapes broadcast.
Tensor logical_and(const Tensor& a, const Tensor& b);
/// Whether at least one of two elements is not zero: bool. Shapes broadcast.
Tensor logical_or(const Tensor& a, const Tensor& b);
/// Whether exactly one of two elements is not zero: bool. Shapes broadcast.
Tensor logical_xor(const Tensor& a, const Tensor& b);

/// Bitwise and of integers, in their promoted dtype, or of bool. Shapes broadcast. DTypeError for
/// floating dtypes: logical_and() takes any.
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_and(const Tensor& a, Scalar b);
/// Bitwise or of integers, or of bool. DTypeError for floating dtypes.
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, Scalar b);
/// Bitwise exclusive or of integers, or of bool. DTypeError for floating dtypes.
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, Scalar b);
/// Bitwise not of integers, or of bool, in their dtype. DTypeError for floating dtypes.
Tensor bitwise_not(const Tensor& x);

inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator==(const Tensor& a, Scalar b) { return eq(a, b); }
inline Tensor operator==(Scalar a, const Tensor& b) { return eq(b, a); }
/// Whether the elements differ: bool. Shapes broadcast.
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor operator!=(const Tensor& a, Scalar b) { return ne(a, b); }
inline Tensor operator!=(Scalar a, const Tensor& b) { return ne(b, a); }
/// Whether the left element is below the right one: bool. Shapes broadcast.
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<(const Tensor& a, Scalar b) { return lt(a, b); }
inline Tensor operator<(Scalar a, const Tensor& b) { return gt(b, a); }
/// Whether the left element is at most the right one: bool. Shapes broadcast.
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator<=(const Tensor& a, Scalar b) { return le(a, b); }
inline Tensor operator<=(Scalar a, const Tensor& b) { return ge(b, a); }
/// Whether the left element is above the right one: bool. Shapes broadcast.
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>(const Tensor& a, Scalar b) { return gt(a, b); }
inline Tensor operator>(Scalar a, const Tensor& b) { return lt(b, a); }
/// Whether the left element is at least the right one: bool. Shapes broadcast.
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor operator>=(const Tensor& a, Scalar b) { return ge(a, b); }
inline Tensor operator>=(Scalar a, const Tensor& b) { return le(b, a); }
/// Bitwise and of integers, or of bool. DTypeError for floating dtypes.
inline Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
inline Tensor operator&(const Tensor& a, Scalar b) { return bitwise_and(a, b); }
/// Bitwise or of integers, or of bool. DTypeError for floating dtypes.
inline Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
inline Tensor operator|(const Tensor& a, Scalar b) { return bitwise_or(a, b); }
/// Bitwise exclusive or of integers, or of bool. DTypeError for floating dtypes.
inline Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
inline Tensor operator^(const Tensor& a, Scalar b) { return bitwise_xor(a, b); }
/// Bitwise not of integers, or of bool. DTypeError for floating dtypes.
inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }
/// Whether each element is zero; see logical_not().
inline Tensor operator!(const Tensor& x) { return x.logical_not(); }
/// Bitwise and of integers, or of bool. DTypeError for floating dtypes.
inline const Tensor& operator&=(const Tensor& a, const Tensor& b) { return a.copy_(a & b); }
/// Bitwise or of integers, or of bool. DTypeError for floating dtypes.
inline const Tensor& operator|=(const Tensor& a, const Tensor& b) { return a.copy_(a | b); }
/// Bitwise exclusive or of integers, or of bool. DTypeError for floating dtypes.
inline const Tensor& operator^=(const Tensor& a, const Tensor& b) { return a.copy_(a ^ b); }

/// Whether |a - b| <= atol + rtol * |b|: bool, elementwise. Equal infinities are close, and NaNs if
/// `equal_nan`. Shapes broadcast (ShapeError). DTypeError if the dtypes differ, ValueError for
/// negative tolerances.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);
/// Whether isclose() holds for all elements; errors as of isclose(). Waits for the device.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);
/// Whether shapes and all values are equal (NaN is unequal to itself): false, not an error, for
/// other shapes. DTypeError if the dtypes differ. Waits for the device.
bool equal(const Tensor& a, const Tensor& b);

// ---- Choices
/// The larger of each pair of elements; NaN if either is. Shapes broadcast (ShapeError), dtypes are
/// promoted; DTypeError for complex numbers. If they are equal, each gets half the gradient.
Tensor maximum(const Tensor& a, const Tensor& b);
/// The smaller of each pair of elements; otherwise as maximum().
Tensor minimum(const Tensor& a, const Tensor& b);
/// As maximum().
inline Tensor max(const Tensor& a, const Tensor& b) { return maximum(a, b); }
/// As minimum().
inline Tensor min(const Tensor& a, const Tensor& b) { return minimum(a, b); }
/// a where `condition`, bool or uint8 (DTypeError), is true, else b. All three broadcast
/// (ShapeError); the dtype is that of a and b promoted.
///
///   where(gt(x, 0), x, 0);  // relu(x)
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
Tensor where(const Tensor& condition, Scalar a, const Tensor& b);
/// The result has the default dtype if one of the numbers is floating, bool if both are bool, else
/// int64.
Tensor where(const Tensor& condition, Scalar a, Scalar b);
/// min(max(x, min), max); one of the bounds may be missing (ValueError for both). The dtype is that
/// of x promoted with the bounds: bool between integers is int64. DTypeError for complex numbers,
/// and for bool between bools. NaN stays. The gradient is 0 at the bounds, as for hardtanh, and at
/// NaN.
///
///   clamp(arange(5), 1, 3);  // 1, 1, 2, 3, 3
///   clamp(x, {}, 1);         // no lower bound
Tensor clamp(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max = {});
/// Elements below the bound become the bound: clamp(x, min).
Tensor clamp_min(const Tensor& x, Scalar min);
/// Elements above the bound become the bound: clamp(x, {}, max).
Tensor clamp_max(const Tensor& x, Scalar max);

// ---- Powers and remainders. DTypeError if both operands are bool, except for powers of a bool
// tensor to a bool number.
/// x to the power of the exponent, elementwise, in the promoted dtype: an integer to the power of
/// 0.5 is floating. ValueError for integers to a negative integer.
///
///   pow(arange(4), 2);  // 0, 1, 4, 9
Tensor pow(const Tensor& x, Scalar exponent);
/// The same with an exponent for each element. Shapes broadcast (ShapeError). An integer to a
/// negative integer is rounded toward 0: 0 unless the base is 1 or -1. DTypeError if both are bool.
Tensor pow(const Tensor& x, const Tensor& exponent);
/// A number to the power of each element.
Tensor pow(Scalar base, const Tensor& exponent);
const Tensor& pow_(const Tensor& self, Scalar exponent);
const Tensor& pow_(const Tensor& self, const Tensor& exponent);
// Integers divided by 0 give 0; bool is a DTypeError.
/// floor(a / b) in the promoted dtype, off the tape. Shapes broadcast (ShapeError). Integers
/// divided by 0 give 0; DTypeError if both are bool.
///
///   floor_divide(tensor({7, -7}), 2);  // 3, -4
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, Scalar b);
/// a - b * floor(a / b), with the sign of b, as Python's %. Shapes and dtypes as of floor_divide();
/// an integer's remainder by 0 is 0. `a` gets a gradient, and `b` if it is a tensor.
///
///   remainder(tensor({7, -7}), 3);  // 1, 2
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, Scalar b);
inline Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
inline Tensor operator%(const Tensor& a, Scalar b) { return remainder(a, b); }
/// a - b * trunc(a / b), with the sign of a, as std::fmod. Shapes and dtypes as of floor_divide();
/// an integer's remainder by 0 is 0.
///
///   fmod(tensor({7, -7}), 3);  // 1, -1
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, Scalar b);
/// The angle of the point (b, a), whose tangent is a / b, in [-pi, pi]. Shapes broadcast
/// (ShapeError); integers and bool become the default dtype. The gradient at the origin is 0.
Tensor atan2(const Tensor& a, const Tensor& b);

}  // namespace ferrite
