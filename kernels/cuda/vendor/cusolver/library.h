// cuSOLVER's functions. The library is loaded on first use; the emulator's is linked.
#pragma once

#include <cusolverDn.h>

#include <string>

namespace ferrite::kernels::cuda::solver {

// The functions used: the member's name, and the symbol's.
#define FERRITE_CUSOLVER_FUNCTIONS(F)               \
  F(get_version, cusolverGetVersion)                \
  F(create, cusolverDnCreate)                       \
  F(set_stream, cusolverDnSetStream)                \
  F(create_params, cusolverDnCreateParams)          \
  F(potrf_size, cusolverDnXpotrf_bufferSize)        \
  F(potrf, cusolverDnXpotrf)                        \
  F(getrf_size, cusolverDnXgetrf_bufferSize)        \
  F(getrf, cusolverDnXgetrf)                        \
  F(getrs, cusolverDnXgetrs)                        \
  F(geqrf_size, cusolverDnXgeqrf_bufferSize)        \
  F(geqrf, cusolverDnXgeqrf)                        \
  F(orgqr_size_float, cusolverDnSorgqr_bufferSize)  \
  F(orgqr_float, cusolverDnSorgqr)                  \
  F(orgqr_size_double, cusolverDnDorgqr_bufferSize) \
  F(orgqr_double, cusolverDnDorgqr)                 \
  F(syevd_size, cusolverDnXsyevd_bufferSize)        \
  F(syevd, cusolverDnXsyevd)                        \
  F(gesvd_size, cusolverDnXgesvd_bufferSize)        \
  F(gesvd, cusolverDnXgesvd)

struct Library {
#define FERRITE_CUSOLVER_MEMBER(member, name) decltype(&::name) member = nullptr;
  FERRITE_CUSOLVER_FUNCTIONS(FERRITE_CUSOLVER_MEMBER)
#undef FERRITE_CUSOLVER_MEMBER
};

/// Null if the library cannot be loaded.
const Library* library();

/// Throws CudaError unless a call to cuSOLVER succeeded.
void check(cusolverStatus_t status, const char* call);
#define CUSOLVER_CHECK(call) ::ferrite::kernels::cuda::solver::check((call), #call)

}  // namespace ferrite::kernels::cuda::solver
