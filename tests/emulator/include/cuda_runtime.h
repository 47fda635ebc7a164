// Shadows NVIDIA's header of this name on the include path of a host compiler: the same
// declarations, plus the language of device code.
#pragma once
#pragma GCC system_header  // for #include_next, which pedantic compilers warn of

#ifdef __CUDACC__
#error "the emulator's cuda_runtime.h is for host compilers: keep it off nvcc's include path"
#endif
#define FERRITE_EMULATOR 1

#include_next <cuda_runtime.h>

#undef __shared__
#undef __launch_bounds__
#undef __cluster_dims__
#undef __grid_constant__
#define __shared__ static
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__

#include "ferrite/emulator/arithmetic.h"
#include "ferrite/emulator/atomics.h"
#include "ferrite/emulator/block.h"
#include "ferrite/emulator/launch.h"
#include "ferrite/emulator/mma.h"
#include "ferrite/emulator/runtime_templates.h"
#include "ferrite/emulator/warp.h"
