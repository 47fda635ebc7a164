#include "ferrite/kernels/cuda/vendor/cufft/library.h"

#include "ferrite/core/cuda/shared_library.h"

namespace ferrite::kernels::cuda::vendor {

FoundCufft find_cufft() {
  auto& library = *new ferrite::cuda::SharedLibrary(
      FERRITE_CUFFT_FOLDER, "libcufft.so." + std::to_string(CUFFT_VER_MAJOR));
  FoundCufft found;
#define FERRITE_CUFFT_FIND(member, name) library.find(found.functions.member, #name);
  FERRITE_CUFFT_FUNCTIONS(FERRITE_CUFFT_FIND)
#undef FERRITE_CUFFT_FIND
  found.why_not = library.why_not();
  return found;
}

}  // namespace ferrite::kernels::cuda::vendor
