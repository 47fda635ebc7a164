#pragma once

#include "ferrite/kernels/norm.h"

namespace ferrite::kernels::cpu {

void channel_stats(const ChannelLayout& layout, const View& mean, const View& m2, const View& in);
void stats_of_sums(const View& mean, const View& m2, std::int64_t n);
void combine_stats(const View& mean, const View& m2, const View& count, const View& means,
                   const View& m2s, const View& counts);
void batch_norm_finish(const View& invstd, const View& running_mean, const View& running_var,
                       const View& mean, const View& m2, const View& count, std::int64_t n,
                       double momentum, double eps);
void inverse_std(const View& invstd, const View& var, double eps);
void batch_norm_apply(const ChannelLayout& layout, const View& out, const View& in,
                      const View& mean, const View& invstd, const View& weight, const View& bias,
                      const View& residual, NormActivation activation);
void batch_norm_backward_reduce(const ChannelLayout& layout, const View& sum_dy,
                                const View& sum_dy_xhat, const View& dy, const View& in,
                                const View& mean, const View& invstd, const ReluMask& mask,
                                const View& passed);
void batch_norm_backward_apply(const ChannelLayout& layout, const View& dx, const View& dy,
                               const View& in, const View& mean, const View& invstd,
                               const View& weight, const View& sum_dy, const View& sum_dy_xhat,
                               const View& count, std::int64_t n, const ReluMask& mask);
void layer_norm(std::int64_t rows, std::int64_t width, const View& out, const View& mean,
                const View& rstd, const View& in, const View& weight, const View& bias, double eps);
void layer_norm_backward(std::int64_t rows, std::int64_t width, const View& grad_in,
                         const View& grad_weight, const View& grad_bias, const View& grad_out,
                         const View& in, const View& mean, const View& rstd, const View& weight);

}  // namespace ferrite::kernels::cpu
