#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/core/cuda/context.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/error.h"
#include "ferrite/core/profiler/device_work.h"
#include "ferrite/kernels/arange.h"
#include "ferrite/kernels/cuda/householder.h"
#include "ferrite/kernels/cuda/op_scope.h"
#include "ferrite/kernels/cuda/vendor/cusolver.h"
#include "ferrite/kernels/cuda/vendor/cusolver/library.h"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/vendor.h"

namespace ferrite::kernels::cuda::solver {

namespace {

/// cuSOLVER's and cuBLAS's handles for a device and a stream: they keep scratch memory of their
/// own, which work of two streams must not share. Held by one thread at a time; never destroyed,
/// since the driver may be gone by then.
class Handle {
 public:
  explicit Handle(const Stream& stream)
      : scope_(stream, "linalg"),
        stream_(ferrite::cuda::native_stream(stream)),
        entry_(entry_for(stream)),
        lock_(entry_.mutex) {
    if (entry_.params) return;
    const ferrite::cuda::detail::CaptureRelaxed relaxed;
    if (!entry_.handle) {  // else what follows failed the last time
      cusolverDnHandle_t handle = nullptr;
      CUSOLVER_CHECK(library()->create(&handle));
      entry_.handle = handle;
    }
    CUSOLVER_CHECK(library()->set_stream(entry_.handle, stream_));
    cusolverDnParams_t params = nullptr;
    CUSOLVER_CHECK(library()->create_params(&params));
    entry_.params = params;
  }
  cusolverDnHandle_t get() const { return entry_.handle; }
  cusolverDnParams_t params() const { return entry_.params; }
  cublasHandle_t blas() const {
    if (entry_.blas) return entry_.blas;
    const ferrite::cuda::detail::CaptureRelaxed relaxed;
    cublasHandle_t handle = nullptr;
    CUSOLVER_CHECK(library()->blas_create(&handle));
    CUSOLVER_CHECK(library()->blas_set_stream(handle, stream_));
    return entry_.blas = handle;
  }
  /// The defaults: as exact as the dtype is, sorted.
  gesvdjInfo_t jacobi() const {
    if (!entry_.jacobi) CUSOLVER_CHECK(library()->create_gesvdj(&entry_.jacobi));
    return entry_.jacobi;
  }

 private:
  struct Entry {
    std::mutex mutex;
    cusolverDnHandle_t handle = nullptr;
    cusolverDnParams_t params = nullptr;
    cublasHandle_t blas = nullptr;
    gesvdjInfo_t jacobi = nullptr;
  };

  static Entry& entry_for(const Stream& stream) {
    static auto& mutex = *new std::mutex;
    static auto& all = *new std::map<std::pair<int, cudaStream_t>, std::unique_ptr<Entry>>;
    const std::lock_guard lock(mutex);
    auto& entry = all[{stream.device().index(), ferrite::cuda::native_stream(stream)}];
    if (!entry) entry = std::make_unique<Entry>();
    return *entry;
  }

  const OpScope scope_;
  const cudaStream_t stream_;
  Entry& entry_;
  std::lock_guard<std::mutex> lock_;
};

cudaDataType type_of(const View& v) { return v.dtype == kFloat32 ? CUDA_R_32F : CUDA_R_64F; }

std::int64_t columns_of(const View& v) { return v.sizes[1]; }
std::int64_t rows_of(const View& v) { return v.sizes[2]; }

/// Matrix `i` of a batch, or vector, or number.
void* at(const View& v, std::int64_t i) {
  const std::int64_t elements = v.numel / v.sizes[0];
  return static_cast<char*>(v.data) + i * elements * static_cast<std::int64_t>(itemsize(v.dtype));
}
int* info_at(const View& v, std::int64_t i) { return static_cast<int*>(at(v, i)); }

/// Scratch memory of a routine, on the device and on the host.
struct Scratch {
  struct Sizes {
    std::size_t device = 0, host = 0;
  };

  Scratch(const Stream& stream, const Sizes& of)
      : sizes(of), device(stream, of.device), host(of.host) {}

