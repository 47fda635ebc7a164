#include "ferrite/kernels/cuda/vendor/cusolver/library.h"

#include "ferrite/core/cuda/shared_library.h"

namespace ferrite::kernels::cuda::solver {

namespace {

struct Loaded {
  ferrite::cuda::SharedLibrary solver{FERRITE_CUSOLVER_FOLDER,
                                      "libcusolver.so." + std::to_string(CUSOLVER_VER_MAJOR)};
  // The one that cuSOLVER has loaded, which the loader finds by its name.
  ferrite::cuda::SharedLibrary blas{"", "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR)};
  Library functions;

  Loaded() {
#define FERRITE_CUSOLVER_FIND(file, member, name) file.find(functions.member, #name);
    FERRITE_CUSOLVER_FUNCTIONS(FERRITE_CUSOLVER_FIND)
#undef FERRITE_CUSOLVER_FIND
  }
};

}  // namespace

const Library* library() {
  static const Loaded& loaded = *new Loaded;
  return loaded.solver.is_complete() && loaded.blas.is_complete() ? &loaded.functions : nullptr;
}

}  // namespace ferrite::kernels::cuda::solver
