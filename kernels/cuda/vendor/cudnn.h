// Convolutions by cuDNN. The folders cudnn/ and no_cudnn/ define these; one of them is built.
#pragma once

#include <string>
#include <vector>

#include "ferrite/kernels/conv_problem.h"

namespace ferrite::kernels::cuda::vendor {

// Each puts the convolution on the stream, or answers false, having done nothing, where cuDNN is
// not there, is switched off, or has no plan for these dtypes, sizes and strides.

/// Whether the activation of `params` and the bias are in it says `epilogue`: where cuDNN has no
/// plan for all of it the caller asks again without.
enum class ConvEpilogue : std::uint8_t { fused, none };
bool conv2d(const Stream& stream, const View& out, const View& input, const View& weight,
            const View& bias, const ConvParams& params, ConvEpilogue epilogue);
/// Without bias and activation, with the sum and the sum of squares of each channel of `out`, both
/// [O], dense float32.
bool conv2d_sums(const Stream& stream, const View& out, const View& sum, const View& squares,
                 const View& input, const View& weight, const ConvParams& params);
/// Without a bias: the caller adds it.
bool conv2d_data(const Stream& stream, const View& grad_input, const View& grad, const View& weight,
                 const ConvParams& params);
bool conv2d_weight(const Stream& stream, const View& grad_weight, const View& input,
                   const View& grad, const ConvParams& params);

/// What cuDNN has for a problem on a device that need not be here, described by `device`: cuDNN's
/// JSON of its properties (from 9.8 on). For tests.
struct ConvPlanReport {
  bool asked = false;       ///< whether cuDNN could be asked
  std::size_t offered = 0;  ///< configurations that compute as the problem allows
  std::size_t usable = 0;   ///< of the first `most`, those of which a plan can be made
  std::string why_not;
};
ConvPlanReport report_plans(const ConvProblem& problem, const std::string& device,
                            std::size_t most = 1);

}  // namespace ferrite::kernels::cuda::vendor
