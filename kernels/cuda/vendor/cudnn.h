// Convolutions by cuDNN. The folders cudnn/ and no_cudnn/ define these; one of them is built.
#pragma once

#include <string>
#include <vector>

#include "ferrite/kernels/conv_problem.h"

namespace ferrite::kernels::cuda::vendor {

// Each launches the convolution on the stream and returns true. Each returns false, without having
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
/// Without a bias: the caller adds it.
bool conv2d_data(const Stream& stream, const View& grad_input, const View& grad, const View& weight,
                 const ConvParams& params);
bool conv2d_weight(const Stream& stream, const View& grad_weight, const View& input,
                   const View& grad, const ConvParams& params);

/// The plans that cuDNN offers for a problem, for tests. `device` is cuDNN's JSON of device
/// properties (supported from 9.8 on); the device need not be present.
struct ConvPlanReport {
  bool asked = false;       ///< whether cuDNN could be queried
  std::size_t offered = 0;  ///< configurations whose computation the problem allows
  std::size_t usable = 0;   ///< those of the first `most` for which a plan can be built
  std::string why_not;
};
ConvPlanReport report_plans(const ConvProblem& problem, const std::string& device,
                            std::size_t most = 1);

}  // namespace ferrite::kernels::cuda::vendor
