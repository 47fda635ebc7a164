#include "ferrite/kernels/cuda/vendor/cufft/library.h"

namespace ferrite::kernels::cuda::vendor {

FoundCufft find_cufft() {
  FoundCufft found;
#define FERRITE_CUFFT_TAKE(member, name) found.functions.member = &::name;
  FERRITE_CUFFT_FUNCTIONS(FERRITE_CUFFT_TAKE)
#undef FERRITE_CUFFT_TAKE
  return found;
}

}  // namespace ferrite::kernels::cuda::vendor
