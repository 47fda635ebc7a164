// The first check of every user-facing function.
#pragma once

#include "ferrite/core/error.h"
#include "ferrite/core/tensor.h"

namespace ferrite::ops {

inline void check_defined(const Tensor& t, const char* op) {
  FERRITE_CHECK(t.defined(), ValueError, op, "the tensor is undefined");
}

/// For ops that would convert what is not floating.
inline void check_real(const Tensor& t, const char* op) {
  check_defined(t, op);
  if (t.is_complex()) ferrite::detail::fail_type(op, t.dtype());
}

template <class... Tensors>
void check_floating(const char* op, const Tensors&... tensors) {
  (check_defined(tensors, op), ...);
  for (const DType dtype : {tensors.dtype()...})
    FERRITE_CHECK(is_floating(dtype), DTypeError, op,
                  "expected a floating type, got {}; convert with to(kFloat32)", dtype);
}

}  // namespace ferrite::ops