  Sizes sizes;
  Workspace device;
  std::vector<char> host;
};

/// call(i, count) for every part of the batch, of at most `most` matrices, each a piece of work
/// named `name`; waits where the host's scratch memory is in use until the work is done, also that
/// before a call that fails.
template <class Call>
void for_each_part(const Stream& stream, const char* name, const View& batch, std::int64_t most,
                   const std::vector<char>& host, Call&& call) {
  const std::int64_t n = batch.sizes[0];
  try {
    for (std::int64_t i = 0; i < n; i += most) {
      const profiler::detail::DeviceWork work(stream, name);
      check(call(i, static_cast<int>(std::min(most, n - i))), name);
    }
  } catch (...) {
    try {
      if (!host.empty()) stream.synchronize();
    } catch (const Error&) {  // the error of the call says more
    }
    throw;
  }
  if (!host.empty()) stream.synchronize();
}

/// call(i) for every matrix.
template <class Call>
void for_each_matrix(const Stream& stream, const char* name, const View& batch,
                     const std::vector<char>& host, Call&& call) {
  for_each_part(stream, name, batch, 1, host, [&](std::int64_t i, int) { return call(i); });
}

constexpr std::int64_t kMostInt = std::numeric_limits<int>::max();
/// The matrices of a call that iterates by Jacobi's method, which refuses some 32000 and more.
constexpr std::int64_t kMostJacobi = 16384;

/// Whether the square matrices of a batch are factorized by one call, not by one each. Such calls
/// have few threads for each matrix, which is too few for some large ones: LU factors take longer
/// from about here on (PyTorch's choice, measured on several GPUs).
bool is_batch(const View& a) {
  return a.sizes[0] > 1 && rows_of(a) * rows_of(a) <= 16384 * a.sizes[0];
}
/// The same for geqrf() and orgqr().
bool is_batch_for_qr(const View& a) {
  return rows_of(a) <= kHouseholderRows && a.sizes[0] >= std::max<std::int64_t>(2, rows_of(a) / 16);
}

/// Where the matrices of a batch, or vectors, are, in device memory: the form in which calls for a
/// batch want them.
template <class T>
class Addresses {
 public:
  Addresses(const Stream& stream, const View& v)
      : memory_(stream, static_cast<std::size_t>(v.sizes[0]) * sizeof(T*)) {
    View out;
    out.data = memory_.as<void>(), out.dtype = kInt64, out.ndim = 1;
    out.numel = out.sizes[0] = v.sizes[0], out.strides[0] = 1;
    arange(stream, out, reinterpret_cast<std::intptr_t>(v.data),
           v.numel / v.sizes[0] * static_cast<std::int64_t>(sizeof(T)));
  }
  T** at(std::int64_t i) const { return memory_.as<T*>() + i; }

 private:
  static_assert(sizeof(T*) == sizeof(std::int64_t));
  Workspace memory_;
};

/// The one of two functions, or names, that is for T.
template <class T, class F, class D>
auto pick(F of_float, D of_double) {
  if constexpr (std::is_same_v<T, float>)
    return of_float;
  else
    return of_double;
}

template <class Call>
void with_type(const View& a, Call&& call) {
  dispatch_types<float, double>(a.dtype, "linalg", call);
}

const char* name_of(cusolverStatus_t status) {
  switch (status) {
    case CUSOLVER_STATUS_NOT_INITIALIZED:
      return "not initialized";
    case CUSOLVER_STATUS_ALLOC_FAILED:
      return "out of memory";
    case CUSOLVER_STATUS_INVALID_VALUE:
      return "invalid value";
    case CUSOLVER_STATUS_ARCH_MISMATCH:
      return "not for this GPU";
    case CUSOLVER_STATUS_EXECUTION_FAILED:
      return "the execution failed";
    case CUSOLVER_STATUS_INTERNAL_ERROR:
      return "internal error";
    default:
      return "status";
  }
}

}  // namespace

void check(cusolverStatus_t status, const char* call) {
  if (status != CUSOLVER_STATUS_SUCCESS) [[unlikely]]
    fail<CudaError>("linalg", "{} failed: {} ({}); FERRITE_CUSOLVER=0 computes factors on the host",
                    call, name_of(status), static_cast<int>(status));
}

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail<CudaError>("linalg", "{} failed: {}; FERRITE_CUSOLVER=0 computes factors on the host",
                    call, library()->blas_status(status));
}

