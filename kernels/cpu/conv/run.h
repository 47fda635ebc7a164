// Our convolutions of one element type, group by group.
#pragma once

#include "ferrite/kernels/cpu/conv/columns.h"
#include "ferrite/kernels/cpu/conv/correlate.h"
#include "ferrite/kernels/cpu/conv/depthwise.h"
#include "ferrite/kernels/cpu/conv/pairs.h"
#include "ferrite/kernels/cpu/conv/planes.h"
#include "ferrite/kernels/cpu/conv/weight.h"
#include "ferrite/kernels/cpu/conv/weight_blocks.h"
#include "ferrite/kernels/cpu/conv/wide.h"
#include "ferrite/kernels/cpu/conv/winograd/weight_gradient.h"
#include "ferrite/kernels/cpu/conv/winograd/winograd.h"
#include "ferrite/kernels/cpu/unary.h"

namespace ferrite::kernels::cpu {

/// Weights that lie plane by plane ([O, C, KH, KW]) copied pixel by pixel ([O, KH, KW, C]), from
/// where they pack in whole vectors.
template <class S>
class PixelWeights {
 public:
  explicit PixelWeights(const View& weight) : view_(weight) {
    if constexpr (std::is_same_v<S, Compute<S>>) {
      const std::int64_t channels = weight.sizes[1], taps = weight.sizes[2] * weight.sizes[3];
      const std::int64_t* s = weight.strides;
      if (taps == 1 || channels < kLanes<S> || s[1] != taps || s[2] != weight.sizes[3] || s[3] != 1)
        return;
      copied_ = Scratch<S>(weight.numel);
      const std::int64_t size = channels * taps;
      parallel_for(weight.sizes[0], std::max<std::int64_t>(1, 65536 / size),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t o = begin; o < end; ++o)
                       copy_matrix(copied_.data() + o * size, channels, weight.as<S>() + o * s[0],
                                   1, taps, taps, channels);
                   });
      view_.data = copied_.data();
      view_.strides[0] = size;
      view_.strides[1] = 1;
      view_.strides[2] = weight.sizes[3] * channels;
      view_.strides[3] = channels;
    }
  }
  const View& view() const { return view_; }

 private:
  View view_;
  Scratch<S> copied_;
};

/// The filter of a group, from input to output channels.
template <class S>
Filter<S> forward_filter(const View& w, std::int64_t first) {
  return {w.as<S>() + first * w.strides[0], w.strides[0], w.strides[1], w.strides[2], w.strides[3]};
}
/// And back.
template <class S>
Filter<S> backward_filter(const View& w, std::int64_t first) {
  return {w.as<S>() + first * w.strides[0], w.strides[1], w.strides[0], w.strides[2], w.strides[3]};
}

/// Whether products of pairs sum up `channels` channels faster than float32's convolution, for
/// which 16-bit images are copied. `out` and `in` are those of a group.
template <class S>
bool sums_by_pairs(const Images<S>& out, const Images<const S>& in, const View& weight,
                   const ConvParams& params) {
  if (!by_pairs<S>(in.channels)) return false;
  if (conv_algorithm() == ConvAlgorithm::direct) return true;
  if (weight.sizes[2] * weight.sizes[3] > 1 && !pairs_suit_taps()) return false;
  if (!winograd::fits(weight, params)) return true;
  if (conv_algorithm() != ConvAlgorithm::automatic) return false;
  winograd::Problem<float> problem;
  const auto shape = [](auto& to, const auto& from) {
    to.count = from.count, to.channels = from.channels;
    to.height = from.height, to.width = from.width;
  };
  shape(problem.out, out);
  shape(problem.in, in);
  const std::int64_t vectors = (in.channels + out.channels) * in.height * in.width / kLanes<float>;
  const std::int64_t cycles = winograd::plan(problem).cycles + 12 * vectors;
  const std::int64_t pairs = out.height * out.width * 9 * ((in.channels + 1) / 2) *
                             (whole_vectors<float>(out.channels) / kLanes<float>);
  return cycles > pairs;
}

