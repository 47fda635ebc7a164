// Complex numbers by their parts, for ops/ alone.
#pragma once

#include "ferrite/ops/complex.h"

namespace ferrite::ops {

// abs, sgn and exp of complex numbers.
Tensor complex_abs(const Tensor& x);
Tensor complex_sgn(const Tensor& x);
Tensor complex_exp(const Tensor& x);

/// f(view_as_real(x)) as complex numbers again: how ops that only move elements take them.
template <class F>
Tensor by_parts(const Tensor& x, F&& f) {
  return view_as_complex(f(view_as_real(x)).contiguous());
}

}  // namespace ferrite::ops