bool is_usable() { return cusolver::is_enabled() && library() != nullptr; }

void potrf(const Stream& stream, const View& a, const View& info) {
  const Handle handle(stream);
  const std::int64_t n = rows_of(a);
  if (is_batch(a))
    return with_type(a, [&]<class T>() {
      const auto run = pick<T>(library()->potrf_batched_float, library()->potrf_batched_double);
      const Addresses<T> matrices(stream, a);
      for_each_part(stream, pick<T>("cusolverDnSpotrfBatched", "cusolverDnDpotrfBatched"), a,
                    kMostInt, {}, [&](std::int64_t i, int count) {
                      return run(handle.get(), CUBLAS_FILL_MODE_UPPER, static_cast<int>(n),
                                 matrices.at(i), static_cast<int>(n), info_at(info, i), count);
                    });
    });
  const cudaDataType type = type_of(a);
  Scratch::Sizes sizes;
  CUSOLVER_CHECK(library()->potrf_size(handle.get(), handle.params(), CUBLAS_FILL_MODE_UPPER, n,
                                       type, a.data, n, type, &sizes.device, &sizes.host));
  Scratch scratch(stream, sizes);
  for_each_matrix(stream, "cusolverDnXpotrf", a, scratch.host, [&](std::int64_t i) {
    return library()->potrf(handle.get(), handle.params(), CUBLAS_FILL_MODE_UPPER, n, type,
                            at(a, i), n, type, scratch.device.as<void>(), sizes.device,
                            scratch.host.data(), sizes.host, info_at(info, i));
  });
}

DType pivots_of(const View& a) { return is_batch(a) ? kInt32 : kInt64; }

void getrf(const Stream& stream, const View& a, const View& pivots, const View& info) {
  const Handle handle(stream);
  const std::int64_t n = rows_of(a);
  if (is_batch(a))
    return with_type(a, [&]<class T>() {
      const auto run = pick<T>(library()->getrf_batched_float, library()->getrf_batched_double);
      const Addresses<T> matrices(stream, a);
      for_each_part(stream, pick<T>("cublasSgetrfBatched", "cublasDgetrfBatched"), a, kMostInt, {},
                    [&](std::int64_t i, int count) {
                      return run(handle.blas(), static_cast<int>(n), matrices.at(i),
                                 static_cast<int>(n), static_cast<int*>(at(pivots, i)),
                                 info_at(info, i), count);
                    });
    });
  const cudaDataType type = type_of(a);
  Scratch::Sizes sizes;
  CUSOLVER_CHECK(library()->getrf_size(handle.get(), handle.params(), n, n, type, a.data, n, type,
                                       &sizes.device, &sizes.host));
  Scratch scratch(stream, sizes);
  for_each_matrix(stream, "cusolverDnXgetrf", a, scratch.host, [&](std::int64_t i) {
    return library()->getrf(handle.get(), handle.params(), n, n, type, at(a, i), n,
                            static_cast<std::int64_t*>(at(pivots, i)), type,
                            scratch.device.as<void>(), sizes.device, scratch.host.data(),
                            sizes.host, info_at(info, i));
  });
}

void getrs(const Stream& stream, const View& a, const View& pivots, const View& b,
           const View& info) {
  const Handle handle(stream);
  const std::int64_t n = rows_of(a);
  if (is_batch(a))
    return with_type(a, [&]<class T>() {
      const auto run = pick<T>(library()->getrs_batched_float, library()->getrs_batched_double);
      const Addresses<T> matrices(stream, a), right(stream, b);
      for_each_part(stream, pick<T>("cublasSgetrsBatched", "cublasDgetrsBatched"), a, kMostInt, {},
                    [&](std::int64_t i, int count) {
                      int refused = 0;  // an argument; on the host
                      return run(handle.blas(), CUBLAS_OP_N, static_cast<int>(n),
                                 static_cast<int>(columns_of(b)), matrices.at(i),
                                 static_cast<int>(n), static_cast<const int*>(at(pivots, i)),
                                 right.at(i), static_cast<int>(n), &refused, count);
                    });
    });
  const cudaDataType type = type_of(a);
  for_each_matrix(stream, "cusolverDnXgetrs", a, {}, [&](std::int64_t i) {
    return library()->getrs(handle.get(), handle.params(), CUBLAS_OP_N, n, columns_of(b), type,
                            at(a, i), n, static_cast<const std::int64_t*>(at(pivots, i)), type,
                            at(b, i), n, info_at(info, i));
  });
}

