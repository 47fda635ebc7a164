// Elementwise arithmetic. All views of a call have equal sizes (broadcast operands come expanded,
// with strides of 0) and any strides; `out` may be one of the inputs. 16-bit types compute in
// float.
#pragma once

#include "ferrite/kernels/kernel.h"

namespace ferrite::kernels {

enum class BinaryOp : std::uint8_t {
  // out has the inputs' dtype
  add,
  sub,
  mul,
  div,
  pow,
  maximum,
  minimum,
  floor_divide,
  remainder,
  fmod,
  atan2,
  hypot,
  copysign,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  // out is bool
  logical_and,
  logical_or,
  logical_xor,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
};

constexpr bool gives_bool(BinaryOp op) { return op >= BinaryOp::logical_and; }

/// out = a op b. `a` and `b` share a dtype (a complex one for add, sub, mul, div, eq and ne alone),
/// or, for add, sub, mul and div, one is 16-bit and the other is a single float32 value (strides of
/// 0). Integer division by zero gives 0 for floor_divide, remainder and fmod. For bool, add is a
/// logical or and mul a logical and, as in PyTorch. bit_and and its like take integers;
/// shifts fill up with zeros, to the right with the sign. A shift by a negative number, or by the
/// width of the type or more, gives 0 (to the right: 0 or -1, by the sign).
FERRITE_KERNEL_FUNCTION(binary, BinaryOp op, const View& out, const View& a, const View& b);
/// out = a op b with the scalar converted to the dtype of `a` (its Compute type for 16-bit types);
/// for complex `a` only mul and div, by a real scalar.
FERRITE_KERNEL_FUNCTION(binary, BinaryOp op, const View& out, const View& a, Scalar b);
/// out = a op b with the scalar first.
FERRITE_KERNEL_FUNCTION(binary, BinaryOp op, const View& out, Scalar a, const View& b);

/// out = a + alpha * b: add and sub with a factor alpha.
FERRITE_KERNEL_FUNCTION(add_scaled, const View& out, const View& a, const View& b, Scalar alpha);

}  // namespace ferrite::kernels
