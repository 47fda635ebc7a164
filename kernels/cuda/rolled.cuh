// Loops that stay loops.
#pragma once

// Precedes a loop that must not be unrolled, to keep the kernel's code small.
#if defined(__CUDA_ARCH__)
#define FERRITE_ROLLED _Pragma("unroll 1")
#else
#define FERRITE_ROLLED
#endif
