// Factors of matrices [..., rows, columns] of float32 or float64, without gradients: cuSOLVER finds
// them on a CUDA device that has it, Eigen otherwise, from a copy on the host. For ops/linalg.cpp
// alone.
//
// Results are on the device of the argument. ValueErrors are tagged with `op`, as those of
// kernels/linalg.h are; on a CUDA device, functions that throw them wait for it.
#pragma once

#include <initializer_list>
#include <tuple>

#include "ferrite/core/tensor.h"

namespace ferrite::ops::factors {

/// The dimensions before those of the matrices.
Shape batch_shape(const Tensor& x);
Shape joined(Shape batch, std::initializer_list<std::int64_t> sizes);

/// The lower triangle L with L L^T = x.
Tensor cholesky(const char* op, const Tensor& x);
/// a^-1 b; the two have the same batch.
Tensor solve(const char* op, const Tensor& a, const Tensor& b);
/// Sign and logarithm, [...].
std::tuple<Tensor, Tensor> slogdet(const char* op, const Tensor& x);
/// q [..., rows, k] and r [..., k, columns].
std::tuple<Tensor, Tensor> qr(const char* op, const Tensor& x, std::int64_t k);
/// Values [..., rows], and vectors.
std::tuple<Tensor, Tensor> eigh(const char* op, const Tensor& x);
/// u, s and vh; the two matrices are square if `full`.
std::tuple<Tensor, Tensor, Tensor> svd(const char* op, const Tensor& x, bool full);

}  // namespace ferrite::ops::factors
