#include "ferrite/kernels/cuda/vendor/cublaslt/library.h"

#include "ferrite/emulator/emulator.h"

namespace ferrite::kernels::cuda::vendor {

bool has_cublaslt() { return emulator::has_cublaslt(); }

const CublasLt& cublaslt() {
  static const CublasLt functions{&cublasLtGetVersion,
                                  &cublasLtGetStatusName,
                                  &cublasLtGetStatusString,
                                  &cublasLtCreate,
                                  &cublasLtMatmul,
                                  &cublasLtMatmulAlgoGetHeuristic,
                                  &cublasLtMatmulDescInit_internal,
                                  &cublasLtMatmulDescSetAttribute,
                                  &cublasLtMatmulPreferenceInit_internal,
                                  &cublasLtMatmulPreferenceSetAttribute,
                                  &cublasLtMatrixLayoutInit_internal,
                                  &cublasLtMatrixLayoutSetAttribute};
  return functions;
}

}  // namespace ferrite::kernels::cuda::vendor
