// Batch norm's affine step and the ReLU after it, with the same bits in forward and backward.
#pragma once

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cuda {

__device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double multiply_add(double a, double b, double c) {
  return fma(a, b, c);
}

/// `deviation` is in - mean. The mean is subtracted first, because a mean far from zero must not
/// cancel against the bias.
template <class S>
__device__ __forceinline__ S affine(S deviation, S scale, S shift) {
  return multiply_add(deviation, scale, shift);
}

/// NaN stays.
template <class S>
__device__ __forceinline__ S relu(S x) {
  return x < S(0) ? S(0) : x;
}

/// The gradient of a ReLU's input, from the gradient `g` of its output; `x` is its input or output.
template <class S, class T>
__device__ __forceinline__ S pass(S g, T x) {
  return static_cast<S>(x) <= S(0) ? S(0) : g;
}

}  // namespace ferrite::kernels::cuda
