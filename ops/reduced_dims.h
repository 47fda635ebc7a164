// The dimensions removed by a reduction, for ops/ alone.
#pragma once

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/kernels/view.h"

namespace ferrite::ops {

struct ReducedDims {
  /// `dims` as given by the user: negative ones allowed, none means all. IndexError, ValueError.
  ReducedDims(const Tensor& t, const Dims& dims, bool keepdim, const char* op) {
    FERRITE_CHECK(t.defined(), ValueError, op, "the input is undefined");
    const int ndim = t.dim();
    bool gone[kMaxDims] = {};
    for (std::int64_t d : dims) {
      const int dim = normalize_dim(d, ndim, op);
      FERRITE_CHECK(!gone[dim], ValueError, op, "dimension {} is given twice in {}", dim, dims);
      gone[dim] = true;
    }
    for (int d = 0; d < ndim; ++d) {
      const bool reduce = dims.empty() || gone[d];
      kept.push_back(reduce ? 1 : t.shape()[d]);
      if (!reduce || keepdim) result.push_back(kept[d]);
      if (reduce) count *= t.shape()[d];
    }
  }

  /// A view for kernels of `out`, which has the shape `result` and is row-major.
  kernels::View keepdim_view(const Tensor& out) const {
    kernels::View v;
    v.data = out.data_ptr();
    v.dtype = out.dtype();
    v.numel = out.numel();
    v.ndim = kept.size();
    std::int64_t stride = 1;
    for (int d = v.ndim - 1; d >= 0; --d) {
      v.sizes[d] = kept[d];
      v.strides[d] = stride;
      stride *= kept[d];
    }
    return v;
  }

  Shape kept;              ///< the input's shape, reduced dimensions as 1
  Shape result;            ///< the shape asked for
  std::int64_t count = 1;  ///< input elements per result element
};

/// `t` in `dtype`, off the tape.
inline Tensor converted(const Tensor& t, DType dtype) {
  return t.dtype() == dtype ? t : no_grad([&] { return t.to(dtype); });
}

/// The gradient of x for `grad`, that of n = norm(x, p); these two have the dimensions of x, those
/// reduced being 1. Differentiable.
Tensor norm_gradient(const Tensor& grad, const Tensor& x, const Tensor& n, double p);

}  // namespace ferrite::ops
