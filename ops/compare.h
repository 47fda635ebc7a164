// Comparisons, selections and the remaining functions of two operands, with broadcasting and
// PyTorch's type promotion as in ops/arithmetic.h. The second operand may be a scalar.
#pragma once

#include <optional>

#include "ferrite/core/tensor.h"

namespace ferrite {

// ---- Comparisons: bool results, off the tape. NaN equals nothing.
/// a == b elementwise: a bool tensor of the broadcast shape, off the tape. Dtypes are promoted
/// first; NaN equals nothing. ShapeError if the shapes do not broadcast, DeviceError for two
/// devices, of which a 0-dimensional tensor on the host may be the other.
///
///   Tensor correct = eq(logits.argmax(1), labels);  // bool [N]; the same as ... == labels
Tensor eq(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, Scalar b);
/// a != b elementwise: a bool tensor of the broadcast shape; true where one is NaN. Errors as for
/// eq().
Tensor ne(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, Scalar b);
/// a < b elementwise: a bool tensor of the broadcast shape; false where one is NaN. Errors as for
/// eq(), and DTypeError for complex numbers, which have no order.
Tensor lt(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, Scalar b);
/// a <= b elementwise: a bool tensor of the broadcast shape; false where one is NaN. Errors as for
/// lt().
Tensor le(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, Scalar b);
/// a > b elementwise: a bool tensor of the broadcast shape; false where one is NaN. Errors as for
/// lt().
Tensor gt(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, Scalar b);
/// a >= b elementwise: a bool tensor of the broadcast shape; false where one is NaN. Errors as for
/// lt().
Tensor ge(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, Scalar b);
// Any dtype; nonzero is true.
/// Whether both elements are not zero: bool, of any dtype. Shapes broadcast.
Tensor logical_and(const Tensor& a, const Tensor& b);
/// Whether at least one of two elements is not zero: bool. Shapes broadcast.
Tensor logical_or(const Tensor& a, const Tensor& b);
/// Whether exactly one of two elements is not zero: bool. Shapes broadcast.
Tensor logical_xor(const Tensor& a, const Tensor& b);

/// Bitwise and of integers, or of bool; shapes broadcast and dtypes are promoted. DTypeError for
/// floating dtypes.
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_and(const Tensor& a, Scalar b);
/// Bitwise or of integers, or of bool. DTypeError for floating dtypes.
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, Scalar b);
/// Bitwise exclusive or of integers, or of bool. DTypeError for floating dtypes.
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, Scalar b);
/// Bitwise not of integers, or of bool. DTypeError for floating dtypes.
Tensor bitwise_not(const Tensor& x);
/// a * 2^b of integers: 0 where b is negative, or not below the number of bits. DTypeError for
/// other dtypes.
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);
Tensor bitwise_left_shift(const Tensor& a, Scalar b);
/// a / 2^b of integers, rounded down: 0, or -1 for a negative a, where b is negative, or not below
/// the number of bits. DTypeError for other dtypes.
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);
Tensor bitwise_right_shift(const Tensor& a, Scalar b);

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
/// bitwise_left_shift().
inline Tensor operator<<(const Tensor& a, const Tensor& b) { return bitwise_left_shift(a, b); }
inline Tensor operator<<(const Tensor& a, Scalar b) { return bitwise_left_shift(a, b); }
/// bitwise_right_shift().
inline Tensor operator>>(const Tensor& a, const Tensor& b) { return bitwise_right_shift(a, b); }
inline Tensor operator>>(const Tensor& a, Scalar b) { return bitwise_right_shift(a, b); }
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

/// Whether each element is infinity: bool. DTypeError for complex numbers.
Tensor isposinf(const Tensor& x);
/// Whether each element is negative infinity: bool. DTypeError for complex numbers.
Tensor isneginf(const Tensor& x);
/// Whether the imaginary part of each element is 0: bool.
Tensor isreal(const Tensor& x);

/// |a - b| <= atol + rtol * |b|, elementwise: a bool tensor of the broadcast shape. Equal
/// infinities are close, and NaNs if `equal_nan`. DTypeError if the dtypes differ, ValueError for a
/// negative tolerance.
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);
/// Whether all elements are close, as isclose() has it. ShapeError if the shapes do not broadcast,
/// DTypeError if the dtypes differ, ValueError for a negative tolerance. Waits for the device.
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8,
              bool equal_nan = false);
