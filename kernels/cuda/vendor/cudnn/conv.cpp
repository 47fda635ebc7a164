#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>

#include "ferrite/core/cuda/context.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/core/profiler/device_work.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/cuda/vendor/cudnn.h"
#include "ferrite/kernels/cuda/vendor/cudnn/plan.h"
#include "ferrite/kernels/cuda/vendor/plan_cache.h"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/vendor.h"

namespace ferrite::kernels::cuda::vendor {

namespace {

constexpr std::size_t kPlans = 2000;        // of a device
constexpr std::size_t kPlansMeasured = 12;  // of a problem
constexpr int kRunsMeasured = 3;

/// The cached result for a problem: a plan, or that there is none.
struct Known {
  std::optional<ConvPlan> plan;
  bool is_measured = false;
  bool is_captured = false;
};

/// The handle and the plans of one device. One thread at a time.
class Library {
 public:
  /// Null if cuDNN is not available. Never destroyed, since the driver may be gone by then.
  static Library* of(const Device& device) {
    const Cudnn* const cudnn = cudnn_library();
    if (!cudnn) return nullptr;
    static auto& once = *new std::array<std::once_flag, Device::kMaxIndex + 1>;
    static std::array<Library*, Device::kMaxIndex + 1> all{};
    const auto slot = static_cast<std::size_t>(device.index());
    std::call_once(once[slot], [&] {
      const ferrite::cuda::DeviceGuard guard(device);
      const ferrite::cuda::detail::CaptureRelaxed relaxed;
      all[slot] = new Library(*cudnn);
    });
    return all[slot];
  }

  std::mutex& mutex() { return mutex_; }

  /// The result for a problem, computed at the first call. Like the other members, it requires the
  /// lock.
  std::shared_ptr<Known> find(const ConvProblem& problem) {
    std::shared_ptr<Known> known = known_.find(problem);
    if (!known) {
      known = std::make_shared<Known>();
      // This loads kernels, which must not become part of a capture.
      const ferrite::cuda::detail::CaptureRelaxed relaxed;
      try {
        const ConvPlans plans({cudnn_, handle_}, problem);
        for (std::size_t i = 0; i < plans.size() && !known->plan; ++i) known->plan = plans.make(i);
      } catch (const NotSupported&) {  // there is none
      }
      known_.insert(problem, known);
    }
    return known;
  }

  bool run(const Stream& stream, Known& known, const ConvPlan::Pointers& pointers) {
    use(stream);
    const Workspace workspace(stream, known.plan->workspace_bytes());
    const profiler::detail::DeviceWork work(stream, "cudnn_conv2d");
    if (known.plan->run(handle_, pointers, workspace.as<void>())) return true;
    known.plan.reset();
    return false;
  }

  /// Keeps the fastest of the plans for a problem that has one, measured on these operands; it
  /// overwrites the computed operand.
  void measure(const Stream& stream, const ConvProblem& problem, Known& known,
               const ConvPlan::Pointers& pointers) {
    use(stream);
    known.is_measured = true;
    const ConvPlans plans({cudnn_, handle_}, problem);
    Event begin, end;
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0, measured = 0; i < plans.size() && measured < kPlansMeasured; ++i) {
      std::optional<ConvPlan> plan = plans.make(i);
      if (!plan) continue;
      try {
        const Workspace workspace(stream, plan->workspace_bytes());
        const auto run = [&] { return plan->run(handle_, pointers, workspace.as<void>()); };
        if (!run()) continue;
        begin.record(stream);
        for (int k = 0; k < kRunsMeasured; ++k) run();
        end.record(stream);
        end.synchronize();
        const double time = end.elapsed_ms(begin);
        ++measured;
        if (time >= best) continue;
        best = time;
        known.plan = std::move(plan);
      } catch (const OutOfMemoryError&) {  // no memory for its workspace: do not choose this plan
      }
    }
  }

  /// Captured graphs refer to kernels that their plans have loaded, so these plans are kept.
  void keep(std::shared_ptr<Known> known) {
    if (known->is_captured) return;
    known->is_captured = true;
    captured_.push_back(std::move(known));
  }

 private:
  explicit Library(const Cudnn& cudnn) : cudnn_(cudnn) {
    const cudnnStatus_t status = cudnn.create(&handle_);
    FERRITE_CHECK(status == CUDNN_STATUS_SUCCESS, CudaError, "conv2d",
                  "cuDNN could not be started: {}: {}; FERRITE_CUDNN=0 does without it",
                  cudnn.error_string(status), cudnn.last_error());
  }

  void use(const Stream& stream) {
    const cudaStream_t native = ferrite::cuda::native_stream(stream);
    if (has_stream_ && native == stream_) return;
    const cudnnStatus_t status = cudnn_.set_stream(handle_, native);
    FERRITE_CHECK(status == CUDNN_STATUS_SUCCESS, CudaError, "conv2d",
                  "cuDNN does not take the stream: {}", cudnn_.error_string(status));
    stream_ = native;
    has_stream_ = true;
  }

  const Cudnn& cudnn_;
  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  bool has_stream_ = false;
  PlanCache<ConvProblem, Known> known_{kPlans};
  std::vector<std::shared_ptr<Known>> captured_;
};

/// An operand in the problem's layout: itself, or a copy.
class Laid {
 public:
  Laid(const Stream& stream, const View& v, const ConvProblem& problem,
       const ConvProblem::Operand& operand)
      : stream_(stream), original_(v), view_(v) {
    if (lies_in(v, problem.layout)) return;
    copy_.emplace(stream, static_cast<std::size_t>(v.numel) * itemsize(v.dtype));
    view_.data = copy_->as<void>();
    std::ranges::copy(problem.strides(operand), view_.strides);
  }
  /// For operands that the convolution reads, before it.
  void* read() const {
    if (copy_) cuda::copy(stream_, view_, original_);
    return view_.data;
  }
  /// For the computed operand, after the convolution.
  void write_back() const {
    if (copy_) cuda::copy(stream_, original_, view_);
  }
  void* data() const { return view_.data; }

