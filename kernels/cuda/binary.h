#pragma once

#include "ferrite/kernels/elementwise.h"

namespace ferrite::kernels::cuda {

/// A comparison or a predicate. Names that also occur in BinaryOp have the same meaning there.
enum class Test : std::uint8_t {
  logical_and,
  logical_or,
  logical_xor,
  eq,
  ne,
  gt,
  ge,
  // only of the first operand
  isnan,
  isinf,
  isfinite,
  signbit,
};

/// The role of the scalar of a call. The view that it replaces has no data.
enum class ScalarRole : std::uint8_t { none, left, right, factor_of_right };

// The parts of binary(), one source file each. `a` and `b` have the dtype of the computation, even
// without data. If the host does not know the scalar's value, `shared` is its address on the
// device; it has the Compute type.
void arithmetic(const Stream& stream, BinaryOp op, const View& out, const View& a, const View& b,
                ScalarRole role, Scalar scalar, const void* shared = nullptr);
void power(const Stream& stream, BinaryOp op, const View& out, const View& a, const View& b,
           ScalarRole role, Scalar scalar);
void comparison(const Stream& stream, Test test, const View& out, const View& a, const View& b,
                ScalarRole role, Scalar scalar);

}  // namespace ferrite::kernels::cuda
