#include "ferrite/kernels/norm.h"

#include "ferrite/kernels/cpu/norm.h"
#include "ferrite/kernels/cuda/norm.h"
#include "ferrite/kernels/launch.h"

namespace ferrite::kernels {

void channel_stats(const Stream& stream, const ChannelLayout& layout, const View& mean,
                   const View& m2, const View& in) {
  launch(
      stream, "batch_norm", [=] { cpu::channel_stats(layout, mean, m2, in); },
      [&] { cuda::channel_stats(stream, layout, mean, m2, in); });
}
void stats_of_sums(const Stream& stream, const View& mean, const View& m2, std::int64_t n) {
  launch(
      stream, "batch_norm", [=] { cpu::stats_of_sums(mean, m2, n); },
      [&] { cuda::stats_of_sums(stream, mean, m2, n); });
}
void combine_stats(const Stream& stream, const View& mean, const View& m2, const View& count,
                   const View& means, const View& m2s, const View& counts) {
  launch(
      stream, "batch_norm", [=] { cpu::combine_stats(mean, m2, count, means, m2s, counts); },
      [&] { cuda::combine_stats(stream, mean, m2, count, means, m2s, counts); });
}
void batch_norm_finish(const Stream& stream, const View& invstd, const View& running_mean,
                       const View& running_var, const View& mean, const View& m2, const View& count,
                       std::int64_t n, double momentum, double eps) {
  launch(
      stream, "batch_norm",
      [=] {
        cpu::batch_norm_finish(invstd, running_mean, running_var, mean, m2, count, n, momentum,
                               eps);
      },
      [&] {
        cuda::batch_norm_finish(stream, invstd, running_mean, running_var, mean, m2, count, n,
                                momentum, eps);
      });
}
void inverse_std(const Stream& stream, const View& invstd, const View& var, double eps) {
  launch(
      stream, "batch_norm", [=] { cpu::inverse_std(invstd, var, eps); },
      [&] { cuda::inverse_std(stream, invstd, var, eps); });
}
void batch_norm_apply(const Stream& stream, const ChannelLayout& layout, const View& out,
                      const View& in, const View& mean, const View& invstd, const View& weight,
                      const View& bias, const View& residual, NormActivation activation) {
  launch(
      stream, "batch_norm",
      [=] {
        cpu::batch_norm_apply(layout, out, in, mean, invstd, weight, bias, residual, activation);
      },
      [&] {
        cuda::batch_norm_apply(stream, layout, out, in, mean, invstd, weight, bias, residual,
                               activation);
      });
}
void batch_norm_backward_reduce(const Stream& stream, const ChannelLayout& layout,
                                const View& sum_dy, const View& sum_dy_xhat, const View& dy,
                                const View& in, const View& mean, const View& invstd,
                                const ReluMask& mask, const View& passed) {
  launch(
      stream, "batch_norm",
      [=] {
        cpu::batch_norm_backward_reduce(layout, sum_dy, sum_dy_xhat, dy, in, mean, invstd, mask,
                                        passed);
      },
      [&] {
        cuda::batch_norm_backward_reduce(stream, layout, sum_dy, sum_dy_xhat, dy, in, mean, invstd,
                                         mask, passed);
      });
}
void batch_norm_backward_apply(const Stream& stream, const ChannelLayout& layout, const View& dx,
                               const View& dy, const View& in, const View& mean, const View& invstd,
                               const View& weight, const View& sum_dy, const View& sum_dy_xhat,
                               const View& count, std::int64_t n, const ReluMask& mask) {
  launch(
      stream, "batch_norm",
      [=] {
        cpu::batch_norm_backward_apply(layout, dx, dy, in, mean, invstd, weight, sum_dy,
                                       sum_dy_xhat, count, n, mask);
      },
      [&] {
        cuda::batch_norm_backward_apply(stream, layout, dx, dy, in, mean, invstd, weight, sum_dy,
                                        sum_dy_xhat, count, n, mask);
      });
}
void layer_norm(const Stream& stream, std::int64_t rows, std::int64_t width, const View& out,
                const View& mean, const View& rstd, const View& in, const View& weight,
                const View& bias, double eps) {
  launch(
      stream, "layer_norm",
      [=] { cpu::layer_norm(rows, width, out, mean, rstd, in, weight, bias, eps); },
      [&] { cuda::layer_norm(stream, rows, width, out, mean, rstd, in, weight, bias, eps); });
}
void layer_norm_backward(const Stream& stream, std::int64_t rows, std::int64_t width,
                         const View& grad_in, const View& grad_weight, const View& grad_bias,
                         const View& grad_out, const View& in, const View& mean, const View& rstd,
                         const View& weight) {
  launch(
      stream, "layer_norm",
      [=] {
        cpu::layer_norm_backward(rows, width, grad_in, grad_weight, grad_bias, grad_out, in, mean,
                                 rstd, weight);
      },
      [&] {
        cuda::layer_norm_backward(stream, rows, width, grad_in, grad_weight, grad_bias, grad_out,
                                  in, mean, rstd, weight);
      });
}

}  // namespace ferrite::kernels
