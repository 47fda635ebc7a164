// The functions of cuBLASLt that Ferrite uses. Products are done in the order of their stream, and
// are entered in the ledger; cublasLtMatmulAlgoGetHeuristic() finds one algorithm for each problem
// that the documentation allows, and none for others.
#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "ferrite/emulator/emulator.h"
#include "ferrite/emulator/ledger.h"
#include "ferrite/tests/emulator/cublaslt/product.h"

struct cublasLtContext {};

namespace {

using emulator::cublaslt::Description;
using emulator::cublaslt::Layout;
using emulator::cublaslt::Product;

template <class T, class Opaque>
T read(const Opaque* from) {
  T value{};
  std::memcpy(static_cast<void*>(&value), from, sizeof value);
  return value;
}

template <class T, class Opaque>
void write(Opaque* to, const T& value) {
  std::memcpy(static_cast<void*>(to), &value, sizeof value);
}

/// Sets a field from an attribute's bytes.
template <class T>
cublasStatus_t take(T& field, const void* from, std::size_t bytes) {
  if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

Product product_of(const cublasLtMatmulDescOpaque_t* description,
                   const cublasLtMatrixLayoutOpaque_t* left,
                   const cublasLtMatrixLayoutOpaque_t* right,
                   const cublasLtMatrixLayoutOpaque_t* out) {
  return {.description = read<Description>(description),
          .left = read<Layout>(left),
          .right = read<Layout>(right),
          .out = read<Layout>(out)};
}

double number(const void* from, cudaDataType_t type) {
  return type == CUDA_R_64F ? *static_cast<const double*>(from)
                            : static_cast<double>(*static_cast<const float*>(from));
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
const char* cublasLtGetStatusName(cublasStatus_t) { return "CUBLAS_STATUS"; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "refused by the emulator's cuBLASLt"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t to, size_t bytes,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  if (bytes < sizeof(Description)) return CUBLAS_STATUS_ALLOC_FAILED;
  write(to, Description{.compute = compute, .scale = scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t to,
                                              cublasLtMatmulDescAttributes_t name, const void* from,
                                              size_t bytes) {
  auto d = read<Description>(to);
  const auto status = [&] {
    switch (name) {
      case CUBLASLT_MATMUL_DESC_TRANSA:
        return take(d.left, from, bytes);
      case CUBLASLT_MATMUL_DESC_TRANSB:
        return take(d.right, from, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return take(d.epilogue, from, bytes);
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return take(d.vector, from, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return take(d.auxiliary, from, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return take(d.auxiliary_leading, from, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
        return take(d.auxiliary_batch_stride, from, bytes);
      default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
  }();
  if (status == CUBLAS_STATUS_SUCCESS) write(to, d);
  return status;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t to, size_t bytes,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t leading) {
  if (bytes < sizeof(Layout)) return CUBLAS_STATUS_ALLOC_FAILED;
  write(to, Layout{.type = type, .rows = rows, .columns = columns, .leading = leading});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t to,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void* from, size_t bytes) {
  auto layout = read<Layout>(to);
  const cublasStatus_t status =
      name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT            ? take(layout.batch, from, bytes)
      : name == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET ? take(layout.batch_stride, from, bytes)
                                                            : CUBLAS_STATUS_NOT_SUPPORTED;
  if (status == CUBLAS_STATUS_SUCCESS) write(to, layout);
  return status;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t left,
                                              cublasLtMatrixLayout_t right, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t out,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t found[], int* count) {
  *count = 0;
  if (most < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (!product_of(description, left, right, out).is_supported()) return CUBLAS_STATUS_NOT_SUPPORTED;
  found[0] = {};
  found[0].state = CUBLAS_STATUS_SUCCESS;
  found[0].workspaceSize = 64;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t left,
                              const void* b, cublasLtMatrixLayout_t right, const void* beta,
                              const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t out, const cublasLtMatmulAlgo_t*,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  auto call = std::make_unique<Product>(product_of(description, left, right, out));
  if (!handle || !call->is_supported() || c != d || !workspace || workspace_bytes < 64)
    return CUBLAS_STATUS_INVALID_VALUE;
  call->left_data = a;
  call->right_data = b;
  call->out_data = d;
  call->alpha = number(alpha, call->description.scale);
  call->beta = number(beta, call->description.scale);
  const auto run = [](void* data) {
    const Product& p = *static_cast<const Product*>(data);
    emulator::enter_library_call({.name = "cublaslt product",
                                  .read = p.bytes_read(),
                                  .written = p.bytes_written(),
                                  .operations = p.operations()});
    emulator::libraries_compute() ? p.compute() : p.clear();
  };
  if (cudaLaunchHostFunc(stream, run, call.get()) != cudaSuccess)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  // Captured calls run again.
  static std::mutex& mutex = *new std::mutex;
  static auto& kept = *new std::vector<std::unique_ptr<Product>>;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(call));
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
