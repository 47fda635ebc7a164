// The seam between our own products and convolutions and those of a vendor's library.
//
// cuda::matmul, cuda::conv2d, cuda::conv2d_data and cuda::conv2d_weight, in kernels/cuda/matmul.cpp
// and conv.cpp, only choose: they hand a call to a library, or else to the function of the same
// name and arguments below. What lies behind this seam
//   - takes every call that kernels/matmul.h and kernels/conv.h allow: any strides (0 as well),
//     sizes, alignment and dtype, so a library need take only what it is good at;
//   - is deterministic: the same bits on every run and every GPU;
//   - takes scratch memory from the stream's allocator only, never waits, and can be captured;
//   - uses tensor cores for 16-bit types, with float sums, and never rounds float32 inputs.
// A library's side is to answer "not mine" before it does anything.
#pragma once

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cuda::native {

decltype(cuda::matmul) matmul;
decltype(cuda::conv2d) conv2d;
decltype(cuda::conv2d_data) conv2d_data;
decltype(cuda::conv2d_weight) conv2d_weight;

}  // namespace ferrite::kernels::cuda::native