 private:
  const Stream& stream_;
  View original_, view_;
  std::optional<Workspace> copy_;
};

bool run(const Stream& stream, ConvProblem problem, const View& input, const View& weight,
         const View& out, const ConvPlan::Extras& extras = {}) {
  problem.tf32 = problem.dtype == kFloat32 && cudnn::allow_tf32();
  problem.deterministic = cudnn::deterministic();
  problem.workspace_limit = cudnn::workspace_limit();
  Library* const library = Library::of(stream.device());
  if (!library) return false;
  std::lock_guard lock(library->mutex());
  const std::shared_ptr<Known> known = library->find(problem);
  if (!known->plan) return false;

  const Laid in(stream, input, problem, problem.input),
      filter(stream, weight, problem, problem.weight), result(stream, out, problem, problem.out);
  const Laid& computed = problem.pass == ConvPass::forward ? result
                         : problem.pass == ConvPass::data  ? in
                                                           : filter;
  for (const Laid* operand : {&in, &filter, &result})
    if (operand != &computed) operand->read();
  const ConvPlan::Pointers pointers{in.data(), filter.data(), result.data(), extras};
  const bool capturing = ferrite::detail::cuda::is_capturing(stream);
  // Timing waits for the device, which is not possible during a capture.
  if (capturing)
    library->keep(known);
  else if (cudnn::benchmark() && !known->is_measured && !known->is_captured)
    library->measure(stream, problem, *known, pointers);
  if (!library->run(stream, *known, pointers)) return false;
  computed.write_back();
  return true;
}

bool is_mine(const View& input, const View& weight, const View& out, const ConvParams& params) {
  return cudnn::is_enabled() && is_for_library(input, weight, out, params);
}

}  // namespace

bool conv2d(const Stream& stream, const View& out, const View& input, const View& weight,
            const View& bias, const ConvParams& params, ConvEpilogue epilogue) {
  if (!is_mine(input, weight, out, params)) return false;
  ConvProblem problem = problem_of(ConvPass::forward, input, weight, out, params);
  if (epilogue == ConvEpilogue::fused) {
    if (bias.data && bias.strides[0] != 1 && bias.sizes[0] != 1) return false;
    problem.has_bias = bias.data != nullptr;
    problem.has_relu = params.activation == Activation::relu;
  }
  return run(stream, problem, input, weight, out, {.bias = problem.has_bias ? bias.data : nullptr});
}

bool conv2d_sums(const Stream& stream, const View& out, const View& sum, const View& squares,
                 const View& input, const View& weight, const ConvParams& params) {
  // A variance from sums of squares is accurate enough only for 16-bit types.
  if (itemsize(input.dtype) != 2 || !cudnn::fused_statistics() ||
      !is_mine(input, weight, out, params))
    return false;
  ConvProblem problem = problem_of(ConvPass::forward, input, weight, out, params);
  problem.has_stats = true;
  return run(stream, problem, input, weight, out, {.sum = sum.data, .squares = squares.data});
}

bool conv2d_data(const Stream& stream, const View& grad_input, const View& grad, const View& weight,
                 const ConvParams& params) {
  if (!is_mine(grad_input, weight, grad, params)) return false;
  return run(stream, problem_of(ConvPass::data, grad_input, weight, grad, params), grad_input,
             weight, grad);
}

bool conv2d_weight(const Stream& stream, const View& grad_weight, const View& input,
                   const View& grad, const ConvParams& params) {
  if (!is_mine(input, grad_weight, grad, params)) return false;
  return run(stream, problem_of(ConvPass::weight, input, grad_weight, grad, params), input,
             grad_weight, grad);
}

ConvPlanReport report_plans(const ConvProblem& problem, const std::string& device,
                            std::size_t most) {
  ConvPlanReport report;
#if CUDNN_VERSION >= 90800
  const Cudnn* const cudnn = cudnn_library();
  if (!cudnn || cudnn->get_version() < 90800) {
    report.why_not = cudnn ? "cuDNN before 9.8" : why_not_loaded();
    return report;
  }
  try {
    Descriptor properties(*cudnn, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    properties
        .set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
             std::span<const char>(device))
        .finalize();
    report.asked = true;
    const ConvPlans plans({*cudnn, nullptr, &properties}, problem);
    report.offered = plans.size();
    for (std::size_t i = 0; i < std::min(plans.size(), most); ++i)
      if (plans.make(i)) ++report.usable;
    report.why_not = plans.why_not();
  } catch (const NotSupported& refusal) {
    report.why_not = refusal.why;
  }
#else
  report.why_not = "built with a cuDNN before 9.8";
#endif
  return report;
}

}  // namespace ferrite::kernels::cuda::vendor

namespace ferrite {

bool cudnn::is_available() { return kernels::cuda::vendor::cudnn_library() != nullptr; }

std::string cudnn::version() {
  const auto* const library = kernels::cuda::vendor::cudnn_library();
  if (!library) return "";
  const std::size_t v = library->get_version();  // 9.1.2 is 90102
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace ferrite
