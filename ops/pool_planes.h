// Pooling of planes under the name of the function that calls it: errors and nodes of the tape are
// tagged with `op`. `indices`, if not null, is set to the positions of the maxima.
#pragma once

#include "ferrite/kernels/pool.h"
#include "ferrite/ops/pool.h"

namespace ferrite::ops {

/// The parameters of a pooling, for forward and all its gradients.
struct PoolPlan {
  kernels::Pool2d pool;
  Shape in, out;
  MemoryFormat format;
  const char* op;

  /// Whether each window has a cell: dilation can leave the only window of an axis in the padding.
  bool has_cells() const { return pool.h.window(0).count > 0 && pool.w.window(0).count > 0; }
};
PoolPlan max_pool_plan(const char* op, const Tensor& input, const MaxPool2dOptions& options);
/// For what kernels::max_pool2d() keeps for its gradient.
Tensor empty_code(const PoolPlan& plan, const Device& device);
/// The results of kernels::max_pool2d(), off the tape; each window has a cell. Without a code
/// unless it is wanted.
struct Maxima {
  Tensor out, code;
};
/// `cleared`, int32, is set to zeros if it is defined.
Maxima window_maxima(const PoolPlan& plan, const Tensor& input, bool wants_code,
                     const Tensor& cleared = {});
/// The gradient of the input, differentiable, from the code that kernels::max_pool2d() gave.
Tensor max_pool_backward(const PoolPlan& plan, const Tensor& grad, const Tensor& code);
/// The same of the input of a ReLU before the pooling, whose result is `out`. Off the tape,
/// `channel_sums` is set, if it is not null, to the sums of that over each channel; `counters` is
/// what window_maxima() cleared, [channels].
Tensor relu_max_pool_backward(const PoolPlan& plan, const Tensor& grad, const Tensor& code,
                              const Tensor& out, Tensor* channel_sums = nullptr,
                              const Tensor& counters = {});

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
