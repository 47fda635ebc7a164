// The functions of cuSOLVER that Ferrite uses, on the host by Eigen, in float64.
//
// They keep cuSOLVER's contract: matrices are column-major with leading dimensions, work is done in
// the order of the handle's stream, info is written on the device, triangles that are not named are
// left alone, and scratch memory on the device and on the host is used until the work is done. What
// the documentation forbids is CUSOLVER_STATUS_INVALID_VALUE.
#include <cusolverDn.h>

#include <cstring>
#include <functional>

#include "ferrite/tests/emulator/cusolver/routines.h"

struct cusolverDnParams {};

namespace {

using namespace ferrite::emulator::solver;

constexpr std::size_t kDeviceBytes = 640, kHostBytes = 96;

/// Scratch memory that a routine was given.
struct Scratch {
  void* device;
  std::size_t device_bytes;
  void* host;
  std::size_t host_bytes;

  bool is_enough(bool wants_host) const {
    return device && device_bytes >= kDeviceBytes &&
           (!wants_host || (host && host_bytes >= kHostBytes));
  }
  void use() const {
    if (device) std::memset(device, 0xff, device_bytes);
    if (host) std::memset(host, 0xff, host_bytes);
  }
};

cusolverStatus_t sizes(bool valid, std::size_t* device, std::size_t* host, bool wants_host) {
  if (!valid || !device || !host) return CUSOLVER_STATUS_INVALID_VALUE;
  *device = kDeviceBytes;
  *host = wants_host ? kHostBytes : 0;
  return CUSOLVER_STATUS_SUCCESS;
}

/// Does work in the order of the handle's stream; its result is the info.
cusolverStatus_t queue(cusolverDnHandle_t handle, bool valid, const Scratch& scratch, int* info,
                       std::function<int()> work) {
  if (!handle) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (!valid || !info) return CUSOLVER_STATUS_INVALID_VALUE;
  const bool queued = enqueue(handle->stream, [scratch, info, work = std::move(work)] {
    scratch.use();
    *info = work();
  });
  return queued ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_EXECUTION_FAILED;
}

template <class T>
cusolverStatus_t orgqr_of(cusolverDnHandle_t handle, int m, int n, int k, T* a, int lda,
                          const T* tau, T* work, int lwork, int* info, cudaDataType type) {
  const Columns matrix{a, m, n, lda, type};
  const std::size_t bytes = lwork < 0 ? 0 : static_cast<std::size_t>(lwork) * sizeof(T);
  const Scratch scratch{work, bytes, nullptr, 0};
  return queue(handle, matrix.is_valid() && m >= n && n >= k && k >= 0 && scratch.is_enough(false),
               scratch, info, [=] { return orgqr(matrix, vector(tau, k, type)); });
}

bool is_job(signed char job) { return job == 'A' || job == 'S'; }

}  // namespace

extern "C" {

cusolverStatus_t cusolverGetVersion(int* version) {
  *version = CUSOLVER_VERSION;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  *handle = new cusolverDnContext;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  if (!handle) return CUSOLVER_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* params) {
  *params = new cusolverDnParams;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t,
                                             cublasFillMode_t, std::int64_t n, cudaDataType type,
                                             const void* a, std::int64_t lda, cudaDataType,
                                             std::size_t* device, std::size_t* host) {
  return sizes(Columns{const_cast<void*>(a), n, n, lda, type}.is_valid(), device, host, false);
}
cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t handle, cusolverDnParams_t,
                                  cublasFillMode_t uplo, std::int64_t n, cudaDataType type, void* a,
                                  std::int64_t lda, cudaDataType compute, void* device,
                                  std::size_t device_bytes, void* host, std::size_t host_bytes,
                                  int* info) {
  const Columns matrix{a, n, n, lda, type};
  const Scratch scratch{device, device_bytes, host, host_bytes};
  return queue(handle,
               matrix.is_valid() && compute == type && uplo == CUBLAS_FILL_MODE_UPPER &&
                   scratch.is_enough(false),
               scratch, info, [=] { return potrf(matrix); });
}

cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, std::int64_t m,
                                             std::int64_t n, cudaDataType type, const void* a,
                                             std::int64_t lda, cudaDataType, std::size_t* device,
                                             std::size_t* host) {
  return sizes(m == n && Columns{const_cast<void*>(a), m, n, lda, type}.is_valid(), device, host,
               false);
}
cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t handle, cusolverDnParams_t, std::int64_t m,
                                  std::int64_t n, cudaDataType type, void* a, std::int64_t lda,
                                  std::int64_t* pivots, cudaDataType compute, void* device,
                                  std::size_t device_bytes, void* host, std::size_t host_bytes,
                                  int* info) {
  const Columns matrix{a, m, n, lda, type};
  const Scratch scratch{device, device_bytes, host, host_bytes};
  return queue(handle,
               m == n && matrix.is_valid() && pivots && compute == type && scratch.is_enough(false),
               scratch, info, [=] { return getrf(matrix, pivots); });
}
cusolverStatus_t cusolverDnXgetrs(cusolverDnHandle_t handle, cusolverDnParams_t,
                                  cublasOperation_t trans, std::int64_t n, std::int64_t nrhs,
                                  cudaDataType type, const void* a, std::int64_t lda,
                                  const std::int64_t* pivots, cudaDataType type_b, void* b,
                                  std::int64_t ldb, int* info) {
  const Columns factors{const_cast<void*>(a), n, n, lda, type}, right{b, n, nrhs, ldb, type_b};
  return queue(
      handle,
      factors.is_valid() && right.is_valid() && pivots && type == type_b && trans == CUBLAS_OP_N,
      {}, info, [=] { return getrs(factors, pivots, right); });
}

cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, std::int64_t m,
                                             std::int64_t n, cudaDataType type, const void* a,
                                             std::int64_t lda, cudaDataType, const void* tau,
                                             cudaDataType, std::size_t* device, std::size_t* host) {
  return sizes(tau && Columns{const_cast<void*>(a), m, n, lda, type}.is_valid(), device, host,
               false);
}
cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t handle, cusolverDnParams_t, std::int64_t m,
                                  std::int64_t n, cudaDataType type, void* a, std::int64_t lda,
                                  cudaDataType type_tau, void* tau, cudaDataType compute,
                                  void* device, std::size_t device_bytes, void* host,
                                  std::size_t host_bytes, int* info) {
  const Columns matrix{a, m, n, lda, type};
  const Scratch scratch{device, device_bytes, host, host_bytes};
  return queue(
      handle,
      matrix.is_valid() && tau && type_tau == type && compute == type && scratch.is_enough(false),
      scratch, info, [=] { return geqrf(matrix, vector(tau, std::min(m, n), type)); });
}

cusolverStatus_t cusolverDnSorgqr_bufferSize(cusolverDnHandle_t, int m, int n, int k, const float*,
                                             int lda, const float*, int* lwork) {
  *lwork = kDeviceBytes / sizeof(float);
  return m >= n && n >= k && lda >= m ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}
cusolverStatus_t cusolverDnDorgqr_bufferSize(cusolverDnHandle_t, int m, int n, int k, const double*,
                                             int lda, const double*, int* lwork) {
  *lwork = kDeviceBytes / sizeof(double);
  return m >= n && n >= k && lda >= m ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}
cusolverStatus_t cusolverDnSorgqr(cusolverDnHandle_t handle, int m, int n, int k, float* a, int lda,
                                  const float* tau, float* work, int lwork, int* info) {
  return orgqr_of(handle, m, n, k, a, lda, tau, work, lwork, info, CUDA_R_32F);
}
cusolverStatus_t cusolverDnDorgqr(cusolverDnHandle_t handle, int m, int n, int k, double* a,
                                  int lda, const double* tau, double* work, int lwork, int* info) {
  return orgqr_of(handle, m, n, k, a, lda, tau, work, lwork, info, CUDA_R_64F);
}

cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t, cusolverDnParams_t,
                                             cusolverEigMode_t, cublasFillMode_t, std::int64_t n,
                                             cudaDataType type, const void* a, std::int64_t lda,
                                             cudaDataType, const void*, cudaDataType,
                                             std::size_t* device, std::size_t* host) {
  return sizes(Columns{const_cast<void*>(a), n, n, lda, type}.is_valid(), device, host, true);
}
cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t,
                                  cusolverEigMode_t job, cublasFillMode_t uplo, std::int64_t n,
                                  cudaDataType type, void* a, std::int64_t lda, cudaDataType type_w,
                                  void* values, cudaDataType compute, void* device,
                                  std::size_t device_bytes, void* host, std::size_t host_bytes,
                                  int* info) {
  const Columns matrix{a, n, n, lda, type};
  const Scratch scratch{device, device_bytes, host, host_bytes};
  return queue(handle,
               matrix.is_valid() && values && type_w == type && compute == type &&
                   job == CUSOLVER_EIG_MODE_VECTOR && uplo == CUBLAS_FILL_MODE_UPPER &&
                   scratch.is_enough(true),
               scratch, info, [=] { return syevd(matrix, vector(values, n, type)); });
}

cusolverStatus_t cusolverDnXgesvd_bufferSize(cusolverDnHandle_t, cusolverDnParams_t,
                                             signed char jobu, signed char jobvt, std::int64_t m,
                                             std::int64_t n, cudaDataType type, const void* a,
                                             std::int64_t lda, cudaDataType, const void*,
                                             cudaDataType, const void*, std::int64_t ldu,
                                             cudaDataType, const void*, std::int64_t ldvt,
                                             cudaDataType, std::size_t* device, std::size_t* host) {
  return sizes(m >= n && is_job(jobu) && is_job(jobvt) && ldu >= m && ldvt >= n &&
                   Columns{const_cast<void*>(a), m, n, lda, type}.is_valid(),
               device, host, true);
}
cusolverStatus_t cusolverDnXgesvd(cusolverDnHandle_t handle, cusolverDnParams_t, signed char jobu,
                                  signed char jobvt, std::int64_t m, std::int64_t n,
                                  cudaDataType type, void* a, std::int64_t lda, cudaDataType type_s,
                                  void* s, cudaDataType type_u, void* u, std::int64_t ldu,
                                  cudaDataType type_vt, void* vt, std::int64_t ldvt,
                                  cudaDataType compute, void* device, std::size_t device_bytes,
                                  void* host, std::size_t host_bytes, int* info) {
  const Columns matrix{a, m, n, lda, type}, left{u, m, jobu == 'A' ? m : n, ldu, type_u},
      right{vt, n, n, ldvt, type_vt};
  const Scratch scratch{device, device_bytes, host, host_bytes};
  return queue(handle,
               m >= n && is_job(jobu) && is_job(jobvt) && matrix.is_valid() && left.is_valid() &&
                   right.is_valid() && s && type_s == type && type_u == type && type_vt == type &&
                   compute == type && scratch.is_enough(true),
               scratch, info, [=] { return gesvd(matrix, left, vector(s, n, type), right); });
}

}  // extern "C"
