// Complex numbers by their parts, for ops/ alone.
#pragma once

#include "ferrite/ops/complex.h"

namespace ferrite::ops {

// abs, sgn and exp of complex numbers.
Tensor complex_abs(const Tensor& x);
Tensor complex_sgn(const Tensor& x);
Tensor complex_exp(const Tensor& x);

/// Pairs of numbers as complex ones, copied where their strides or their offset allow no view.
inline Tensor complex_of_pairs(const Tensor& pairs) {
  const Tensor dense = pairs.contiguous();
  return view_as_complex(dense.storage_offset() % 2 == 0 ? dense : dense.clone());
}

/// f(view_as_real(x)) as complex numbers again: how ops that only move elements take them.
template <class F>
Tensor by_parts(const Tensor& x, F&& f) {
  return complex_of_pairs(f(view_as_real(x)));
}

}  // namespace ferrite::ops
