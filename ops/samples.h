// Covariances, distances, integrals of samples, and other functions of whole tensors or slices that
// are made of other ops.
#pragma once

#include "ferrite/core/tensor.h"

namespace ferrite {

/// The covariances of variables, which are the rows of x [n, observations], or of one variable
/// [observations]: [n, n], or [] of one. The divisor is the number of observations less
/// `correction`. `fweights` [observations], integers of 0 or more (DTypeError), say how often each
/// occurs; `aweights` [observations], floating and 0 or more, how much each counts. Undefined
/// weights are 1. ShapeError for more dimensions, ValueError for negative weights, and for weights
/// of 0 alone, for which it waits for the device. DTypeError for bool.
///
///   Tensor c = cov(x);  // x [3, 100] gives [3, 3]
Tensor cov(const Tensor& x, int correction = 1, const Tensor& fweights = {},
           const Tensor& aweights = {});
/// The correlation coefficients of the variables, which are the rows of x as of cov(): [n, n] in
/// [-1, 1], NaN for constant variables.
Tensor corrcoef(const Tensor& x);
/// The sum of conj(a) * b for vectors [n]; otherwise as dot().
Tensor vdot(const Tensor& a, const Tensor& b);
/// sort() along the first dimension, the values alone.
Tensor msort(const Tensor& x);

/// The integral of samples y along `dim` by trapezoids, at distances of `dx`. DTypeError for bool,
/// ShapeError for no dimensions.
Tensor trapezoid(const Tensor& y, double dx = 1, int dim = -1);
/// The same at the places x, [n] or of a shape that broadcasts to that of y (ShapeError).
Tensor trapezoid(const Tensor& y, const Tensor& x, int dim = -1);
/// trapezoid().
inline Tensor trapz(const Tensor& y, double dx = 1, int dim = -1) { return trapezoid(y, dx, dim); }
inline Tensor trapz(const Tensor& y, const Tensor& x, int dim = -1) { return trapezoid(y, x, dim); }
/// The integrals up to each sample but the first, of one element less along `dim`.
Tensor cumulative_trapezoid(const Tensor& y, double dx = 1, int dim = -1);
/// The same at the places x, as of trapezoid().
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int dim = -1);

}  // namespace ferrite