void geqrf(const Stream& stream, const View& a, const View& tau, const View& info) {
  const Handle handle(stream);
  const std::int64_t m = rows_of(a), n = columns_of(a);
  if (is_batch_for_qr(a))
    return with_type(a, [&]<class T>() {
      const auto run = pick<T>(library()->geqrf_batched_float, library()->geqrf_batched_double);
      const Addresses<T> matrices(stream, a), factors(stream, tau);
      for_each_part(stream, pick<T>("cublasSgeqrfBatched", "cublasDgeqrfBatched"), a, kMostInt, {},
                    [&](std::int64_t i, int count) {
                      int refused = 0;  // an argument; on the host
                      return run(handle.blas(), static_cast<int>(m), static_cast<int>(n),
                                 matrices.at(i), static_cast<int>(m), factors.at(i), &refused,
                                 count);
                    });
    });
  const cudaDataType type = type_of(a);
  Scratch::Sizes sizes;
  CUSOLVER_CHECK(library()->geqrf_size(handle.get(), handle.params(), m, n, type, a.data, m, type,
                                       tau.data, type, &sizes.device, &sizes.host));
  Scratch scratch(stream, sizes);
  for_each_matrix(stream, "cusolverDnXgeqrf", a, scratch.host, [&](std::int64_t i) {
    return library()->geqrf(handle.get(), handle.params(), m, n, type, at(a, i), m, type,
                            at(tau, i), type, scratch.device.as<void>(), sizes.device,
                            scratch.host.data(), sizes.host, info_at(info, i));
  });
}

void orgqr(const Stream& stream, const View& q, const View& a, const View& tau, const View& info) {
  if (is_batch_for_qr(a)) return householder_product(stream, q, a, tau);  // there is no such call
  const Handle handle(stream);
  const auto m = static_cast<int>(rows_of(q)), n = static_cast<int>(columns_of(q)),
             k = static_cast<int>(tau.sizes[1]);
  with_type(q, [&]<class T>() {
    const auto size = pick<T>(library()->orgqr_size_float, library()->orgqr_size_double);
    const auto run = pick<T>(library()->orgqr_float, library()->orgqr_double);
    int elements = 0;
    CUSOLVER_CHECK(size(handle.get(), m, n, k, q.as<const T>(), m, tau.as<const T>(), &elements));
    const Workspace workspace(stream, static_cast<std::size_t>(elements) * sizeof(T));
    for_each_matrix(stream, pick<T>("cusolverDnSorgqr", "cusolverDnDorgqr"), q, {},
                    [&](std::int64_t i) {
                      return run(handle.get(), m, n, k, static_cast<T*>(at(q, i)), m,
                                 static_cast<const T*>(at(tau, i)), workspace.as<T>(), elements,
                                 info_at(info, i));
                    });
  });
}

void syevd(const Stream& stream, const View& a, const View& values, const View& info) {
  const Handle handle(stream);
  const cudaDataType type = type_of(a);
  const std::int64_t n = rows_of(a);
  Scratch::Sizes sizes;
  if (is_batch(a)) {
    // It counts elements in an int.
    const std::int64_t most = std::min({kMostJacobi, kMostInt / (n * n), a.sizes[0]});
    CUSOLVER_CHECK(library()->syev_batched_size(
        handle.get(), handle.params(), CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, n, type,
        a.data, n, type, values.data, type, &sizes.device, &sizes.host, most));
    Scratch scratch(stream, sizes);
    return for_each_part(
        stream, "cusolverDnXsyevBatched", a, most, scratch.host, [&](std::int64_t i, int count) {
          return library()->syev_batched(
              handle.get(), handle.params(), CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, n,
              type, at(a, i), n, type, at(values, i), type, scratch.device.as<void>(), sizes.device,
              scratch.host.data(), sizes.host, info_at(info, i), count);
        });
  }
  CUSOLVER_CHECK(library()->syevd_size(handle.get(), handle.params(), CUSOLVER_EIG_MODE_VECTOR,
                                       CUBLAS_FILL_MODE_UPPER, n, type, a.data, n, type,
                                       values.data, type, &sizes.device, &sizes.host));
  Scratch scratch(stream, sizes);
  for_each_matrix(stream, "cusolverDnXsyevd", a, scratch.host, [&](std::int64_t i) {
    return library()->syevd(handle.get(), handle.params(), CUSOLVER_EIG_MODE_VECTOR,
                            CUBLAS_FILL_MODE_UPPER, n, type, at(a, i), n, type, at(values, i), type,
                            scratch.device.as<void>(), sizes.device, scratch.host.data(),
                            sizes.host, info_at(info, i));
  });
}

