// The functions of cuSOLVER and cuBLAS for batches that Ferrite uses, with the contract of
// cusolver.cpp: matrices are read where arrays of addresses in device memory say, when the stream
// reaches the call.
#include <cublas_v2.h>
#include <cusolverDn.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "ferrite/tests/emulator/cusolver/routines.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
};
struct gesvdjInfo {};

namespace {

using namespace ferrite::emulator::solver;

constexpr int kWork = 77;  // elements for each matrix
constexpr std::int64_t kMostBatch = 32768;

template <class T>
constexpr cudaDataType type_of() {
  return sizeof(T) == sizeof(float) ? CUDA_R_32F : CUDA_R_64F;
}

template <class T>
Columns matrix(T* const* addresses, int i, int rows, int columns, int leading) {
  return {const_cast<void*>(static_cast<const void*>(addresses[i])), rows, columns, leading,
          type_of<T>()};
}

/// work(i) for every matrix, in the order of the stream.
template <class Status, class Work>
Status queue(cudaStream_t stream, bool valid, int batch, Status refused, Status failed, Work work) {
  if (!valid || batch < 0) return refused;
  const bool queued = enqueue(stream, [batch, work] {
    for (int i = 0; i < batch; ++i) work(i);
  });
  return queued ? Status{} : failed;
}

template <class Work>
cusolverStatus_t queue(cusolverDnHandle_t handle, bool valid, int batch, Work work) {
  if (!handle) return CUSOLVER_STATUS_NOT_INITIALIZED;
  return queue(handle->stream, valid, batch, CUSOLVER_STATUS_INVALID_VALUE,
               CUSOLVER_STATUS_EXECUTION_FAILED, work);
}
/// `info` is the host's, for arguments alone.
template <class Work>
cublasStatus_t queue(cublasHandle_t handle, bool valid, int* info, int batch, Work work) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (info) *info = valid ? 0 : -1;
  return queue(handle->stream, valid, batch, CUBLAS_STATUS_INVALID_VALUE,
               CUBLAS_STATUS_EXECUTION_FAILED, work);
}

template <class T>
cusolverStatus_t potrf_batched(cusolverDnHandle_t handle, cublasFillMode_t uplo, int n, T** a,
                               int lda, int* info, int batch) {
  return queue(handle, uplo == CUBLAS_FILL_MODE_UPPER && n > 0 && a && lda >= n && info, batch,
               [=](int i) { info[i] = potrf(matrix(a, i, n, n, lda)); });
}

bool takes_gesvdj(cusolverEigMode_t job, int m, int n, int lda, int ldu, int ldv, gesvdjInfo_t info,
                  int batch) {
  return job == CUSOLVER_EIG_MODE_VECTOR && m > 0 && n > 0 && m <= 32 && n <= 32 && lda >= m &&
         ldu >= m && ldv >= n && info && batch <= kMostBatch;
}

cusolverStatus_t gesvdj_size(bool valid, int* elements, int batch) {
  *elements = kWork * batch;
  return valid ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}

template <class T>
cusolverStatus_t gesvdj_batched(cusolverDnHandle_t handle, cusolverEigMode_t job, int m, int n,
                                T* a, int lda, T* s, T* u, int ldu, T* v, int ldv, T* work,
                                int lwork, int* info, gesvdjInfo_t params, int batch) {
  const bool valid = takes_gesvdj(job, m, n, lda, ldu, ldv, params, batch) && a && s && u && v &&
                     work && lwork >= kWork * batch && info;
  return queue(handle, valid, batch, [=](int i) {
    const cudaDataType type = type_of<T>();
    const std::int64_t at = i, least = std::min(m, n);
    std::memset(work + at * kWork, 0xff, kWork * sizeof(T));
    info[i] = gesvdj({a + at * lda * n, m, n, lda, type}, {u + at * ldu * m, m, m, ldu, type},
                     vector(s + at * least, least, type), {v + at * ldv * n, n, n, ldv, type});
  });
}

