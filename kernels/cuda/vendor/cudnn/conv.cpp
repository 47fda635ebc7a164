#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>

#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/cuda/vendor/cudnn.h"
#include "ferrite/kernels/cuda/vendor/cudnn/conv_graph.h"
#include "ferrite/kernels/cuda/vendor/cudnn/engine.h"
#include "ferrite/kernels/cuda/vendor/cudnn/report.h"
#include "ferrite/kernels/vendor.h"

namespace ferrite::kernels::cuda::vendor {

namespace {

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
         const View& out, const ConvExtras& extras = {}) {
  problem.tf32 = problem.dtype == kFloat32 && cudnn::allow_tf32();
  problem.deterministic = cudnn::deterministic();
  problem.workspace_limit = cudnn::workspace_limit();
  auto* const engine = Engine<ConvProblem>::of(stream.device(), "conv2d");
  if (!engine) return false;
  std::lock_guard lock(engine->mutex());
  const std::shared_ptr<KnownPlan> known = engine->find(problem);
  if (!known->plan) return false;

  const Laid in(stream, input, problem, problem.input),
      filter(stream, weight, problem, problem.weight), result(stream, out, problem, problem.out);
  const Laid& computed = problem.pass == ConvPass::forward ? result
                         : problem.pass == ConvPass::data  ? in
                                                           : filter;
  for (const Laid* operand : {&in, &filter, &result})
    if (operand != &computed) operand->read();
  if (problem.adds && engine->measures(stream, *known)) {  // somewhere else
    const Workspace scratch(stream, static_cast<std::size_t>(input.numel) * itemsize(input.dtype));
    engine->measure(stream, problem, *known,
                    operands_of({scratch.as<void>(), filter.data(), result.data(), extras}));
    if (!known->plan) return false;
  }
  const GraphOperands operands = operands_of({in.data(), filter.data(), result.data(), extras});
  if (!engine->launch(stream, problem, known, operands)) return false;
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
                 const ConvParams& params, bool adds) {
  if (!is_mine(grad_input, weight, grad, params)) return false;
  ConvProblem problem = problem_of(ConvPass::data, grad_input, weight, grad, params);
  problem.adds = adds;
  if (adds && !lies_in(grad_input, problem.layout)) return false;
  return run(stream, problem, grad_input, weight, grad);
}

bool conv2d_weight(const Stream& stream, const View& grad_weight, const View& input,
                   const View& grad, const ConvParams& params) {
  if (!is_mine(input, grad_weight, grad, params)) return false;
  return run(stream, problem_of(ConvPass::weight, input, grad_weight, grad, params), input,
             grad_weight, grad);
}

PlanReport report_plans(const ConvProblem& problem, const std::string& device, std::size_t most) {
  return report_of(problem, device, most);
}

}  // namespace ferrite::kernels::cuda::vendor
