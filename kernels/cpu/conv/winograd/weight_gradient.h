// The gradient of a convolution of 3 x 3 or 5 x 5 taps by its weights, the transpose of Winograd's
// convolution (kernels/cpu/conv/winograd/transform.h), with as few multiplications: with V = B^T x
// B of each tile of inputs and Q = A dy A^T of the gradients of its results, dU = the sum over
// tiles of V Q is a product of matrices at each point, and dW = G^T dU G.
#pragma once

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/cpu/conv/image.h"

namespace ferrite::kernels::cpu::winograd {

/// Cycles, or multiplications of vectors, with tiles of `results` x `results` results, 2 or with
/// 3 x 3 taps 4. `in` and `grad` are the images of one group.
template <class S>
std::int64_t weight_gradient_cost(const Images<const S>& in, const Images<const S>& grad,
                                  int results, int taps);

/// Writes the gradient by the weights, with strides by (output channel, input channel, kernel row,
/// kernel column), and that by the bias unless it is null. Strides and dilations of the convolution
/// are 1. For float and double; the bits do not depend on the number of threads.
template <class S>
void weight_gradient(int results, int taps, const Images<const S>& in, const Images<const S>& grad,
                     const ConvParams& params, S* out, const std::int64_t* strides, S* bias,
                     std::int64_t bias_step);

}  // namespace ferrite::kernels::cpu::winograd