template <class T>
cublasStatus_t getrf_batched(cublasHandle_t handle, int n, T* const* a, int lda, int* pivots,
                             int* info, int batch) {
  return queue(handle, n > 0 && a && lda >= n && pivots && info, nullptr, batch, [=](int i) {
    info[i] = getrf(matrix(a, i, n, n, lda), pivots + std::int64_t{i} * n);
  });
}

template <class T>
cublasStatus_t getrs_batched(cublasHandle_t handle, cublasOperation_t trans, int n, int nrhs,
                             const T* const* a, int lda, const int* pivots, T* const* b, int ldb,
                             int* info, int batch) {
  const bool valid =
      trans == CUBLAS_OP_N && n > 0 && nrhs > 0 && a && lda >= n && pivots && b && ldb >= n && info;
  return queue(handle, valid, info, batch, [=](int i) {
    getrs(matrix(a, i, n, n, lda), pivots + std::int64_t{i} * n, matrix(b, i, n, nrhs, ldb));
  });
}

template <class T>
cublasStatus_t geqrf_batched(cublasHandle_t handle, int m, int n, T* const* a, int lda,
                             T* const* tau, int* info, int batch) {
  return queue(handle, m > 0 && n > 0 && a && lda >= m && tau && info, info, batch, [=](int i) {
    const int k = std::min(m, n);
    geqrf(matrix(a, i, m, n, lda), matrix(tau, i, k, 1, k));
  });
}

}  // namespace

