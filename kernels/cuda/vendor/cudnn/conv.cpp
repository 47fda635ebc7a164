#include <fmt/format.h>

#include <array>
#include <map>
#include <mutex>

#include "core/cuda/runtime.h"
#include "core/cuda_backend.h"
#include "core/error.h"
#include "kernels/cuda/vendor/cudnn.h"
#include "kernels/cuda/vendor/cudnn/plan.h"
#include "kernels/cuda/workspace.h"
#include "kernels/vendor.h"

namespace ferrite::kernels::cuda::vendor {

namespace {

/// The handle and the plans of one device.
class Library {
 public:
  /// That of a device; never destroyed, since the driver may be gone by then.
  static Library& of(const Device& device) {
    static std::array<std::once_flag, Device::kMaxIndex + 1>& once =
        *new std::array<std::once_flag, Device::kMaxIndex + 1>;
    static std::array<Library*, Device::kMaxIndex + 1> all{};
    const auto slot = static_cast<std::size_t>(device.index());
    std::call_once(once[slot], [&] { all[slot] = new Library; });
    return *all[slot];
  }

  /// Runs the problem; false where there is no plan for it.
  bool run(const Stream& stream, const ConvProblem& problem, const ConvPlan::Pointers& pointers) {
    std::lock_guard lock(mutex_);
    const cudnnStatus_t status = cudnnSetStream(handle_, ferrite::cuda::native_stream(stream));
    FERRITE_CHECK(status == CUDNN_STATUS_SUCCESS, CudaError, "conv2d",
                  "cuDNN does not take the stream: {}", cudnnGetErrorString(status));
    const auto [at, fresh] = plans_.try_emplace(problem);
    std::unique_ptr<ConvPlan>& plan = at->second;
    if (fresh) {
      plan = ConvPlan::make(handle_, problem);
      if (plan && problem.measured) {
        const Workspace workspace(stream, plan->measuring_workspace_bytes());
        plan->measure(handle_, pointers, workspace.as<void>());
      }
    }
    if (!plan) return false;
    const Workspace workspace(stream, plan->workspace_bytes());
    plan->run(handle_, pointers, workspace.as<void>());
    return true;
  }

 private:
  Library() {
    const cudnnStatus_t status = cudnnCreate(&handle_);
    FERRITE_CHECK(status == CUDNN_STATUS_SUCCESS, CudaError, "conv2d",
                  "cuDNN could not be started: {}; FERRITE_CUDNN=0 does without it",
                  cudnnGetErrorString(status));
  }

  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
  std::map<ConvProblem, std::unique_ptr<ConvPlan>> plans_;
};

ConvProblem::Operand operand(const View& v) {
  ConvProblem::Operand o;
  for (std::size_t d = 0; d < 4; ++d) {
    o.sizes[d] = v.sizes[d];
    o.strides[d] = v.strides[d];
  }
  const auto address = reinterpret_cast<std::uintptr_t>(v.data);
  o.alignment = address % 16 == 0 ? 16 : static_cast<std::uint32_t>(address & (~address + 1));
  return o;
}

/// Whether cuDNN is to be asked at all: dense operands of one layout, nothing empty.
bool takes(const View& input, const View& weight, const View& out) {
  if (!cudnn::is_enabled() || !cudnn::is_available()) return false;
  if (input.numel == 0 || weight.numel == 0 || out.numel == 0) return false;
  for (const View* v : {&input, &weight, &out})
    for (int d = 0; d < 4; ++d)
      if (v->sizes[d] > 1 && v->strides[d] == 0) return false;
  return true;
}

ConvProblem problem_of(const Stream& stream, Pass pass, const View& input, const View& weight,
                       const View& out, const ConvParams& params) {
  ConvProblem p;
  p.pass = pass;
  p.dtype = input.dtype;
  p.tf32 = cudnn::allow_tf32();
  p.deterministic = cudnn::deterministic();
  // Timing waits for the device, which a capture does not allow.
  p.measured = cudnn::benchmark() && !ferrite::detail::cuda::is_capturing(stream);
  p.input = operand(input);
  p.weight = operand(weight);
  p.out = operand(out);
  p.stride = params.stride;
  p.dilation = params.dilation;
  p.before = params.padding;
  for (std::size_t d = 0; d < 2; ++d) {
    const int dim = static_cast<int>(d) + 2;
    const std::int64_t reach =
        (out.sizes[dim] - 1) * params.stride[d] + (weight.sizes[dim] - 1) * params.dilation[d] + 1;
    p.after[d] = std::max<std::int64_t>(reach - input.sizes[dim] - params.padding[d], 0);
  }
  return p;
}

}  // namespace

bool conv2d(const Stream& stream, const View& out, const View& input, const View& weight,
            const View& bias, const ConvParams& params) {
  if (!takes(input, weight, out) || (bias.data && bias.strides[0] != 1)) return false;
  ConvProblem problem = problem_of(stream, Pass::forward, input, weight, out, params);
  problem.has_bias = bias.data != nullptr;
  return Library::of(stream.device())
      .run(stream, problem, {input.data, weight.data, out.data, bias.data});
}

bool conv2d_data(const Stream& stream, const View& grad_input, const View& grad, const View& weight,
                 const ConvParams& params) {
  if (!takes(grad_input, weight, grad)) return false;
  return Library::of(stream.device())
      .run(stream, problem_of(stream, Pass::data, grad_input, weight, grad, params),
           {grad_input.data, weight.data, grad.data, nullptr});
}

bool conv2d_weight(const Stream& stream, const View& grad_weight, const View& input,
                   const View& grad, const ConvParams& params) {
  if (!takes(input, grad_weight, grad)) return false;
  return Library::of(stream.device())
      .run(stream, problem_of(stream, Pass::weight, input, grad_weight, grad, params),
           {input.data, grad_weight.data, grad.data, nullptr});
}

}  // namespace ferrite::kernels::cuda::vendor

namespace ferrite {

bool cudnn::is_available() { return true; }

std::string cudnn::version() {
  const std::size_t v = cudnnGetVersion();
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace ferrite
