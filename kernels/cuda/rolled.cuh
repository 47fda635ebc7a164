// Loops that stay loops.
#pragma once

// Before a loop: that a kernel's code need not hold it several times over.
#if defined(__CUDA_ARCH__)
#define FERRITE_ROLLED _Pragma("unroll 1")
#else
#define FERRITE_ROLLED
#endif