template <class S>
void correlate_forward(const View& out, const View& input, const View& weight, const View& bias,
                       const ConvParams& p) {
  const std::int64_t outs = out.sizes[1] / p.groups, ins = weight.sizes[1];
  const Axis rows =
      forward_axis(out.sizes[2], weight.sizes[2], p.stride[0], p.padding[0], p.dilation[0]);
  const Axis columns =
      forward_axis(out.sizes[3], weight.sizes[3], p.stride[1], p.padding[1], p.dilation[1]);
  const std::int64_t depth = rows.taps * columns.taps * ins;
  const bool by_channels = depthwise::fits(out, input, weight, p.groups);
  if (by_channels) depthwise::Correlation<S>(out, input, weight, bias, {rows}, {columns}).run();
  if constexpr (is_half_type<S>)
    if (!by_channels &&
        !sums_by_pairs(Images<S>(out, 0, outs), Images<const S>(input, 0, ins), weight, p))
      return wide::conv2d<S>(out, input, weight, bias, p);
  const PixelWeights<S> weights(weight);
  bool activated = p.activation != Activation::relu;
  for (std::int64_t g = 0; g < p.groups && !by_channels; ++g) {
    const Filter<S> filter = forward_filter<S>(weights.view(), g * outs);
    const Images<S> to(out, g * outs, outs);
    const Images<const S> from(input, g * ins, ins);
    const S* add = bias.data ? bias.as<S>() + g * outs * bias.strides[0] : nullptr;
    const std::int64_t add_step = bias.data ? bias.strides[0] : 0;
    if constexpr (!is_half_type<S>) {
      const std::int64_t by_pixels =
          to.height * to.width * depth * whole_vectors<S>(outs) / kLanes<S>;
      const std::int64_t by_planes = planes::fits<S>(to, from, p.stride[1])
                                         ? planes::cost<S>(to.height, to.width, outs, depth)
                                         : INT64_MAX;
      if (const winograd::Problem<S> problem{to, from, filter, add, add_step, p.padding[0],
                                             p.padding[1], !activated};
          winograd::fits(weight, p) && winograd::pays(problem, by_pixels, by_planes)) {
        winograd::correlate(problem);
        activated = activated || g + 1 == p.groups;
        continue;
      }
      if (by_planes < by_pixels + planes::cost_of_layout(to, from)) {
        PlaneCorrelation<S>(to, from, filter, add, add_step, rows, columns).run();
        continue;
      }
      Correlation<S>(to, from, filter, add, add_step, {rows}, {columns}).run();
    } else if constexpr (kPairsCompiled && std::is_same_v<S, BFloat16>) {
      const pairs::FilterPairs of_channels(weight, g * outs, outs, false);
      const pairs::ChannelPairs images(from);
      Correlation<S, Pair>(to, images.images(), of_channels.filter(), add, add_step, {rows},
                           {columns})
          .run();
    }
  }
  if (!activated) unary(UnaryOp::relu, out, out, {});
}

template <class S>
void correlate_backward(const View& grad_input, const View& grad, const View& weight,
                        const View& bias, const ConvParams& p) {
  const std::int64_t outs = grad.sizes[1] / p.groups, ins = weight.sizes[1];
  const std::int64_t kernel_rows = weight.sizes[2], kernel_columns = weight.sizes[3];
  const std::int64_t taps = kernel_rows * kernel_columns;
  const std::vector<Axis> rows =
      backward_axes(grad_input.sizes[2], kernel_rows, p.stride[0], p.padding[0], p.dilation[0]);
  const std::vector<Axis> columns =
      backward_axes(grad_input.sizes[3], kernel_columns, p.stride[1], p.padding[1], p.dilation[1]);
  if (depthwise::fits(grad_input, grad, weight, p.groups))
    return depthwise::Correlation<S>(grad_input, grad, weight, bias, rows, columns).run();
  using Columns = ColumnGradient<S>;
  if constexpr (is_half_type<S>) {
    const Images<S> to(grad_input, 0, ins);
    const Images<const S> from(grad, 0, outs);
    if (!sums_by_pairs(to, from, weight, p) ||
        Columns::cost_of_correlation(to, from, taps, p) >= 2 * Columns::cost(to, from, taps))
      return wide::conv2d_data<S>(grad_input, grad, weight, bias, p);
  }
  const PixelWeights<S> weights(weight);
  for (std::int64_t g = 0; g < p.groups; ++g) {
    const Filter<S> filter = backward_filter<S>(weights.view(), g * outs);
    const Images<S> to(grad_input, g * ins, ins);
    const Images<const S> from(grad, g * outs, outs);
    const S* add = bias.data ? bias.as<S>() + g * ins * bias.strides[0] : nullptr;
    const std::int64_t add_step = bias.data ? bias.strides[0] : 0;
    if constexpr (!is_half_type<S>) {
      const std::int64_t by_columns = Columns::cost(to, from, taps);
      const std::int64_t by_pixels = Columns::cost_of_correlation(to, from, taps, p);
      const std::int64_t by_planes = p.stride[0] == 1 && planes::fits<S>(to, from, p.stride[1])
                                         ? planes::cost<S>(to.height, to.width, ins, taps * outs)
                                         : INT64_MAX;
      if (winograd::fits(weight, p)) {
        const winograd::Problem<S> problem{
            to, from, winograd::turned(filter), add, add_step, 2 - p.padding[0], 2 - p.padding[1]};
        if (winograd::pays(problem, std::min(by_columns, by_pixels), by_planes)) {
          winograd::correlate(problem);
          continue;
        }
      }
      if (by_planes < std::min(by_columns, by_pixels) + planes::cost_of_layout(to, from)) {
        PlaneCorrelation<S>(to, from, filter, add, add_step, rows[0], columns[0]).run();
        continue;
      }
      if (by_columns < by_pixels)
        Columns(to, from, filter, kernel_rows, kernel_columns, add, add_step, p).run();
      else
        Correlation<S>(to, from, filter, add, add_step, rows, columns).run();
    } else if constexpr (kPairsCompiled && std::is_same_v<S, BFloat16>) {
      const pairs::FilterPairs of_channels(weight, g * outs, outs, true);
      const pairs::ChannelPairs images(from);
      Correlation<S, Pair>(to, images.images(), of_channels.filter(), add, add_step, rows, columns)
          .run();
    }
  }
}

