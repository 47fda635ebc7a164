// Direct sums of bfloat16 in NHWC by pairs, which some machines multiply and add up in float32 by
// one instruction (AVX512-BF16): pairs of neighbouring channels, or of images for the gradient by
// the weights. Results round once, at the end.
#pragma once

#include "ferrite/kernels/cpu/conv/copies.h"
#include "ferrite/kernels/cpu/conv/correlate.h"
#include "ferrite/kernels/cpu/conv/plan.h"
#include "ferrite/kernels/cpu/conv/weight.h"
#include "ferrite/kernels/cpu/unary.h"

namespace ferrite::kernels::cpu {

/// Images whose channels lie side by side, by pairs of them.
inline Images<const Pair> channel_pairs(const View& of, std::int64_t first, std::int64_t channels) {
  const Images<const BFloat16> from(of, first, channels);
  Images<const Pair> pairs;
  pairs.data = reinterpret_cast<const Pair*>(from.data);
  pairs.count = from.count, pairs.channels = channels / 2;
  pairs.height = from.height, pairs.width = from.width;
  pairs.image_step = from.image_step / 2, pairs.channel_step = 1;
  pairs.row_step = from.row_step / 2, pairs.pixel_step = from.pixel_step / 2;
  return pairs;
}

/// [out, rows, columns, in] for the gradient by the input as pairs of output channels.
inline Scratch<Pair> pairs_of_outputs(const View& weight) {
  const std::int64_t size = weight.numel / weight.sizes[0];
  Scratch<Pair> pairs(weight.sizes[0] / 2 * size);
  parallel_for(weight.sizes[0] / 2, 65536 / size + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const BFloat16* const from = weight.as<BFloat16>() + 2 * i * weight.strides[0];
      interleave(pairs.data() + i * size, from, from + weight.strides[0], size);
    }
  });
  return pairs;
}

/// Images in NHWC, without gaps, by pairs of images; an odd last one has zeros beside it.
class ImagePairs {
 public:
  explicit ImagePairs(const View& of)
      : of_(of), size_(of.strides[0]), pairs_((of.sizes[0] + 1) / 2 * of.strides[0]) {
    const BFloat16* const from = of.as<BFloat16>();
    parallel_for(count(), 65536 / size_ + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const BFloat16* const first = from + 2 * i * size_;
        const bool both = 2 * i + 1 < of.sizes[0];
        interleave(pairs_.data() + i * size_, first, both ? first + size_ : nullptr, size_);
      }
    });
  }
  /// Channels [first, first + channels).
  Images<const Pair> images(std::int64_t first, std::int64_t channels) const {
    Images<const Pair> images;
    images.data = pairs_.data() + first;
    images.count = count(), images.channels = channels;
    images.height = of_.sizes[2], images.width = of_.sizes[3];
    images.image_step = size_, images.channel_step = 1;
    images.row_step = of_.strides[2], images.pixel_step = of_.strides[3];
    return images;
  }

 private:
  std::int64_t count() const { return (of_.sizes[0] + 1) / 2; }

  const View& of_;
  std::int64_t size_;
  Scratch<Pair> pairs_;
};

template <class S>
void run_weight_pairs(const ConvCall& call) {
  const std::int64_t groups = call.params.groups, outs = call.out.sizes[1] / groups;
  const std::int64_t ins = call.weight.sizes[1];
  const Floats<S> weight(call.weight);
  const View& w = weight.view();
  const ImagePairs in(call.input), grad(call.out);
  for (std::int64_t g = 0; g < groups; ++g)
    WeightGradient<float, Pair>(in.images(g * ins, ins), grad.images(g * outs, outs), w.sizes[2],
                                w.sizes[3], call.params)
        .run(w.template as<float>() + g * outs * w.strides[0], w.strides, nullptr, 0);
  weight.store(call.weight);
  if (call.bias.data) channel_sum(call.bias, call.out);
}

/// What sums_pairs() takes. S is BFloat16.
template <class S>
void run_pairs(const ConvCall& call) {
  if (call.pass == ConvPass::weight) return run_weight_pairs<S>(call);
  const ConvParams& p = call.params;
  const bool forward = call.pass == ConvPass::forward;
  const View &to = forward ? call.out : call.input, &from = forward ? call.input : call.out;
  const View& w = call.weight;
  const Floats<S> out(to), bias(call.bias);
  bias.load(call.bias);
  const std::int64_t outs = to.sizes[1] / p.groups, ins = from.sizes[1] / p.groups;
  const std::int64_t pixel = forward ? w.strides[3] / 2 : w.strides[3];
  const Scratch<Pair> turned = forward ? Scratch<Pair>() : pairs_of_outputs(w);
  const Pair* const filter = forward ? reinterpret_cast<const Pair*>(w.data) : turned.data();
  const std::int64_t to_step = forward ? w.strides[0] / 2 : 1;
  const std::int64_t from_step = forward ? 1 : w.numel / w.sizes[0];
  for (std::int64_t g = 0; g < p.groups; ++g) {
    const Group<float, Pair> group{
        Images<float>(out.view(), g * outs, outs),
        channel_pairs(from, g * ins, ins),
        {filter + g * (forward ? outs * to_step : ins / 2 * from_step), to_step, from_step,
         w.sizes[3] * pixel, pixel},
        call.bias.data ? bias.view().template as<float>() + g * outs : nullptr,
        1};
    Correlation<float, Pair>(group, axes_of(call, 0), axes_of(call, 1)).run();
  }
  if (forward && p.activation == Activation::relu) unary(UnaryOp::relu, out.view(), out.view(), {});
  out.store(to);
}

}  // namespace ferrite::kernels::cpu
