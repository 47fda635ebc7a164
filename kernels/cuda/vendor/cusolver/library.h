// The functions of cuSOLVER, and of cuBLAS, on which it stands. The libraries are loaded on first
// use; the emulator's are linked.
#pragma once

#include <cublas_v2.h>
#include <cusolverDn.h>

#include <string>

namespace ferrite::kernels::cuda::solver {

// The functions used: the library, the member's name, and the symbol's.
#define FERRITE_CUSOLVER_FUNCTIONS(F)                                        \
  F(solver, get_version, cusolverGetVersion)                                 \
  F(solver, create, cusolverDnCreate)                                        \
  F(solver, set_stream, cusolverDnSetStream)                                 \
  F(solver, create_params, cusolverDnCreateParams)                           \
  F(solver, potrf_size, cusolverDnXpotrf_bufferSize)                         \
  F(solver, potrf, cusolverDnXpotrf)                                         \
  F(solver, getrf_size, cusolverDnXgetrf_bufferSize)                         \
  F(solver, getrf, cusolverDnXgetrf)                                         \
  F(solver, getrs, cusolverDnXgetrs)                                         \
  F(solver, geqrf_size, cusolverDnXgeqrf_bufferSize)                         \
  F(solver, geqrf, cusolverDnXgeqrf)                                         \
  F(solver, orgqr_size_float, cusolverDnSorgqr_bufferSize)                   \
  F(solver, orgqr_float, cusolverDnSorgqr)                                   \
  F(solver, orgqr_size_double, cusolverDnDorgqr_bufferSize)                  \
  F(solver, orgqr_double, cusolverDnDorgqr)                                  \
  F(solver, syevd_size, cusolverDnXsyevd_bufferSize)                         \
  F(solver, syevd, cusolverDnXsyevd)                                         \
  F(solver, gesvd_size, cusolverDnXgesvd_bufferSize)                         \
  F(solver, gesvd, cusolverDnXgesvd)                                         \
  F(solver, potrf_batched_float, cusolverDnSpotrfBatched)                    \
  F(solver, potrf_batched_double, cusolverDnDpotrfBatched)                   \
  F(solver, syev_batched_size, cusolverDnXsyevBatched_bufferSize)            \
  F(solver, syev_batched, cusolverDnXsyevBatched)                            \
  F(solver, create_gesvdj, cusolverDnCreateGesvdjInfo)                       \
  F(solver, gesvdj_batched_size_float, cusolverDnSgesvdjBatched_bufferSize)  \
  F(solver, gesvdj_batched_float, cusolverDnSgesvdjBatched)                  \
  F(solver, gesvdj_batched_size_double, cusolverDnDgesvdjBatched_bufferSize) \
  F(solver, gesvdj_batched_double, cusolverDnDgesvdjBatched)                 \
  F(blas, blas_create, cublasCreate_v2)                                      \
  F(blas, blas_set_stream, cublasSetStream_v2)                               \
  F(blas, blas_status, cublasGetStatusString)                                \
  F(blas, getrf_batched_float, cublasSgetrfBatched)                          \
  F(blas, getrf_batched_double, cublasDgetrfBatched)                         \
  F(blas, getrs_batched_float, cublasSgetrsBatched)                          \
  F(blas, getrs_batched_double, cublasDgetrsBatched)                         \
  F(blas, geqrf_batched_float, cublasSgeqrfBatched)                          \
  F(blas, geqrf_batched_double, cublasDgeqrfBatched)

struct Library {
#define FERRITE_CUSOLVER_MEMBER(file, member, name) decltype(&::name) member = nullptr;
  FERRITE_CUSOLVER_FUNCTIONS(FERRITE_CUSOLVER_MEMBER)
#undef FERRITE_CUSOLVER_MEMBER
};

/// Null if a library cannot be loaded.
const Library* library();

/// Throws CudaError unless a call to cuSOLVER or cuBLAS succeeded.
void check(cusolverStatus_t status, const char* call);
void check(cublasStatus_t status, const char* call);
#define CUSOLVER_CHECK(call) ::ferrite::kernels::cuda::solver::check((call), #call)

}  // namespace ferrite::kernels::cuda::solver
