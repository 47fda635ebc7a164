#include "kernels/cuda/conv.h"

#include "kernels/cuda/conv_direct.h"
#include "kernels/cuda/conv_types.h"
#include "kernels/cuda/own.h"

namespace ferrite::kernels::cuda {

void conv2d(const Stream& stream, const View& out, const View& input, const View& weight,
            const View& bias, const ConvParams& params) {
  own::conv2d(stream, out, input, weight, bias, params);
}
void conv2d_data(const Stream& stream, const View& grad_input, const View& grad, const View& weight,
                 const View& bias, const ConvParams& params) {
  own::conv2d_data(stream, grad_input, grad, weight, bias, params);
}
void conv2d_weight(const Stream& stream, const View& grad_weight, const View& grad_bias,
                   const View& input, const View& grad, const ConvParams& params) {
  own::conv2d_weight(stream, grad_weight, grad_bias, input, grad, params);
}

namespace own {

namespace {

/// Groups of so few output channels leave tiles nearly empty.
bool goes_direct(std::int64_t outs, const ConvParams& params) {
  return params.groups > 1 && outs / params.groups <= 4;
}

std::int64_t most_positions(bool direct, std::int64_t channels) {
  return direct ? kMaxDirect / channels : kMostPositions;
}

void correlate(const Stream& stream, const std::vector<ConvLaunch>& launches, const View& kernel,
               const View& bias, bool direct) {
  for (const ConvLaunch& launch : launches) {
    if (direct)
      direct_correlation(stream, launch, kernel, bias);
    else if (kernel.dtype == kFloat32)
      float_correlation(stream, launch, kernel, bias);
    else if (kernel.dtype == kFloat64)
      double_correlation(stream, launch, kernel, bias);
    else if (kernel.dtype == kFloat16)
      half_correlation(stream, launch, kernel, bias);
    else
      bfloat16_correlation(stream, launch, kernel, bias);
  }
}

}  // namespace

void conv2d(const Stream& stream, const View& out, const View& input, const View& weight,
            const View& bias, const ConvParams& params) {
  if (out.numel == 0) return;
  const bool direct = goes_direct(out.sizes[1], params);
  correlate(stream,
            forward_launches(out, input, weight, params, most_positions(direct, out.sizes[1])),
            weight, bias, direct);
}

void conv2d_data(const Stream& stream, const View& grad_input, const View& grad, const View& weight,
                 const View& bias, const ConvParams& params) {
  if (grad_input.numel == 0) return;
  const bool direct = goes_direct(grad_input.sizes[1], params);
  correlate(stream,
            backward_launches(grad_input, grad, weight, params,
                              most_positions(direct, grad_input.sizes[1])),
            weight, bias, direct);
}

void conv2d_weight(const Stream& stream, const View& grad_weight, const View& grad_bias,
                   const View& input, const View& grad, const ConvParams& params) {
  if (grad_weight.numel == 0) return;
  if (grad_bias.data) channel_sum(stream, grad_bias, grad);
  const bool direct = goes_direct(grad.sizes[1], params);
  bool accumulate = false;
  for (const ConvLaunch& launch : forward_launches(grad, input, grad_weight, params)) {
    if (direct)
      direct_weight_gradient(stream, launch, grad_weight, accumulate);
    else if (grad.dtype == kFloat32)
      float_weight_gradient(stream, launch, grad_weight, accumulate);
    else if (grad.dtype == kFloat64)
      double_weight_gradient(stream, launch, grad_weight, accumulate);
    else if (grad.dtype == kBFloat16)
      bfloat16_weight_gradient(stream, launch, grad_weight, accumulate);
    else
      half_weight_gradient(stream, launch, grad_weight, accumulate);
    accumulate = true;
  }
}

}  // namespace own

}  // namespace ferrite::kernels::cuda
