#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>

#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/kernels/cuda/vendor/cudnn.h"
#include "ferrite/kernels/cuda/vendor/cudnn/attention_graph.h"
#include "ferrite/kernels/cuda/vendor/cudnn/engine.h"
#include "ferrite/kernels/cuda/vendor/cudnn/report.h"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/vendor.h"

namespace ferrite::kernels::cuda::vendor {

namespace {

using Names = AttentionNames;

constexpr std::uintptr_t kAlignment = 16;

bool is_aligned(const View& v) {
  return reinterpret_cast<std::uintptr_t>(v.data) % kAlignment == 0;
}

/// Nothing if cuDNN does not take this memory.
std::optional<AttentionProblem::Operand> operand_of(const View& v) {
  AttentionProblem::Operand o;
  constexpr auto kPack = static_cast<std::int64_t>(kAlignment / 2);
  if (!is_aligned(v)) return std::nullopt;
  std::int64_t extent = 1;  // of the dimensions behind
  for (int d = 3; d >= 0; --d) {
    const auto i = static_cast<std::size_t>(d);
    if (v.sizes[d] > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
    // The stride of a single element says nothing, and must not tell problems apart.
    o.sizes[i] = v.sizes[d];
    o.strides[i] = v.sizes[d] == 1 ? extent : v.strides[d];
    const bool fits = d == 3 ? o.strides[i] == 1 && o.sizes[i] % kPack == 0
                             : o.strides[i] > 0 && o.strides[i] % kPack == 0;
    if (!fits) return std::nullopt;
    extent = std::max(extent, o.sizes[i] * o.strides[i]);
  }
  return o;
}

/// The forward problem; nothing if it is not one for cuDNN.
std::optional<AttentionProblem> attention_problem(const AttentionOperands& operands,
                                                  const View& out, const View& lse) {
  if (!cudnn::is_enabled() || itemsize(out.dtype) != 2 || operands.mask.data ||
      operands.dropout > 0 || !is_aligned(lse))
    return std::nullopt;
  const auto query = operand_of(operands.query), key = operand_of(operands.key),
             value = operand_of(operands.value), result = operand_of(out);
  if (!query || !key || !value || !result) return std::nullopt;
  AttentionProblem p;
  p.dtype = out.dtype;
  p.causal = operands.causal;
  p.deterministic = cudnn::deterministic();
  p.workspace_limit = cudnn::workspace_limit();
  p.query = *query;
  p.key = *key;
  p.value = *value;
  p.out = *result;
  return p;
}

GraphOperands attention_operands(const AttentionOperands& o, const View& out, const View& lse) {
  GraphOperands operands;
  operands.add(Names::kQuery, o.query.data);
  operands.add(Names::kKey, o.key.data);
  operands.add(Names::kValue, o.value.data);
  operands.add(Names::kOut, out.data);
  operands.add(Names::kLse, lse.data);
  operands.add_value(Names::kScale, static_cast<float>(o.scale));
  if (o.causal) operands.add_value(Names::kNever, -std::numeric_limits<float>::infinity());
  return operands;
}

/// cuDNN compiles a plan's kernel, for about a second. Lengths that hardly recur, as of a text that
/// grows by a token, are not worth it. A captured call recurs, and where bits have to be the same
/// they must not depend on how many calls there were before.
int waits(const Stream& stream) {
  constexpr int kCalls = 100;
  const bool now =
      cudnn::deterministic() || cudnn::benchmark() || ferrite::detail::cuda::is_capturing(stream);
  return now ? 0 : kCalls;
}

Engine<AttentionProblem>* engine_of(const Stream& stream) {
  return Engine<AttentionProblem>::of(stream.device(), "scaled_dot_product_attention");
}

}  // namespace

bool attention(const Stream& stream, const AttentionOperands& operands, const View& out,
               const View& lse) {
  const std::optional<AttentionProblem> problem = attention_problem(operands, out, lse);
  auto* const engine = problem ? engine_of(stream) : nullptr;
  if (!engine) return false;
  const std::lock_guard lock(engine->mutex());
  const std::shared_ptr<KnownPlan> known = engine->find(*problem, waits(stream));
  return known->plan &&
         engine->launch(stream, *problem, known, attention_operands(operands, out, lse));
}

bool attention_backward(const Stream& stream, const AttentionOperands& operands,
                        const AttentionGradients& gradients, const View& grad_out, const View& out,
                        const View& lse) {
  if (!gradients.query.data || !gradients.key.data || !gradients.value.data) return false;
  // The sums of query gradients are made in any order. Where they are not, cuDNN needs memory for
  // all weights, and our own kernels do not.
  if (cudnn::deterministic()) return false;
  std::optional<AttentionProblem> problem = attention_problem(operands, out, lse);
  if (!problem) return false;
  const auto query = operand_of(gradients.query), key = operand_of(gradients.key),
             value = operand_of(gradients.value), grad = operand_of(grad_out);
  if (!query || !key || !value || !grad) return false;
  problem->backward = true;
  problem->grad_query = *query;
  problem->grad_key = *key;
  problem->grad_value = *value;
  problem->grad_out = *grad;
  auto* const engine = engine_of(stream);
  if (!engine) return false;
  const std::lock_guard lock(engine->mutex());
  const std::shared_ptr<KnownPlan> known = engine->find(*problem, waits(stream));
  if (!known->plan) return false;

  GraphOperands all = attention_operands(operands, out, lse);
  all.add(Names::kGradOut, grad_out.data);
  all.add(Names::kGradQuery, gradients.query.data);
  all.add(Names::kGradKey, gradients.key.data);
  all.add(Names::kGradValue, gradients.value.data);
  all.add_value(Names::kOne, 1);
  const auto floats = [](std::int64_t count) {
    return sizeof(float) * static_cast<std::size_t>(count);
  };
  const Workspace means(stream, floats(lse.numel));
  all.add(Names::kMeans, means.as<void>());
  const Workspace sums(stream, floats(gradients.query.numel));
  all.add(Names::kQuerySums, sums.as<void>());
  return engine->launch(stream, *problem, known, all, [&] {
    FERRITE_CUDA_CHECK(cudaMemsetAsync(sums.as<void>(), 0, floats(gradients.query.numel),
                                       ferrite::cuda::native_stream(stream)));
  });
}

PlanReport report_plans(const AttentionProblem& problem, const std::string& device,
                        std::size_t most) {
  return report_of(problem, device, most);
}

}  // namespace ferrite::kernels::cuda::vendor
