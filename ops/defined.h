// The check that what users call makes first.
#pragma once

#include "core/error.h"
#include "core/tensor.h"

namespace ferrite::ops {

inline void check_defined(const Tensor& t, const char* op) {
  FERRITE_CHECK(t.defined(), ValueError, op, "the tensor is undefined");
}

}  // namespace ferrite::ops