/// Whether shapes and all values are equal (NaN is unequal to itself): false, not an error, for
/// other shapes. DTypeError if the dtypes differ. Waits for the device.
bool equal(const Tensor& a, const Tensor& b);

// ---- Choices
/// The larger of each pair of elements, NaN if one of them is; shapes broadcast and dtypes are
/// promoted. If the two are equal, each gets half the gradient. DTypeError for complex numbers.
Tensor maximum(const Tensor& a, const Tensor& b);
/// The smaller of each pair of elements; otherwise as maximum().
Tensor minimum(const Tensor& a, const Tensor& b);
/// maximum(a, b).
inline Tensor max(const Tensor& a, const Tensor& b) { return maximum(a, b); }
/// minimum(a, b).
inline Tensor min(const Tensor& a, const Tensor& b) { return minimum(a, b); }
/// The larger of each pair of elements, of a NaN and a number the number; shapes broadcast and
/// dtypes are promoted. If the two are equal, each gets half the gradient. DTypeError for
/// complex numbers.
Tensor fmax(const Tensor& a, const Tensor& b);
/// The smaller of each pair of elements; otherwise as fmax().
Tensor fmin(const Tensor& a, const Tensor& b);
/// a where `condition` is true, else b; all three broadcast, and the dtypes of a and b are
/// promoted. DTypeError for a condition that is not bool or uint8.
///
///   Tensor y = where(x > 0, x, 0.1 * x);
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// Of a number and a tensor. ValueError for a number outside the range of the result's dtype, of
/// 16-bit types outside that of float32: what they do not hold is infinite.
Tensor where(const Tensor& condition, const Tensor& a, Scalar b);
Tensor where(const Tensor& condition, Scalar a, const Tensor& b);
/// The result has the default dtype if one of the numbers is floating, bool if both are bool, else
/// int64.
Tensor where(const Tensor& condition, Scalar a, Scalar b);
/// min(max(x, min), max), elementwise, in the shape of x; one of the bounds may be missing
/// (ValueError for both). The dtype is that of x promoted with the bounds: bool between integers is
/// int64. The gradient is 0 at the bounds, as for hardtanh, and at NaN. DTypeError for bool between
/// bools and for complex numbers.
///
///   Tensor y = clamp(x, 0, 1);
Tensor clamp(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max = {});
/// With bounds for each element, of which one may be undefined; shapes broadcast and dtypes are
/// promoted. NaN in a bound gives NaN. The gradient goes to what the result equals, as maximum()
/// and minimum() divide it.
Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max = {});
/// clamp(x, min): elements below the bound become the bound.
Tensor clamp_min(const Tensor& x, Scalar min);
Tensor clamp_min(const Tensor& x, const Tensor& min);
/// clamp(x, {}, max): elements above the bound become the bound.
Tensor clamp_max(const Tensor& x, Scalar max);
Tensor clamp_max(const Tensor& x, const Tensor& max);

// ---- Powers and remainders. DTypeError if both operands are bool, except for powers of a bool
// tensor to a bool number. ValueError for integers to a negative integer power.
/// x to the power of the exponent, elementwise; tensors broadcast, and dtypes are promoted.
/// ValueError for integers to a negative integer number; DTypeError if both are bool, except for a
/// bool number as exponent.
Tensor pow(const Tensor& x, Scalar exponent);
/// The same with an exponent for each element. Shapes broadcast (ShapeError). An integer to a
/// negative integer is rounded toward 0: 0 unless the base is 1 or -1. DTypeError if both are bool.
Tensor pow(const Tensor& x, const Tensor& exponent);
/// A number to the power of each element.
Tensor pow(Scalar base, const Tensor& exponent);
/// pow() in float64. DTypeError for complex numbers.
Tensor float_power(const Tensor& x, const Tensor& exponent);
Tensor float_power(const Tensor& x, Scalar exponent);
Tensor float_power(Scalar base, const Tensor& exponent);
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
