// NVIDIA's header, plus the parts it hides from host compilers.
#pragma once
#pragma GCC system_header

#include_next <cuda_bf16.h>

#include "ferrite/emulator/bfloat16.h"
