// The seam between our own products and convolutions and those of a vendor's library.
//
// cuda::matmul, cuda::conv2d, cuda::conv2d_data and cuda::conv2d_weight (kernels/cuda/matmul.h and
// conv.h) are what kernels/*.cpp calls for a CUDA device. They are the choosers: few lines, in
// kernels/cuda/matmul.cpp and conv.cpp, that may hand a call to a library and else call the entry
// point of the same name and arguments below. What lies behind this seam
//   - takes every call that kernels/matmul.h and kernels/conv.h allow: any strides (0 as well),
//     sizes, alignment and dtype, so a library need take only what it is good at;
//   - is deterministic: the same bits on every run and every GPU;
//   - takes scratch memory from the stream's allocator only, never waits, and can be captured;
//   - uses tensor cores for 16-bit types, with float sums, and never rounds float32 inputs.
// A library's side is to answer "not mine" before it does anything, as oneDNN's does on the CPU.
#pragma once

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cuda::own {

void matmul(const Stream& stream, const View& out, const View& a, const View& b,
            const MatmulOptions& options);

void conv2d(const Stream& stream, const View& out, const View& input, const View& weight,
            const View& bias, const ConvParams& params);
void conv2d_data(const Stream& stream, const View& grad_input, const View& grad, const View& weight,
                 const View& bias, const ConvParams& params);
void conv2d_weight(const Stream& stream, const View& grad_weight, const View& grad_bias,
                   const View& input, const View& grad, const ConvParams& params);

}  // namespace ferrite::kernels::cuda::own
