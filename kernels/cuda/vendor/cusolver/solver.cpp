#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "ferrite/core/cuda/context.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/error.h"
#include "ferrite/core/profiler/device_work.h"
#include "ferrite/kernels/cuda/op_scope.h"
#include "ferrite/kernels/cuda/vendor/cusolver.h"
#include "ferrite/kernels/cuda/vendor/cusolver/library.h"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/vendor.h"

namespace ferrite::kernels::cuda::solver {

namespace {

/// cuSOLVER's handle for a device and a stream: it keeps scratch memory of its own, which work of
/// two streams must not share. Held by one thread at a time; never destroyed, since the driver may
/// be gone by then.
class Handle {
 public:
  explicit Handle(const Stream& stream)
      : scope_(stream, "linalg"), entry_(entry_for(stream)), lock_(entry_.mutex) {
    if (entry_.params) return;
    const ferrite::cuda::detail::CaptureRelaxed relaxed;
    if (!entry_.handle) {  // else what follows failed the last time
      cusolverDnHandle_t handle = nullptr;
      CUSOLVER_CHECK(library()->create(&handle));
      entry_.handle = handle;
    }
    CUSOLVER_CHECK(library()->set_stream(entry_.handle, ferrite::cuda::native_stream(stream)));
    cusolverDnParams_t params = nullptr;
    CUSOLVER_CHECK(library()->create_params(&params));
    entry_.params = params;
  }
  cusolverDnHandle_t get() const { return entry_.handle; }
  cusolverDnParams_t params() const { return entry_.params; }

 private:
  struct Entry {
    std::mutex mutex;
    cusolverDnHandle_t handle = nullptr;
    cusolverDnParams_t params = nullptr;  // the last that is made
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

/// call(i) for every matrix, as one piece of work named `name`; waits where the host's scratch
/// memory is in use until the work is done, also that before a call that fails.
template <class Call>
void for_each_matrix(const Stream& stream, const char* name, const View& batch,
                     const std::vector<char>& host, Call&& call) {
  try {
    const profiler::detail::DeviceWork work(stream, name);
    for (std::int64_t i = 0; i < batch.sizes[0]; ++i) check(call(i), name);
  } catch (...) {
    try {
      if (!host.empty()) stream.synchronize();
    } catch (const Error&) {  // the error of the call says more
    }
    throw;
  }
  if (!host.empty()) stream.synchronize();
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

bool is_usable() { return cusolver::is_enabled() && library() != nullptr; }

void potrf(const Stream& stream, const View& a, const View& info) {
  const Handle handle(stream);
  const cudaDataType type = type_of(a);
  const std::int64_t n = rows_of(a);
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

void getrf(const Stream& stream, const View& a, const View& pivots, const View& info) {
  const Handle handle(stream);
  const cudaDataType type = type_of(a);
  const std::int64_t n = rows_of(a);
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
  const cudaDataType type = type_of(a);
  const std::int64_t n = rows_of(a);
  for_each_matrix(stream, "cusolverDnXgetrs", a, {}, [&](std::int64_t i) {
    return library()->getrs(handle.get(), handle.params(), CUBLAS_OP_N, n, columns_of(b), type,
                            at(a, i), n, static_cast<const std::int64_t*>(at(pivots, i)), type,
                            at(b, i), n, info_at(info, i));
  });
}

void geqrf(const Stream& stream, const View& a, const View& tau, const View& info) {
  const Handle handle(stream);
  const cudaDataType type = type_of(a);
  const std::int64_t m = rows_of(a), n = columns_of(a);
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

namespace {

template <class T, class Size, class Run>
void orgqr_of(const Stream& stream, const char* name, const View& a, const View& tau,
              const View& info, Size size, Run run) {
  const Handle handle(stream);
  const auto m = static_cast<int>(rows_of(a)), n = static_cast<int>(columns_of(a)),
             k = static_cast<int>(tau.sizes[1]);
  int elements = 0;
  CUSOLVER_CHECK(size(handle.get(), m, n, k, a.as<const T>(), m, tau.as<const T>(), &elements));
  const Workspace workspace(stream, static_cast<std::size_t>(elements) * sizeof(T));
  for_each_matrix(stream, name, a, {}, [&](std::int64_t i) {
    return run(handle.get(), m, n, k, static_cast<T*>(at(a, i)), m,
               static_cast<const T*>(at(tau, i)), workspace.as<T>(), elements, info_at(info, i));
  });
}

}  // namespace

void orgqr(const Stream& stream, const View& a, const View& tau, const View& info) {
  const Library& l = *library();
  if (a.dtype == kFloat32)
    orgqr_of<float>(stream, "cusolverDnSorgqr", a, tau, info, l.orgqr_size_float, l.orgqr_float);
  else
    orgqr_of<double>(stream, "cusolverDnDorgqr", a, tau, info, l.orgqr_size_double, l.orgqr_double);
}

void syevd(const Stream& stream, const View& a, const View& values, const View& info) {
  const Handle handle(stream);
  const cudaDataType type = type_of(a);
  const std::int64_t n = rows_of(a);
  Scratch::Sizes sizes;
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
