// The plans of a device by cuDNN, made when a problem first occurs.
#pragma once

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/core/cuda/context.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/core/profiler/device_work.h"
#include "ferrite/core/stream.h"
#include "ferrite/kernels/cuda/vendor/cudnn/graph.h"
#include "ferrite/kernels/cuda/vendor/plan_cache.h"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/vendor.h"

namespace ferrite::kernels::cuda::vendor {

/// The cached result for a problem: a plan, or that there is none.
struct KnownPlan {
  std::optional<Plan> plan;
  int waits = 0;  ///< calls before the search, if there was none yet
  bool is_searched = false;
  bool is_measured = false;
  bool is_captured = false;
};

/// The handle of one device, and its plans for one kind of problem, which has an operator< and a
/// plans_of(). One thread at a time. Errors and profiles name `op`.
template <class Problem>
class Engine {
 public:
  /// Null if cuDNN is not available. Never destroyed, since the driver may be gone by then.
  static Engine* of(const Device& device, const char* op) {
    const Cudnn* const cudnn = cudnn_library();
    if (!cudnn) return nullptr;
    static auto& once = *new std::array<std::once_flag, Device::kMaxIndex + 1>;
    static std::array<Engine*, Device::kMaxIndex + 1> all{};
    const auto slot = static_cast<std::size_t>(device.index());
    std::call_once(once[slot], [&] {
      const ferrite::cuda::DeviceGuard guard(device);
      const ferrite::cuda::detail::CaptureRelaxed relaxed;
      all[slot] = new Engine(*cudnn, op);
    });
    return all[slot];
  }

  std::mutex& mutex() { return mutex_; }

  /// The result for a problem, which is searched for after `waits` calls without one. Like the
  /// other members, it requires the lock.
  std::shared_ptr<KnownPlan> find(const Problem& problem, int waits = 0) {
    std::shared_ptr<KnownPlan> known = known_.find(problem);
    if (!known) {
      known = std::make_shared<KnownPlan>();
      known_.insert(problem, known);
    }
    if (known->is_searched || known->waits++ < waits) return known;
    known->is_searched = true;
    // This loads kernels, which must not become part of a capture.
    const ferrite::cuda::detail::CaptureRelaxed relaxed;
    try {
      const Plans plans = plans_of(PlanTarget{cudnn_, handle_}, problem);
      for (std::size_t i = 0; i < plans.size() && !known->plan; ++i) known->plan = plans.make(i);
    } catch (const NotSupported&) {  // there is none
    }
    return known;
  }

  /// Whether launch() would measure first. Timing waits for the device, which is not possible
  /// during a capture.
  bool measures(const Stream& stream, const KnownPlan& known) const {
    return cudnn::benchmark() && !known.is_measured && !known.is_captured &&
           !ferrite::detail::cuda::is_capturing(stream);
  }
  /// Keeps the fastest of the plans for a problem that has one, measured on these operands; it
  /// overwrites what is computed.
  void measure(const Stream& stream, const Problem& problem, KnownPlan& known,
               const GraphOperands& operands) {
    use(stream);
    known.is_measured = true;
    const Plans plans = plans_of(PlanTarget{cudnn_, handle_}, problem);
    Event begin, end;
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0, measured = 0; i < plans.size() && measured < kPlansMeasured; ++i) {
      std::optional<Plan> plan = plans.make(i);
      if (!plan) continue;
      try {
        const Workspace workspace(stream, plan->workspace_bytes());
        const auto run = [&] { return plan->run(op_, handle_, operands, workspace.as<void>()); };
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

  /// Runs the plan of `known`, which is that of `problem`; false if cuDNN refuses it after all.
  /// `prepare` launches what has to happen before each run whose results count.
  bool launch(const Stream& stream, const Problem& problem, const std::shared_ptr<KnownPlan>& known,
              const GraphOperands& operands, const std::function<void()>& prepare = {}) {
    use(stream);
    if (measures(stream, *known))
      measure(stream, problem, *known, operands);
    else if (ferrite::detail::cuda::is_capturing(stream))
      keep(known);
    if (prepare) prepare();
    const Workspace workspace(stream, known->plan->workspace_bytes());
    const profiler::detail::DeviceWork work(stream, work_.c_str());
    if (known->plan->run(op_, handle_, operands, workspace.as<void>())) return true;
    known->plan.reset();
    return false;
  }

 private:
  static constexpr std::size_t kPlans = 2000;        // of a device
  static constexpr std::size_t kPlansMeasured = 12;  // of a problem
  static constexpr int kRunsMeasured = 3;

  /// Captured graphs refer to kernels that their plans have loaded, so these plans are kept.
  void keep(std::shared_ptr<KnownPlan> known) {
    if (known->is_captured) return;
    known->is_captured = true;
    captured_.push_back(std::move(known));
  }

  Engine(const Cudnn& cudnn, const char* op)
      : cudnn_(cudnn), op_(op), work_(std::string("cudnn_") + op) {
    const cudnnStatus_t status = cudnn.create(&handle_);
    FERRITE_CHECK(status == CUDNN_STATUS_SUCCESS, CudaError, op_,
                  "cuDNN could not be started: {}: {}; FERRITE_CUDNN=0 does without it",
                  cudnn.error_string(status), cudnn.last_error());
  }

  void use(const Stream& stream) {
    const cudaStream_t native = ferrite::cuda::native_stream(stream);
    if (has_stream_ && native == stream_) return;
    const cudnnStatus_t status = cudnn_.set_stream(handle_, native);
    FERRITE_CHECK(status == CUDNN_STATUS_SUCCESS, CudaError, op_,
                  "cuDNN does not take the stream: {}", cudnn_.error_string(status));
    stream_ = native;
    has_stream_ = true;
  }

  const Cudnn& cudnn_;
  const char* const op_;
  const std::string work_;
  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
  cudaStream_t stream_ = nullptr;
  bool has_stream_ = false;
  PlanCache<Problem, KnownPlan> known_{kPlans};
  std::vector<std::shared_ptr<KnownPlan>> captured_;
};

}  // namespace ferrite::kernels::cuda::vendor