bool has_gesvdj(const View& a) {
  return a.sizes[0] > 1 && rows_of(a) <= 32 && columns_of(a) <= 32;  // the call's limits
}

void gesvdj(const Stream& stream, const View& a, const View& u, const View& s, const View& v,
            const View& info) {
  const Handle handle(stream);
  const auto m = static_cast<int>(rows_of(a)), n = static_cast<int>(columns_of(a));
  const std::int64_t most = std::min(kMostJacobi, a.sizes[0]);
  with_type(a, [&]<class T>() {
    const auto size =
        pick<T>(library()->gesvdj_batched_size_float, library()->gesvdj_batched_size_double);
    const auto run = pick<T>(library()->gesvdj_batched_float, library()->gesvdj_batched_double);
    int elements = 0;
    CUSOLVER_CHECK(size(handle.get(), CUSOLVER_EIG_MODE_VECTOR, m, n, a.as<const T>(), m,
                        s.as<const T>(), u.as<const T>(), m, v.as<const T>(), n, &elements,
                        handle.jacobi(), static_cast<int>(most)));
    const Workspace workspace(stream, static_cast<std::size_t>(elements) * sizeof(T));
    for_each_part(stream, pick<T>("cusolverDnSgesvdjBatched", "cusolverDnDgesvdjBatched"), a, most,
                  {}, [&](std::int64_t i, int count) {
                    return run(handle.get(), CUSOLVER_EIG_MODE_VECTOR, m, n,
                               static_cast<T*>(at(a, i)), m, static_cast<T*>(at(s, i)),
                               static_cast<T*>(at(u, i)), m, static_cast<T*>(at(v, i)), n,
                               workspace.as<T>(), elements, info_at(info, i), handle.jacobi(),
                               count);
                  });
  });
}

void gesvd(const Stream& stream, const View& a, const View& u, const View& s, const View& vt,
           const View& info) {
  const Handle handle(stream);
  const cudaDataType type = type_of(a);
  const std::int64_t m = rows_of(a), n = columns_of(a);
  const signed char job = columns_of(u) == m ? 'A' : 'S';
  Scratch::Sizes sizes;
  CUSOLVER_CHECK(library()->gesvd_size(handle.get(), handle.params(), job, job, m, n, type, a.data,
                                       m, type, s.data, type, u.data, m, type, vt.data, n, type,
                                       &sizes.device, &sizes.host));
  Scratch scratch(stream, sizes);
  for_each_matrix(stream, "cusolverDnXgesvd", a, scratch.host, [&](std::int64_t i) {
    return library()->gesvd(handle.get(), handle.params(), job, job, m, n, type, at(a, i), m, type,
                            at(s, i), type, at(u, i), m, type, at(vt, i), n, type,
                            scratch.device.as<void>(), sizes.device, scratch.host.data(),
                            sizes.host, info_at(info, i));
  });
}

}  // namespace ferrite::kernels::cuda::solver

namespace ferrite {

bool cusolver::is_available() { return kernels::cuda::solver::library() != nullptr; }

std::string cusolver::version() {
  int v = 0;
  if (!is_available() ||
      kernels::cuda::solver::library()->get_version(&v) != CUSOLVER_STATUS_SUCCESS)
    return "";
  return fmt::format("{}.{}.{}", v / 1000, v / 100 % 10, v % 100);
}

}  // namespace ferrite
