#pragma once

#include "ferrite/kernels/elementwise.h"

namespace ferrite::kernels::cuda {

/// A comparison or a predicate: those that Test and BinaryOp both name mean the same.
enum class Test : std::uint8_t {
  logical_and,
  logical_or,
  logical_xor,
  eq,
  ne,
  gt,
  ge,
  // of the first operand alone
  isnan,
  isinf,
  isfinite,
};

/// What the scalar of a call is. Views that it takes the place of have no data.
enum class ScalarRole : std::uint8_t { none, left, right, factor_of_right };

// The parts of binary(), a source each. `a` and `b` have the dtype of the computation, views
// without data too. `shared` is where the scalar lies on the device, of the Compute type, where its
// value is not known on the host.
void arithmetic(const Stream& stream, BinaryOp op, const View& out, const View& a, const View& b,
                ScalarRole role, Scalar scalar, const void* shared = nullptr);
void power(const Stream& stream, BinaryOp op, const View& out, const View& a, const View& b,
           ScalarRole role, Scalar scalar);
void comparison(const Stream& stream, Test test, const View& out, const View& a, const View& b,
                ScalarRole role, Scalar scalar);

}  // namespace ferrite::kernels::cuda
