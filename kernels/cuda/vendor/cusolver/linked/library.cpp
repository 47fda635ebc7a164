#include "ferrite/kernels/cuda/vendor/cusolver/library.h"

namespace ferrite::kernels::cuda::solver {

const Library* library() {
  static const Library functions = [] {
    Library found;
#define FERRITE_CUSOLVER_TAKE(file, member, name) found.member = &::name;
    FERRITE_CUSOLVER_FUNCTIONS(FERRITE_CUSOLVER_TAKE)
#undef FERRITE_CUSOLVER_TAKE
    return found;
  }();
  return &functions;
}

}  // namespace ferrite::kernels::cuda::solver
