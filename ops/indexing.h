// Helpers shared by functions that take an index, for ops/ alone.
#pragma once

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/tensor.h"
#include "ferrite/ops/copy.h"

namespace ferrite::ops {

/// Checks device and dtype of an index and makes it int64.
Tensor checked_index(const Tensor& index, const Tensor& x, const char* op);
/// Throws unless `index` fits inside `x` in every dimension except `dim` (-1: in all of them).
void check_fits(const Tensor& index, const Tensor& x, int dim, const char* what, const char* op);
void check_1d(const Tensor& index, const char* op);

/// A 0-dimensional tensor counts as one of one element.
inline Tensor at_least_1d(const Tensor& t) { return t.dim() == 0 ? t.reshape({1}) : t; }

Tensor zeros(const Shape& shape, DType dtype, const Device& device);

/// Throws unless dtype and device of a source are those of `x`.
void check_like(const Tensor& source, const Tensor& x, const char* op);
/// The part of `source` covered by `index`, which may have any shape if it is empty.
Tensor covered(const Tensor& source, const Tensor& index);

/// x.gather(dim, index); errors, of positions too, name `op`.
Tensor gather(const Tensor& x, int dim, const Tensor& index, const char* op);
/// x.index_select(dim, index) for a checked index, int64 [n]; errors of positions name `op`.
Tensor index_select(const Tensor& x, int dim, const Tensor& index, const char* op);

/// Scales the rows of `weight` [rows, width] at `ids`, int64 of any shape, whose p-norms exceed
/// max_norm to this norm; in place, off the tape. DTypeError unless floating, ValueError for a
/// negative max_norm.
void limit_norms(const Tensor& weight, const Tensor& ids, double max_norm, double p,
                 const char* op);

/// The type of sums: float32 for the 16-bit types, int64 counts for bool, whose sum is or.
inline DType sum_type(DType dtype) {
  if (dtype == kBool) return kInt64;
  return dtype == kFloat16 || dtype == kBFloat16 ? kFloat32 : dtype;
}

/// x (undefined: zeros of `shape`) with the source added by `add`, summed in sum_type; off the
/// tape.
template <class Add>
Tensor accumulate(const Tensor& x, const Shape& shape, DType dtype, const Device& device,
                  Add&& add) {
  NoGradGuard guard;
  const DType wide = sum_type(dtype);
  Tensor out;
  if (!x.defined())
    out = zeros(shape, wide, device);
  else
    out = x.dtype() == wide ? x.clone(kContiguous) : x.to(wide);
  add(out);
  return out.to(dtype);
}

}  // namespace ferrite::ops
