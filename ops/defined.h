// The first check of every user-facing function.
#pragma once

#include "ferrite/core/error.h"
#include "ferrite/core/tensor.h"

namespace ferrite::ops {

inline void check_defined(const Tensor& t, const char* op) {
  FERRITE_CHECK(t.defined(), ValueError, op, "the tensor is undefined");
}

}  // namespace ferrite::ops
