// Pooling of planes under the name of the function that calls it: errors and nodes of the tape are
// tagged with `op`. `indices`, if not null, is set to the positions of the maxima.
#pragma once

#include "ferrite/ops/pool.h"

namespace ferrite::ops {

Tensor max_pool_planes(const char* op, const Tensor& input, const MaxPool2dOptions& options,
                       Tensor* indices);
Tensor avg_pool_planes(const char* op, const Tensor& input, const AvgPool2dOptions& options);
Tensor adaptive_max_pool_planes(const char* op, const Tensor& input, Pair size, Tensor* indices);
Tensor adaptive_avg_pool_planes(const char* op, const Tensor& input, Pair size);

template <class Options>
void check_kernel_size(const Options& o, const char* op) {
  FERRITE_CHECK(o.kernel_size, ValueError, op,
                "expected a kernel_size: {0}(x, 2) or {0}(x, {{.kernel_size = 2}})", op);
}

}  // namespace ferrite::ops
