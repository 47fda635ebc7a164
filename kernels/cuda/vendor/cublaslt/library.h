#pragma once

#include <cublasLt.h>

namespace ferrite::kernels::cuda::vendor {

/// cuBLASLt's functions, by their names without the prefix.
struct CublasLt {
  decltype(&::cublasLtGetVersion) get_version = nullptr;
  decltype(&::cublasLtGetStatusName) status_name = nullptr;
  decltype(&::cublasLtGetStatusString) status_string = nullptr;
  decltype(&::cublasLtCreate) create = nullptr;
  decltype(&::cublasLtMatmul) matmul = nullptr;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;
  decltype(&::cublasLtMatmulDescInit_internal) init_product = nullptr;
  decltype(&::cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&::cublasLtMatmulPreferenceInit_internal) init_preference = nullptr;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&::cublasLtMatrixLayoutInit_internal) init_layout = nullptr;
  decltype(&::cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
};

/// Whether the library could be loaded; only then may cublaslt() be called.
bool has_cublaslt();
const CublasLt& cublaslt();

}  // namespace ferrite::kernels::cuda::vendor
