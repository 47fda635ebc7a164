// Our convolutions of one element type, group by group.
#pragma once

#include "kernels/cpu/conv_columns.h"
#include "kernels/cpu/conv_correlate.h"
#include "kernels/cpu/conv_planes.h"
#include "kernels/cpu/conv_weight.h"

namespace ferrite::kernels::cpu {

template <class S>
void correlate_forward(const View& out, const View& input, const View& weight, const View& bias,
                       const ConvParams& p) {
  const std::int64_t outs = out.sizes[1] / p.groups, ins = weight.sizes[1];
  const Axis rows =
      forward_axis(out.sizes[2], weight.sizes[2], p.stride[0], p.padding[0], p.dilation[0]);
  const Axis columns =
      forward_axis(out.sizes[3], weight.sizes[3], p.stride[1], p.padding[1], p.dilation[1]);
  for (std::int64_t g = 0; g < p.groups; ++g) {
    const Filter<S> filter{weight.as<S>() + g * outs * weight.strides[0], weight.strides[0],
                           weight.strides[1], weight.strides[2], weight.strides[3]};
    const Images<S> to(out, g * outs, outs);
    const Images<const S> from(input, g * ins, ins);
    const S* add = bias.data ? bias.as<S>() + g * outs * bias.strides[0] : nullptr;
    const std::int64_t add_step = bias.data ? bias.strides[0] : 0;
    if constexpr (std::is_same_v<S, Compute<S>>)
      if (planes::fits<S>(to, from, p.stride[1]) &&
          planes::pays<S>(to.height, to.width, outs, rows.taps * columns.taps * ins,
                          ins * from.height * from.width)) {
        PlaneCorrelation<S>(to, from, filter, add, add_step, rows, columns).run();
        continue;
      }
    Correlation<S>(to, from, filter, add, add_step, {rows}, {columns}).run();
  }
}

template <class S>
void correlate_backward(const View& grad_input, const View& grad, const View& weight,
                        const View& bias, const ConvParams& p) {
  const std::int64_t outs = grad.sizes[1] / p.groups, ins = weight.sizes[1];
  const std::int64_t kernel_rows = weight.sizes[2], kernel_columns = weight.sizes[3];
  for (std::int64_t g = 0; g < p.groups; ++g) {
    const Filter<S> filter{weight.as<S>() + g * outs * weight.strides[0], weight.strides[1],
                           weight.strides[0], weight.strides[2], weight.strides[3]};
    const Images<S> to(grad_input, g * ins, ins);
    const Images<const S> from(grad, g * outs, outs);
    const S* add = bias.data ? bias.as<S>() + g * ins * bias.strides[0] : nullptr;
    const std::int64_t add_step = bias.data ? bias.strides[0] : 0;
    if (ColumnGradient<S>::pays(to, from, kernel_rows * kernel_columns, p))
      ColumnGradient<S>(to, from, filter, kernel_rows, kernel_columns, add, add_step, p).run();
    else
      Correlation<S>(
          to, from, filter, add, add_step,
          backward_axes(to.height, kernel_rows, p.stride[0], p.padding[0], p.dilation[0]),
          backward_axes(to.width, kernel_columns, p.stride[1], p.padding[1], p.dilation[1]))
          .run();
  }
}

template <class S>
void weight_gradient(const View& grad_weight, const View& grad_bias, const View& input,
                     const View& grad, const ConvParams& p) {
  const std::int64_t outs = grad.sizes[1] / p.groups, ins = grad_weight.sizes[1];
  const std::int64_t kernel_rows = grad_weight.sizes[2], kernel_columns = grad_weight.sizes[3];
  for (std::int64_t g = 0; g < p.groups; ++g) {
    const Images<const S> in(input, g * ins, ins), from(grad, g * outs, outs);
    S* to = grad_weight.as<S>() + g * outs * grad_weight.strides[0];
    S* bias = grad_bias.data ? grad_bias.as<S>() + g * outs * grad_bias.strides[0] : nullptr;
    const std::int64_t bias_step = grad_bias.data ? grad_bias.strides[0] : 0;
    if constexpr (std::is_same_v<S, Compute<S>>)
      if (in.count > 0 && planes::fits<const S>(from, in, p.stride[1]) &&
          planes::pays<S>(from.height, from.width, outs, kernel_rows * kernel_columns * ins,
                          ins * in.height * in.width)) {
        PlaneWeightGradient<S>(in, from, kernel_rows, kernel_columns, p)
            .run(to, grad_weight.strides, bias, bias_step);
        continue;
      }
    WeightGradient<S>(in, from, kernel_rows, kernel_columns, p)
        .run(to, grad_weight.strides, bias, bias_step);
  }
}

}  // namespace ferrite::kernels::cpu
