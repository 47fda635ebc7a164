#include "ferrite/kernels/cuda/vendor/cublaslt/library.h"

#include "ferrite/core/cuda/shared_library.h"

namespace ferrite::kernels::cuda::vendor {

namespace {

struct Loaded {
  ferrite::cuda::SharedLibrary library{FERRITE_CUBLASLT_FOLDER,
                                       "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)};
  CublasLt functions;

  Loaded() {
    CublasLt& f = functions;
    library.find(f.get_version, "cublasLtGetVersion");
    library.find(f.status_name, "cublasLtGetStatusName");
    library.find(f.status_string, "cublasLtGetStatusString");
    library.find(f.create, "cublasLtCreate");
    library.find(f.matmul, "cublasLtMatmul");
    library.find(f.get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
    library.find(f.init_product, "cublasLtMatmulDescInit_internal");
    library.find(f.set_product, "cublasLtMatmulDescSetAttribute");
    library.find(f.init_preference, "cublasLtMatmulPreferenceInit_internal");
    library.find(f.set_preference, "cublasLtMatmulPreferenceSetAttribute");
    library.find(f.init_layout, "cublasLtMatrixLayoutInit_internal");
    library.find(f.set_layout, "cublasLtMatrixLayoutSetAttribute");
  }
};

const Loaded& loaded() {
  static const Loaded& instance = *new Loaded;
  return instance;
}

}  // namespace

bool has_cublaslt() { return loaded().library.is_complete(); }
const CublasLt& cublaslt() { return loaded().functions; }

}  // namespace ferrite::kernels::cuda::vendor
