// cuFFT through its C interface. The library is loaded on first use; only its header is needed to
// build.
#pragma once

#include <cufft.h>

#include <string>

namespace ferrite::kernels::cuda::vendor {

// The functions used: the member's name, and the symbol's.
#define FERRITE_CUFFT_FUNCTIONS(F)               \
  F(get_version, cufftGetVersion)                \
  F(create, cufftCreate)                         \
  F(destroy, cufftDestroy)                       \
  F(set_auto_allocation, cufftSetAutoAllocation) \
  F(make_plan, cufftMakePlanMany64)              \
  F(set_stream, cufftSetStream)                  \
  F(set_work_area, cufftSetWorkArea)             \
  F(c2c, cufftExecC2C)                           \
  F(z2z, cufftExecZ2Z)                           \
  F(r2c, cufftExecR2C)                           \
  F(d2z, cufftExecD2Z)                           \
  F(c2r, cufftExecC2R)                           \
  F(z2d, cufftExecZ2D)

struct Cufft {
#define FERRITE_CUFFT_MEMBER(member, name) decltype(&::name) member = nullptr;
  FERRITE_CUFFT_FUNCTIONS(FERRITE_CUFFT_MEMBER)
#undef FERRITE_CUFFT_MEMBER
};

/// The functions, and why they are missing, or "": loaded/ takes them from a shared library,
/// linked/ from the program itself, with the emulator's.
struct FoundCufft {
  Cufft functions;
  std::string why_not;
};
FoundCufft find_cufft();

}  // namespace ferrite::kernels::cuda::vendor
