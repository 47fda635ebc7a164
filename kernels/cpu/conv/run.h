// Computes a planned convolution of one element type, group by group.
#pragma once

#include "ferrite/kernels/cpu/conv/columns.h"
#include "ferrite/kernels/cpu/conv/copies.h"
#include "ferrite/kernels/cpu/conv/depthwise.h"
#include "ferrite/kernels/cpu/conv/pairs.h"
#include "ferrite/kernels/cpu/conv/planes.h"
#include "ferrite/kernels/cpu/conv/product.h"
#include "ferrite/kernels/cpu/conv/sparse.h"
#include "ferrite/kernels/cpu/conv/weight.h"
#include "ferrite/kernels/cpu/conv/weight_blocks.h"
#include "ferrite/kernels/cpu/conv/winograd/weight_gradient.h"
#include "ferrite/kernels/cpu/conv/winograd/winograd.h"
#include "ferrite/kernels/cpu/unary.h"

namespace ferrite::kernels::cpu {

/// Weights that lie plane by plane ([O, C, KH, KW]) copied pixel by pixel ([O, KH, KW, C]), from
/// where they pack in whole vectors.
template <class T>
class PixelWeights {
 public:
  explicit PixelWeights(const View& weight) : view_(weight) {
    const std::int64_t channels = weight.sizes[1], taps = weight.sizes[2] * weight.sizes[3];
    const std::int64_t* s = weight.strides;
    if (taps == 1 || channels < kLanes<T> || s[1] != taps || s[2] != weight.sizes[3] || s[3] != 1)
      return;
    copied_ = Scratch<T>(weight.numel);
    const std::int64_t size = channels * taps;
    parallel_for(weight.sizes[0], std::max<std::int64_t>(1, 65536 / size),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t o = begin; o < end; ++o)
                     copy_matrix(copied_.data() + o * size, channels, weight.as<T>() + o * s[0], 1,
                                 taps, taps, channels);
                 });
    view_.data = copied_.data();
    view_.strides[0] = size;
    view_.strides[1] = 1;
    view_.strides[2] = weight.sizes[3] * channels;
    view_.strides[3] = channels;
  }
  const View& view() const { return view_; }

 private:
  View view_;
  Scratch<T> copied_;
};

/// The forward pass, or the gradient by the input.
template <class T>
void correlate(const ConvCall& call, ConvMethod method) {
  const ConvParams& p = call.params;
  const bool forward = call.pass == ConvPass::forward;
  const View &out = forward ? call.out : call.input, &in = forward ? call.input : call.out;
  const std::int64_t outs = out.sizes[1] / p.groups, ins = in.sizes[1] / p.groups;
  const std::vector<Axis> rows = axes_of(call, 0), columns = axes_of(call, 1);
  const bool relu = forward && p.activation == Activation::relu;
  const PixelWeights<T> weights(call.weight);
  const View& w = weights.view();
  const int taps = static_cast<int>(w.sizes[2]);
  const std::int64_t to_step = w.strides[forward ? 0 : 1], from_step = w.strides[forward ? 1 : 0];
  for (std::int64_t g = 0; g < p.groups; ++g) {
    const std::int64_t first = g * (w.sizes[0] / p.groups);
    const Group<T> group{
        Images<T>(out, g * outs, outs),
        Images<const T>(in, g * ins, ins),
        {w.as<T>() + first * w.strides[0], to_step, from_step, w.strides[2], w.strides[3]},
        call.bias.data ? call.bias.as<T>() + g * outs * call.bias.strides[0] : nullptr,
        call.bias.data ? call.bias.strides[0] : 0};
    if (is_winograd(method))
      winograd::correlate(
          forward ? winograd::Problem<T>{group, p.padding[0], p.padding[1], relu}
                  : winograd::Problem<T>{winograd::turned(group, taps), taps - 1 - p.padding[0],
                                         taps - 1 - p.padding[1], false},
          results_of(method), taps);
    else if (method == ConvMethod::planes)
      PlaneCorrelation<T>(group, rows[0], columns[0]).run();
    else if (method == ConvMethod::columns)
      ColumnGradient<T>(group, w.sizes[2], w.sizes[3], p).run();
    else
      Correlation<T>(group, rows, columns).run();
  }
  if (relu && !is_winograd(method)) unary(UnaryOp::relu, out, out, {});
}

template <class T>
void sum_weight_gradient(const ConvCall& call, ConvMethod method) {
  const ConvParams& p = call.params;
  const View &weight = call.weight, &bias = call.bias;
  const std::int64_t outs = call.out.sizes[1] / p.groups, ins = weight.sizes[1];
  const std::int64_t kernel_rows = weight.sizes[2], kernel_columns = weight.sizes[3];
  for (std::int64_t g = 0; g < p.groups; ++g) {
    Images<const T> in(call.input, g * ins, ins), grad(call.out, g * outs, outs);
    if (sums_by_rows(call))
      for (Images<const T>* images : {&in, &grad}) {
        images->count *= images->height;
        images->height = 1;
        images->image_step = images->row_step;
      }
    T* const to = weight.as<T>() + g * outs * weight.strides[0];
    T* const to_bias = bias.data ? bias.as<T>() + g * outs * bias.strides[0] : nullptr;
    const std::int64_t bias_step = bias.data ? bias.strides[0] : 0;
    const auto run = [&](const auto& engine) {
      engine.run(to, weight.strides, to_bias, bias_step);
    };
    if (is_winograd(method))
      winograd::weight_gradient<T>(results_of(method), static_cast<int>(kernel_rows), in, grad, p,
                                   to, weight.strides, to_bias, bias_step);
    else if (method == ConvMethod::planes)
      run(PlaneWeightGradient<T>(in, grad, kernel_rows, kernel_columns, p));
    else if (method == ConvMethod::weight_blocks)
      run(BlockedWeightGradient<T>(in, grad, kernel_rows, kernel_columns, p));
    else
      run(WeightGradient<T>(in, grad, kernel_rows, kernel_columns, p));
  }
}

template <class S>
void run_conv(const ConvCall& call, ConvMethod method) {
  if (method == ConvMethod::depthwise) return depthwise::run<S>(call);
  if (method == ConvMethod::sparse) return sparse::run<S>(call);
  if (method == ConvMethod::pixel_copies) return run_copied<PixelImages>(call);
  if constexpr (is_half_type<S>) {
    if (method == ConvMethod::product) return run_product(call);
    if constexpr (kPairsCompiled && std::is_same_v<S, BFloat16>)
      if (method == ConvMethod::pairs) return run_pairs<S>(call);
    run_copied<Floats<S>>(call);
  } else if (call.pass == ConvPass::weight) {
    sum_weight_gradient<S>(call, method);
  } else {
    correlate<S>(call, method);
  }
}

}  // namespace ferrite::kernels::cpu