/// Whether the gradient by the weights is that of float32 copies: of Float16 always, of BFloat16
/// where there are no pairs or, with enough channels, Winograd's algorithm or float32 is faster.
template <class S>
bool copies_for_weights(const View& input, const View& grad, const View& weight,
                        const ConvParams& p) {
  const std::int64_t ins = weight.sizes[1], outs = weight.sizes[0] / p.groups;
  if (!by_pairs<S>(2)) return true;
  if (conv_algorithm() == ConvAlgorithm::automatic) {
    if (std::min(ins, outs) < 64) return false;
    if (weight.sizes[2] * weight.sizes[3] > 1 && !pairs_suit_taps()) return true;
  }
  return winograd::weight_gradient_side(Images<const float>(input, 0, ins),
                                        Images<const float>(grad, 0, outs), weight.sizes[2],
                                        weight.sizes[3], p) > 0;
}

template <class S>
void weight_gradient(const View& grad_weight, const View& grad_bias, const View& input,
                     const View& grad, const ConvParams& p) {
  const std::int64_t outs = grad.sizes[1] / p.groups, ins = grad_weight.sizes[1];
  const std::int64_t kernel_rows = grad_weight.sizes[2], kernel_columns = grad_weight.sizes[3];
  const std::int64_t depth = kernel_rows * kernel_columns * ins;
  if (depthwise::fits(grad, input, grad_weight, p.groups))
    return depthwise::WeightGradient<S>(input, grad, kernel_rows, kernel_columns, p)
        .run(grad_weight, grad_bias);
  if constexpr (is_half_type<S>)
    if (copies_for_weights<S>(input, grad, grad_weight, p))
      return wide::conv2d_weight<S>(grad_weight, grad_bias, input, grad, p);
  for (std::int64_t g = 0; g < p.groups; ++g) {
    Images<const S> in(input, g * ins, ins), from(grad, g * outs, outs);
    split_into_rows(in, from, kernel_rows * kernel_columns, p);
    S* to = grad_weight.as<S>() + g * outs * grad_weight.strides[0];
    S* bias = grad_bias.data ? grad_bias.as<S>() + g * outs * grad_bias.strides[0] : nullptr;
    const std::int64_t bias_step = grad_bias.data ? grad_bias.strides[0] : 0;
    if constexpr (is_half_type<S>) {
      if constexpr (kPairsCompiled && std::is_same_v<S, BFloat16>)
        WeightGradient<S, Pair>(in, from, kernel_rows, kernel_columns, p)
            .run(to, grad_weight.strides, bias, bias_step);
    } else if (const int side =
                   winograd::weight_gradient_side(in, from, kernel_rows, kernel_columns, p)) {
      winograd::weight_gradient(side, in, from, p, to, grad_weight.strides, bias, bias_step);
    } else if (in.count > 0 && planes::fits<const S>(from, in, p.stride[1]) &&
               planes::cost<S>(from.height, from.width, outs, depth) <
                   from.height * from.width * depth * whole_vectors<S>(outs) / kLanes<S> +
                       planes::cost_of_layout(in, from)) {
      PlaneWeightGradient<S>(in, from, kernel_rows, kernel_columns, p)
          .run(to, grad_weight.strides, bias, bias_step);
    } else if (BlockedWeightGradient<S>::fits(in, from, kernel_rows * kernel_columns)) {
      BlockedWeightGradient<S>(in, from, kernel_rows, kernel_columns, p)
          .run(to, grad_weight.strides, bias, bias_step);
    } else {
      WeightGradient<S>(in, from, kernel_rows, kernel_columns, p)
          .run(to, grad_weight.strides, bias, bias_step);
    }
  }
}

}  // namespace ferrite::kernels::cpu