extern "C" {

cusolverStatus_t cusolverDnSpotrfBatched(cusolverDnHandle_t handle, cublasFillMode_t uplo, int n,
                                         float* a[], int lda, int* info, int batch) {
  return potrf_batched(handle, uplo, n, a, lda, info, batch);
}
cusolverStatus_t cusolverDnDpotrfBatched(cusolverDnHandle_t handle, cublasFillMode_t uplo, int n,
                                         double* a[], int lda, int* info, int batch) {
  return potrf_batched(handle, uplo, n, a, lda, info, batch);
}

cusolverStatus_t cusolverDnXsyevBatched_bufferSize(cusolverDnHandle_t, cusolverDnParams_t,
                                                   cusolverEigMode_t, cublasFillMode_t,
                                                   std::int64_t n, cudaDataType, const void*,
                                                   std::int64_t lda, cudaDataType, const void*,
                                                   cudaDataType, std::size_t* device,
                                                   std::size_t* host, std::int64_t batch) {
  *device = static_cast<std::size_t>(kWork * batch);
  *host = kWork;
  const bool valid = n > 0 && lda >= n && batch > 0 && batch <= kMostBatch &&
                     n * lda * batch <= std::numeric_limits<int>::max();
  return valid ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}
cusolverStatus_t cusolverDnXsyevBatched(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                        cusolverEigMode_t job, cublasFillMode_t uplo,
                                        std::int64_t n, cudaDataType type, void* a,
                                        std::int64_t lda, cudaDataType type_w, void* values,
                                        cudaDataType compute, void* device,
                                        std::size_t device_bytes, void* host,
                                        std::size_t host_bytes, int* info, std::int64_t batch) {
  std::size_t wants_device = 0, wants_host = 0;
  const bool valid = cusolverDnXsyevBatched_bufferSize(
                         handle, params, job, uplo, n, type, a, lda, type_w, values, compute,
                         &wants_device, &wants_host, batch) == CUSOLVER_STATUS_SUCCESS &&
                     job == CUSOLVER_EIG_MODE_VECTOR && uplo == CUBLAS_FILL_MODE_UPPER &&
                     type_w == type && compute == type && a && values && device &&
                     device_bytes >= wants_device && host && host_bytes >= wants_host && info;
  const std::int64_t bytes = type == CUDA_R_32F ? 4 : 8;
  return queue(handle, valid, static_cast<int>(batch), [=](int i) {
    if (i == 0) {
      std::memset(device, 0xff, wants_device);
      std::memset(host, 0xff, wants_host);
    }
    info[i] = syevd({static_cast<char*>(a) + i * lda * n * bytes, n, n, lda, type},
                    vector(static_cast<char*>(values) + i * n * bytes, n, type));
  });
}

cusolverStatus_t cusolverDnCreateGesvdjInfo(gesvdjInfo_t* info) {
  *info = new gesvdjInfo;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnSgesvdjBatched_bufferSize(cusolverDnHandle_t, cusolverEigMode_t job,
                                                     int m, int n, const float*, int lda,
                                                     const float*, const float*, int ldu,
                                                     const float*, int ldv, int* lwork,
                                                     gesvdjInfo_t params, int batch) {
  return gesvdj_size(takes_gesvdj(job, m, n, lda, ldu, ldv, params, batch), lwork, batch);
}
cusolverStatus_t cusolverDnDgesvdjBatched_bufferSize(cusolverDnHandle_t, cusolverEigMode_t job,
                                                     int m, int n, const double*, int lda,
                                                     const double*, const double*, int ldu,
                                                     const double*, int ldv, int* lwork,
                                                     gesvdjInfo_t params, int batch) {
  return gesvdj_size(takes_gesvdj(job, m, n, lda, ldu, ldv, params, batch), lwork, batch);
}
cusolverStatus_t cusolverDnSgesvdjBatched(cusolverDnHandle_t handle, cusolverEigMode_t job, int m,
                                          int n, float* a, int lda, float* s, float* u, int ldu,
                                          float* v, int ldv, float* work, int lwork, int* info,
                                          gesvdjInfo_t params, int batch) {
  return gesvdj_batched(handle, job, m, n, a, lda, s, u, ldu, v, ldv, work, lwork, info, params,
                        batch);
}
cusolverStatus_t cusolverDnDgesvdjBatched(cusolverDnHandle_t handle, cusolverEigMode_t job, int m,
                                          int n, double* a, int lda, double* s, double* u, int ldu,
                                          double* v, int ldv, double* work, int lwork, int* info,
                                          gesvdjInfo_t params, int batch) {
  return gesvdj_batched(handle, job, m, n, a, lda, s, u, ldu, v, ldv, work, lwork, info, params,
                        batch);
}

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "failure";
}

cublasStatus_t cublasSgetrfBatched(cublasHandle_t handle, int n, float* const a[], int lda,
                                   int* pivots, int* info, int batch) {
  return getrf_batched(handle, n, a, lda, pivots, info, batch);
}
cublasStatus_t cublasDgetrfBatched(cublasHandle_t handle, int n, double* const a[], int lda,
                                   int* pivots, int* info, int batch) {
  return getrf_batched(handle, n, a, lda, pivots, info, batch);
}
cublasStatus_t cublasSgetrsBatched(cublasHandle_t handle, cublasOperation_t trans, int n, int nrhs,
                                   const float* const a[], int lda, const int* pivots,
                                   float* const b[], int ldb, int* info, int batch) {
  return getrs_batched(handle, trans, n, nrhs, a, lda, pivots, b, ldb, info, batch);
}
cublasStatus_t cublasDgetrsBatched(cublasHandle_t handle, cublasOperation_t trans, int n, int nrhs,
                                   const double* const a[], int lda, const int* pivots,
                                   double* const b[], int ldb, int* info, int batch) {
  return getrs_batched(handle, trans, n, nrhs, a, lda, pivots, b, ldb, info, batch);
}
cublasStatus_t cublasSgeqrfBatched(cublasHandle_t handle, int m, int n, float* const a[], int lda,
                                   float* const tau[], int* info, int batch) {
  return geqrf_batched(handle, m, n, a, lda, tau, info, batch);
}
cublasStatus_t cublasDgeqrfBatched(cublasHandle_t handle, int m, int n, double* const a[], int lda,
                                   double* const tau[], int* info, int batch) {
  return geqrf_batched(handle, m, n, a, lda, tau, info, batch);
}

}  // extern "C"
