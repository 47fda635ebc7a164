#include "ferrite/kernels/conv.h"

#include "ferrite/kernels/conv_problem.h"
#include "ferrite/kernels/cpu/conv.h"
#include "ferrite/kernels/cpu/norm.h"
#include "ferrite/kernels/cuda/channels.h"
#include "ferrite/kernels/cuda/conv.h"
#include "ferrite/kernels/cuda/reduce.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void conv2d(const Stream& stream, const View& out, const View& input, const View& weight,
            const View& bias, const ConvParams& params) {
  launch(
      stream, "conv2d", [=] { cpu::conv2d(out, input, weight, bias, params); },
      [&] { cuda::conv2d(stream, out, input, weight, bias, params); });
}
void conv2d_stats(const Stream& stream, const View& out, const View& mean, const View& m2,
                  const View& input, const View& weight, const View& bias,
                  const ConvParams& params) {
  launch(
      stream, "conv2d",
      [=] {
        cpu::conv2d(out, input, weight, bias, params);
        cpu::channel_stats(channel_layout(out), mean, m2, out);
      },
      [&] { cuda::conv2d_stats(stream, out, mean, m2, input, weight, bias, params); });
}
void conv2d_data(const Stream& stream, const View& grad_input, const View& grad, const View& weight,
                 const View& bias, const ConvParams& params) {
  launch(
      stream, "conv2d_data", [=] { cpu::conv2d_data(grad_input, grad, weight, bias, params); },
      [&] { cuda::conv2d_data(stream, grad_input, grad, weight, bias, params); });
}
void conv2d_weight(const Stream& stream, const View& grad_weight, const View& grad_bias,
                   const View& input, const View& grad, const ConvParams& params) {
  launch(
      stream, "conv2d_weight",
      [=] { cpu::conv2d_weight(grad_weight, grad_bias, input, grad, params); },
      [&] { cuda::conv2d_weight(stream, grad_weight, grad_bias, input, grad, params); });
}
void channel_sum(const Stream& stream, const View& out, const View& grad) {
  launch(
      stream, "channel_sum", [=] { cpu::channel_sum(out, grad); },
      [&] { cuda::channel_sum(stream, out, grad); });
}

void add_channels(const Stream& stream, const View& out, const View& bias, Activation activation) {
  launch(
      stream, "add_channels", [=] { cpu::add_channels(out, bias, activation); },
      [&] { cuda::add_channels(stream, out, bias, activation); });
}

}  // namespace ferrite::kernels
