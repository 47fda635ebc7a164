// What ferrite::cpu_only adds to a program: definitions of all CUDA kernels that take no space. The
// linker finds them before it looks into the library of kernels, and leaves the real ones there.
#include "ferrite/core/error.h"

extern "C" {

/// core/cuda/device.cpp finds no devices in programs that have it.
extern const bool ferrite_cpu_only;
const bool ferrite_cpu_only = true;

[[noreturn]] void ferrite_no_cuda_kernels();
void ferrite_no_cuda_kernels() {
  ferrite::fail<ferrite::DeviceError>(
      "cuda", "this program is linked with ferrite::cpu_only, so it has no CUDA kernels");
}

}  // extern "C"

asm(
#include "cpu_only_symbols.inc"
);
