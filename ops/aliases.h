// PyTorch's second names of functions, most of them NumPy's. Each does what the function does whose
// name is in its body, where shapes, dtypes and errors are documented.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>

#include "ferrite/core/tensor.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

namespace ferrite {

/// abs().
inline Tensor absolute(const Tensor& x) { return abs(x); }
/// neg().
inline Tensor negative(const Tensor& x) { return neg(x); }
/// acos().
inline Tensor arccos(const Tensor& x) { return acos(x); }
/// asin().
inline Tensor arcsin(const Tensor& x) { return asin(x); }
/// atan().
inline Tensor arctan(const Tensor& x) { return atan(x); }
/// acosh().
inline Tensor arccosh(const Tensor& x) { return acosh(x); }
/// asinh().
inline Tensor arcsinh(const Tensor& x) { return asinh(x); }
/// atanh().
inline Tensor arctanh(const Tensor& x) { return atanh(x); }
/// trunc().
inline Tensor fix(const Tensor& x) { return trunc(x); }
/// sub().
inline Tensor subtract(const Tensor& a, const Tensor& b, Scalar alpha = 1) {
  return sub(a, b, alpha);
}
inline Tensor subtract(const Tensor& a, Scalar b) { return sub(a, b); }
/// mul().
inline Tensor multiply(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor multiply(const Tensor& a, Scalar b) { return mul(a, b); }
/// div().
inline Tensor divide(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor divide(const Tensor& a, Scalar b) { return div(a, b); }
/// div().
inline Tensor true_divide(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor true_divide(const Tensor& a, Scalar b) { return div(a, b); }
/// gt().
inline Tensor greater(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor greater(const Tensor& a, Scalar b) { return gt(a, b); }
/// ge().
inline Tensor greater_equal(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor greater_equal(const Tensor& a, Scalar b) { return ge(a, b); }
/// lt().
inline Tensor less(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor less(const Tensor& a, Scalar b) { return lt(a, b); }
/// le().
inline Tensor less_equal(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor less_equal(const Tensor& a, Scalar b) { return le(a, b); }
/// ne().
inline Tensor not_equal(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor not_equal(const Tensor& a, Scalar b) { return ne(a, b); }
/// atan2().
inline Tensor arctan2(const Tensor& a, const Tensor& b) { return atan2(a, b); }
/// clamp().
inline Tensor clip(const Tensor& x, std::optional<Scalar> min, std::optional<Scalar> max = {}) {
  return clamp(x, min, max);
}
/// outer().
inline Tensor ger(const Tensor& a, const Tensor& b) { return outer(a, b); }
/// movedim().
inline Tensor moveaxis(const Tensor& x, const Shape& source, const Shape& destination) {
  return movedim(x, source, destination);
}
inline Tensor moveaxis(const Tensor& x, int source, int destination) {
  return movedim(x, source, destination);
}
/// cat().
inline Tensor concat(std::span<const Tensor> tensors, int dim = 0) { return cat(tensors, dim); }
inline Tensor concat(std::initializer_list<Tensor> tensors, int dim = 0) {
  return cat(tensors, dim);
}
/// cat().
inline Tensor concatenate(std::span<const Tensor> tensors, int dim = 0) {
  return cat(tensors, dim);
}
inline Tensor concatenate(std::initializer_list<Tensor> tensors, int dim = 0) {
  return cat(tensors, dim);
}
/// nonzero().
inline Tensor argwhere(const Tensor& x) { return nonzero(x); }
/// vstack().
inline Tensor row_stack(std::span<const Tensor> tensors) { return vstack(tensors); }
inline Tensor row_stack(std::initializer_list<Tensor> tensors) { return vstack(tensors); }

}  // namespace ferrite
