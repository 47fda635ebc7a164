// Factors of matrices on a CUDA device, by cuSOLVER. For ops/linalg.cpp alone.
//
// Batches [n, rows, columns] of float32 or float64, contiguous, none of them empty; results are
// contiguous too. ValueErrors are tagged with `op`, as those of kernels/linalg.h are; functions
// that throw them wait for the device.
#pragma once

#include <tuple>
#include <utility>

#include "ferrite/core/tensor.h"

namespace ferrite::ops::device_linalg {

/// Whether `x` is of a CUDA device, not empty, and cuSOLVER serves there.
bool takes(const Tensor& x);

Tensor cholesky(const char* op, const Tensor& x);
Tensor solve(const char* op, const Tensor& a, const Tensor& b);
/// Sign and logarithm, [n].
std::pair<Tensor, Tensor> slogdet(const Tensor& x);
/// q [n, rows, k] and r [n, k, columns].
std::pair<Tensor, Tensor> qr(const Tensor& x, std::int64_t k);
/// Values [n, rows], and vectors.
std::pair<Tensor, Tensor> eigh(const char* op, const Tensor& x);
std::tuple<Tensor, Tensor, Tensor> svd(const char* op, const Tensor& x, bool full);

}  // namespace ferrite::ops::device_linalg
