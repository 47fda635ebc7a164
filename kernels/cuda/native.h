// The boundary between our own matrix products and convolutions and those of vendor libraries.
//
// cuda::matmul, cuda::conv2d, cuda::conv2d_data and cuda::conv2d_weight, in kernels/cuda/matmul.cpp
// and conv.cpp, only choose: they pass a call to a library, or else to the function of the same
// name and arguments below. These functions
//   - accept every call that kernels/matmul.h and kernels/conv.h allow: any strides (including 0),
//     sizes, alignment and dtype, so that a library need only accept what it is good at;
//   - are deterministic: the same bits on every run and every GPU;
//   - take scratch memory only from the stream's allocator, never wait, and can be captured;
//   - use tensor cores for 16-bit types, with float32 sums, and never round float32 inputs.
// The code of a library must decline a call before it does any work.
#pragma once

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cuda::native {

decltype(cuda::matmul) matmul;
decltype(cuda::conv2d) conv2d;
decltype(cuda::conv2d_data) conv2d_data;
decltype(cuda::conv2d_weight) conv2d_weight;

}  // namespace ferrite::kernels::cuda::native
