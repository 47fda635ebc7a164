#include "ferrite/kernels/conv.h"

#include <optional>

#include "ferrite/kernels/conv_problem.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/cuda/conv_direct.h"
#include "ferrite/kernels/cuda/conv_types.h"
#include "ferrite/kernels/cuda/native.h"
#include "ferrite/kernels/cuda/vendor/cudnn.h"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/elementwise.h"
#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cuda {

void conv2d(const Stream& stream, const View& out, const View& input, const View& weight,
            const View& bias, const ConvParams& params) {
  using vendor::ConvEpilogue;
  if (vendor::conv2d(stream, out, input, weight, bias, params, ConvEpilogue::fused)) return;
  const bool plain = !bias.data && params.activation == Activation::none;
  if (!plain && vendor::conv2d(stream, out, input, weight, bias, params, ConvEpilogue::none))
    return cuda::add_channels(stream, out, bias, params.activation);
  native::conv2d(stream, out, input, weight, bias, params);
}
void conv2d_stats(const Stream& stream, const View& out, const View& mean, const View& m2,
                  const View& input, const View& weight, const View& bias, const ConvParams& params,
                  bool* are_sums) {
  const bool plain = !bias.data && params.activation == Activation::none;
  const bool sums = plain && vendor::conv2d_sums(stream, out, mean, m2, input, weight, params);
  if (!sums) {
    cuda::conv2d(stream, out, input, weight, bias, params);
    cuda::channel_stats(stream, channel_layout(out), mean, m2, out);
  } else if (!are_sums) {
    cuda::stats_of_sums(stream, mean, m2, channel_layout(out).count());
  }
  if (are_sums && sums) *are_sums = true;
}
void conv2d_data(const Stream& stream, const View& grad_input, const View& grad, const View& weight,
                 const View& bias, const ConvParams& params) {
  if (vendor::conv2d_data(stream, grad_input, grad, weight, params)) {
    if (bias.data) cuda::add_channels(stream, grad_input, bias, Activation::none);
    return;
  }
  native::conv2d_data(stream, grad_input, grad, weight, bias, params);
}
void conv2d_data_add(const Stream& stream, const View& grad_input, const View& grad,
                     const View& weight, const ConvParams& params) {
  if (vendor::conv2d_data(stream, grad_input, grad, weight, params, true)) return;
  if (grad_input.numel == 0) return;
  const Workspace memory(stream, bytes_spanned(grad_input));
  View part = grad_input;
  part.data = memory.as<void>();
  cuda::conv2d_data(stream, part, grad, weight, View(), params);
  cuda::binary(stream, BinaryOp::add, grad_input, grad_input, part);
}
void conv2d_weight(const Stream& stream, const View& grad_weight, const View& grad_bias,
                   const View& input, const View& grad, const ConvParams& params) {
  if (vendor::conv2d_weight(stream, grad_weight, input, grad, params)) {
    if (grad_bias.data) channel_sum(stream, grad_bias, grad);
    return;
  }
  native::conv2d_weight(stream, grad_weight, grad_bias, input, grad, params);
}

namespace native {

namespace {

/// Whether groups have so few output channels that tiles would be nearly empty.
bool goes_direct(std::int64_t outs, const ConvParams& params) {
  return params.groups > 1 && outs / params.groups <= 4;
}

/// A 16-bit operand in the layout that is best for tensor cores. If its channels (dimension
/// `inner`, `channels` per group) are whole chunks but not contiguous in memory, it is a copy in
/// which they are.
class Chunked {
 public:
  Chunked(const Stream& stream, const View& v, int inner, std::int64_t channels) : view_(v) {
    if (itemsize(v.dtype) != 2 || v.numel == 0 || channels % kChannelChunk != 0 ||
        in_chunks(v, inner, channels))
      return;
    copy_.emplace(stream, static_cast<std::size_t>(v.numel) * itemsize(v.dtype));
    view_.data = copy_->as<void>();
    std::int64_t step = view_.sizes[inner];
    view_.strides[inner] = 1;
    for (int d = v.ndim - 1; d >= 0; --d)
      if (d != inner) {
        view_.strides[d] = step;
        step *= view_.sizes[d];
      }
    cuda::copy(stream, view_, v);
  }
  const View& view() const { return view_; }

 private:
  View view_;
  std::optional<Workspace> copy_;
};

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
  const std::int64_t outs = out.sizes[1], ins = weight.sizes[1];
  if (goes_direct(outs, params))
    return correlate(stream, forward_launches(out, input, weight, params, kMaxDirect / outs),
                     weight, bias, true);
  const Chunked from(stream, input, 1, ins), kernel(stream, weight, 1, ins);
  correlate(stream, forward_launches(out, from.view(), kernel.view(), params), kernel.view(), bias,
            false);
}

void conv2d_data(const Stream& stream, const View& grad_input, const View& grad, const View& weight,
                 const View& bias, const ConvParams& params) {
  if (grad_input.numel == 0) return;
  const std::int64_t ins = grad_input.sizes[1], outs = grad.sizes[1] / params.groups;
  if (goes_direct(ins, params))
    return correlate(stream, backward_launches(grad_input, grad, weight, params, kMaxDirect / ins),
                     weight, bias, true);
  const Chunked from(stream, grad, 1, outs), kernel(stream, weight, 0, outs);
  correlate(stream, backward_launches(grad_input, from.view(), kernel.view(), params),
            kernel.view(), bias, false);
}

void conv2d_weight(const Stream& stream, const View& grad_weight, const View& grad_bias,
                   const View& input, const View& grad, const ConvParams& params) {
  if (grad_bias.data) channel_sum(stream, grad_bias, grad);
  if (grad_weight.numel == 0) return;
  if (goes_direct(grad.sizes[1], params)) {
    bool accumulate = false;
    for (const ConvLaunch& launch : forward_launches(grad, input, grad_weight, params)) {
      direct_weight_gradient(stream, launch, grad_weight, accumulate);
      accumulate = true;
    }
    return;
  }
  const Chunked from(stream, input, 1, grad_weight.sizes[1]);
  const Chunked to(stream, grad, 1, grad.sizes[1] / params.groups);
  bool accumulate = false;
  for (const ConvLaunch& launch : forward_launches(to.view(), from.view(), grad_weight, params)) {
    if (grad.dtype == kFloat32)
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

}  // namespace native

}  // namespace ferrite::kernels::cuda
