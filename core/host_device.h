// Marks functions callable from kernels as well as from the host.
#pragma once

#if defined(__CUDACC__)
#define FERRITE_HOST_DEVICE __host__ __device__
#else
#define FERRITE_HOST_DEVICE
#endif
