// Convolutions and attention by cuDNN. The folders cudnn/ and no_cudnn/ define these; one of them
// is built.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "ferrite/kernels/attention.h"
#include "ferrite/kernels/conv_problem.h"

namespace ferrite::kernels::cuda::vendor {

// Each launches its work on the stream and returns true. Each returns false, without having
// done anything, if cuDNN is not available, is switched off, or has no plan for these dtypes, sizes
// and strides.

/// `epilogue` says whether to fuse the bias and the activation of `params`. If cuDNN has no plan
/// with them, the caller calls again without.
enum class ConvEpilogue : std::uint8_t { fused, none };
bool conv2d(const Stream& stream, const View& out, const View& input, const View& weight,
            const View& bias, const ConvParams& params, ConvEpilogue epilogue);
/// Without bias and activation, with the sum and the sum of squares of each channel of `out`, both
/// [O], dense float32.
bool conv2d_sums(const Stream& stream, const View& out, const View& sum, const View& squares,
                 const View& input, const View& weight, const ConvParams& params);
/// Without a bias: the caller adds it. `adds`: to what is there.
bool conv2d_data(const Stream& stream, const View& grad_input, const View& grad, const View& weight,
                 const ConvParams& params, bool adds = false);
bool conv2d_weight(const Stream& stream, const View& grad_weight, const View& input,
                   const View& grad, const ConvParams& params);

/// kernels::attention() for float16 and bfloat16 operands without mask and dropout.
bool attention(const Stream& stream, const AttentionOperands& operands, const View& out,
               const View& lse);
/// kernels::attention_backward() for such operands, if all gradients are asked for. `out` and `lse`
/// may come from our own kernel.
bool attention_backward(const Stream& stream, const AttentionOperands& operands,
                        const AttentionGradients& gradients, const View& grad_out, const View& out,
                        const View& lse);

/// Everything that a plan for attention depends on: sizes and strides of what the kernels take.
struct AttentionProblem {
  struct Operand {
    std::array<std::int64_t, 4> sizes{}, strides{};
    auto operator<=>(const Operand&) const = default;
  };
  DType dtype = kFloat16;
  bool causal = false, backward = false, deterministic = false;
  std::int64_t workspace_limit = 0;  // in bytes
  Operand query, key, value, out;
  Operand grad_query, grad_key, grad_value, grad_out;  // backward
  auto operator<=>(const AttentionProblem&) const = default;
};

/// The plans that cuDNN offers for a problem, for tests. `device` is cuDNN's JSON of device
/// properties (supported from 9.8 on); the device need not be present.
struct PlanReport {
  bool asked = false;       ///< whether cuDNN could be queried
  std::size_t offered = 0;  ///< configurations whose computation the problem allows
  std::size_t usable = 0;   ///< those of the first `most` for which a plan can be built
  std::string why_not;
};
PlanReport report_plans(const ConvProblem& problem, const std::string& device,
                        std::size_t most = 1);
PlanReport report_plans(const AttentionProblem& problem, const std::string& device,
                        std::size_t most = 1);

}  // namespace ferrite::kernels::cuda::vendor
