// Convolutions whose stride, dilation or padding is so large that hardly any tap meets the image.
// The other engines copy the window that all taps span, which would be nearly all zeros here. This
// one visits only the taps that meet the image. Of every dtype and layout.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "ferrite/kernels/cpu/conv/image.h"
#include "ferrite/kernels/cpu/conv/plan.h"
#include "ferrite/kernels/cpu/unary.h"

namespace ferrite::kernels::cpu::sparse {

/// Along one axis: this result reads this pixel of the input at this tap.
struct Meeting {
  std::int64_t result, tap, pixel;
};

/// All meetings along one axis, by the positions of what the call computes.
class Meetings {
 public:
  Meetings(const ConvCall& call, int axis) {
    const auto i = static_cast<std::size_t>(axis);
    const ConvParams& p = call.params;
    const std::int64_t results = call.out.sizes[i + 2], pixels = call.input.sizes[i + 2];
    const std::int64_t taps = call.weight.sizes[i + 2];
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int64_t offset = tap * p.dilation[i] - p.padding[i];
      const Inside inside(results, p.stride[i], offset, pixels);
      for (std::int64_t r = inside.first; r < inside.last; ++r)
        all_.push_back({r, tap, r * p.stride[i] + offset});
    }
    const auto key = call.pass == ConvPass::forward ? &Meeting::result
                     : call.pass == ConvPass::data  ? &Meeting::pixel
                                                    : &Meeting::tap;
    std::stable_sort(all_.begin(), all_.end(),
                     [key](const Meeting& a, const Meeting& b) { return a.*key < b.*key; });
    const std::int64_t positions = call.pass == ConvPass::forward ? results
                                   : call.pass == ConvPass::data  ? pixels
                                                                  : taps;
    begin_.resize(static_cast<std::size_t>(positions) + 1);
    for (const Meeting& m : all_) ++begin_[static_cast<std::size_t>(m.*key) + 1];
    for (std::size_t at = 1; at < begin_.size(); ++at) begin_[at] += begin_[at - 1];
  }

  std::span<const Meeting> operator[](std::int64_t position) const {
    const auto at = static_cast<std::size_t>(position);
    return std::span(all_).subspan(begin_[at], begin_[at + 1] - begin_[at]);
  }

 private:
  std::vector<Meeting> all_;
  std::vector<std::size_t> begin_;
};

template <class S>
S& element(const View& v, std::int64_t n, std::int64_t c, std::int64_t y, std::int64_t x) {
  return v.as<S>()[n * v.strides[0] + c * v.strides[1] + y * v.strides[2] + x * v.strides[3]];
}
template <class S>
double value(const View& v, std::int64_t n, std::int64_t c, std::int64_t y, std::int64_t x) {
  return static_cast<double>(static_cast<Compute<S>>(element<S>(v, n, c, y, x)));
}

/// The forward pass, or the gradient by the input.
template <class S>
void correlate(const ConvCall& call) {
  const bool forward = call.pass == ConvPass::forward;
  const View &to = forward ? call.out : call.input, &from = forward ? call.input : call.out;
  const View &weight = call.weight, &bias = call.bias;
  const Meetings rows(call, 0), columns(call, 1);
  const std::int64_t height = to.sizes[2], width = to.sizes[3];
  const std::int64_t to_channels = to.sizes[1] / call.params.groups;
  const std::int64_t from_channels = from.sizes[1] / call.params.groups;
  const std::int64_t outs = call.out.sizes[1] / call.params.groups;
  const std::int64_t grain = 1024 / std::max<std::int64_t>(1, to.sizes[1]) + 1;
  parallel_for(to.sizes[0] * height * width, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = i / (height * width), y = i / width % height, x = i % width;
      for (std::int64_t c = 0; c < to.sizes[1]; ++c) {
        const std::int64_t group = c / to_channels;
        double sum =
            bias.data
                ? static_cast<double>(static_cast<Compute<S>>(bias.as<S>()[c * bias.strides[0]]))
                : 0;
        for (const Meeting& row : rows[y])
          for (const Meeting& column : columns[x])
            for (std::int64_t k = 0; k < from_channels; ++k) {
              const std::int64_t out = forward ? c : group * outs + k;
              const std::int64_t in = forward ? k : c % to_channels;
              sum += value<S>(from, n, group * from_channels + k, forward ? row.pixel : row.result,
                              forward ? column.pixel : column.result) *
                     value<S>(weight, out, in, row.tap, column.tap);
            }
        element<S>(to, n, c, y, x) = static_cast<S>(static_cast<Compute<S>>(sum));
      }
    }
  });
  if (forward && call.params.activation == Activation::relu) unary(UnaryOp::relu, to, to, {});
}

template <class S>
void weight_gradient(const ConvCall& call) {
  const View& weight = call.weight;
  const Meetings rows(call, 0), columns(call, 1);
  const std::int64_t ins = weight.sizes[1], outs = call.out.sizes[1] / call.params.groups;
  parallel_for(weight.sizes[0] * ins, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t out = at / ins, in = at % ins, channel = out / outs * ins + in;
      for (std::int64_t i = 0; i < weight.sizes[2]; ++i)
        for (std::int64_t j = 0; j < weight.sizes[3]; ++j) {
          double sum = 0;
          for (std::int64_t n = 0; n < call.out.sizes[0]; ++n)
            for (const Meeting& row : rows[i])
              for (const Meeting& column : columns[j])
                sum += value<S>(call.input, n, channel, row.pixel, column.pixel) *
                       value<S>(call.out, n, out, row.result, column.result);
          element<S>(weight, out, in, i, j) = static_cast<S>(static_cast<Compute<S>>(sum));
        }
    }
  });
  if (call.bias.data) channel_sum(call.bias, call.out);
}

template <class S>
void run(const ConvCall& call) {
  call.pass == ConvPass::weight ? weight_gradient<S>(call) : correlate<S>(call);
}

}  // namespace ferrite::kernels::cpu::sparse
