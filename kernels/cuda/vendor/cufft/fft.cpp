#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "ferrite/core/cuda/context.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/profiler/device_work.h"
#include "ferrite/kernels/cuda/vendor/cufft.h"
#include "ferrite/kernels/cuda/vendor/cufft/library.h"
#include "ferrite/kernels/cuda/vendor/plan_cache.h"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/vendor.h"

namespace ferrite::kernels::cuda::vendor {

namespace {

constexpr std::size_t kFftPlans = 64;  // each has tables in the device's memory

const FoundCufft& cufft_found() {
  static const FoundCufft& instance = *new FoundCufft(find_cufft());
  return instance;
}

const Cufft& cufft_library() {
  const FoundCufft& found = cufft_found();
  FERRITE_CHECK(found.why_not.empty(), CudaError, "fft",
                "transforms on CUDA devices need cuFFT: {}; pip install nvidia-cufft, or move the "
                "tensor with cpu()",
                found.why_not);
  return found.functions;
}

void check_cufft(cufftResult result, const char* call) {
  if (result != CUFFT_SUCCESS) [[unlikely]]
    fail<CudaError>("fft", "{} failed with cufftResult {}", call, static_cast<int>(result));
}
#define CUFFT_CHECK(call) check_cufft((call), #call)

class FftHandle {
 public:
  FftHandle() { CUFFT_CHECK(cufft_library().create(&handle_)); }
  ~FftHandle() { cufft_library().destroy(handle_); }
  FftHandle(const FftHandle&) = delete;
  FftHandle& operator=(const FftHandle&) = delete;

  operator cufftHandle() const { return handle_; }

 private:
  cufftHandle handle_ = CUFFT_PLAN_NULL;
};

class FftPlan {
 public:
  explicit FftPlan(const FftProblem& problem) : problem_(problem) {
    const Cufft& f = cufft_library();
    CUFFT_CHECK(f.set_auto_allocation(handle_, 0));
    std::array<long long, 3> sizes{};
    std::copy_n(problem.sizes.begin(), problem.rank, sizes.begin());
    CUFFT_CHECK(f.make_plan(handle_, problem.rank, sizes.data(), nullptr, 1, 0, nullptr, 1, 0,
                            type(), problem.batch, &bytes_));
  }

  void run(const Stream& stream, bool inverse, void* out, void* in) {
    const Cufft& f = cufft_library();
    const Workspace workspace(stream, bytes_);
    const profiler::detail::DeviceWork work(stream, "cuFFT");
    const std::lock_guard lock(mutex_);  // stream and work area are the plan's until it launches
    CUFFT_CHECK(f.set_stream(handle_, ferrite::cuda::native_stream(stream)));
    CUFFT_CHECK(f.set_work_area(handle_, workspace.as<void>()));
    const int direction = inverse ? CUFFT_INVERSE : CUFFT_FORWARD;
    const bool wide = problem_.part == kFloat64;
    using C = cufftComplex;
    using Z = cufftDoubleComplex;
    switch (problem_.kind) {
      case FftProblem::Kind::c2c:
        if (wide)
          CUFFT_CHECK(f.z2z(handle_, static_cast<Z*>(in), static_cast<Z*>(out), direction));
        else
          CUFFT_CHECK(f.c2c(handle_, static_cast<C*>(in), static_cast<C*>(out), direction));
        return;
      case FftProblem::Kind::r2c:
        if (wide)
          CUFFT_CHECK(f.d2z(handle_, static_cast<double*>(in), static_cast<Z*>(out)));
        else
          CUFFT_CHECK(f.r2c(handle_, static_cast<float*>(in), static_cast<C*>(out)));
        return;
      case FftProblem::Kind::c2r:
        if (wide)
          CUFFT_CHECK(f.z2d(handle_, static_cast<Z*>(in), static_cast<double*>(out)));
        else
          CUFFT_CHECK(f.c2r(handle_, static_cast<C*>(in), static_cast<float*>(out)));
        return;
    }
  }

 private:
  cufftType type() const {
    const bool wide = problem_.part == kFloat64;
    switch (problem_.kind) {
      case FftProblem::Kind::r2c:
        return wide ? CUFFT_D2Z : CUFFT_R2C;
      case FftProblem::Kind::c2r:
        return wide ? CUFFT_Z2D : CUFFT_C2R;
      default:
        return wide ? CUFFT_Z2Z : CUFFT_C2C;
    }
  }

  const FftProblem problem_;
  const FftHandle handle_;
  std::size_t bytes_ = 0;
  std::mutex mutex_;
};

/// The plans of one device.
class FftPlans {
 public:
  std::shared_ptr<FftPlan> find(const Stream& stream, const FftProblem& problem) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<FftPlan> plan = plans_.find(problem);
    if (!plan) {
      const ferrite::cuda::detail::CaptureRelaxed relaxed;
      plan = std::make_shared<FftPlan>(problem);
      plans_.insert(problem, plan);
    }
    // Graphs refer to a plan's tables as long as they are launched.
    if (ferrite::detail::cuda::is_capturing(stream) &&
        std::ranges::find(kept_, plan) == kept_.end())
      kept_.push_back(plan);
    return plan;
  }

  /// The instance of a device; never destroyed, since the driver may be gone by then.
  static FftPlans& of(const Device& device) {
    static auto& all = *new std::array<FftPlans, Device::kMaxIndex + 1>;
    return all[static_cast<std::size_t>(device.index())];
  }

 private:
  std::mutex mutex_;
  PlanCache<FftProblem, FftPlan> plans_{kFftPlans};
  std::vector<std::shared_ptr<FftPlan>> kept_;
};

}  // namespace

void fft(const Stream& stream, const FftProblem& problem, bool inverse, void* out, void* in) {
  FftPlans::of(stream.device()).find(stream, problem)->run(stream, inverse, out, in);
}

}  // namespace ferrite::kernels::cuda::vendor

namespace ferrite {

bool cufft::is_available() { return kernels::cuda::vendor::cufft_found().why_not.empty(); }

std::string cufft::version() {
  int v = 0;
  if (is_available()) kernels::cuda::vendor::cufft_library().get_version(&v);
  return v == 0 ? "" : fmt::format("{}.{}.{}", v / 1000, v / 100 % 10, v % 100);
}

}  // namespace ferrite
