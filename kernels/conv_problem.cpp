#include "ferrite/kernels/conv_problem.h"

#include <algorithm>
#include <initializer_list>

namespace ferrite::kernels {

namespace {

/// Dimensions from the one whose neighbours are side by side outwards.
constexpr std::array<int, 4> order(ConvLayout layout) {
  return layout == ConvLayout::channels_last ? std::array{1, 3, 2, 0} : std::array{3, 2, 1, 0};
}

/// What lies below or right of the input: as much as before it where the output's size allows,
/// since cuDNN has more plans for symmetric padding; else as far as the last position reaches.
std::int64_t padding_behind(const View& input, const View& weight, const View& out,
                            const ConvParams& p, std::size_t axis) {
  const std::size_t d = axis + 2;
  const std::int64_t extent = (weight.sizes[d] - 1) * p.dilation[axis] + 1,
                     beyond = input.sizes[d] + 2 * p.padding[axis] - extent;
  if (beyond >= 0 && beyond / p.stride[axis] + 1 == out.sizes[d]) return p.padding[axis];
  const std::int64_t reach = (out.sizes[d] - 1) * p.stride[axis] + extent;
  return std::max<std::int64_t>(reach - input.sizes[d] - p.padding[axis], 0);
}

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return address % 16 == 0 ? 16 : static_cast<std::uint32_t>(address & (~address + 1));
}

ConvProblem::Operand operand(const View& v, ConvLayout layout) {
  ConvProblem::Operand o;
  std::copy_n(v.sizes, 4, o.sizes.begin());
  if (lies_in(v, layout)) o.alignment = alignment_of(v.data);
  return o;
}

}  // namespace

std::array<std::int64_t, 4> ConvProblem::strides(const Operand& operand) const {
  std::array<std::int64_t, 4> result{};
  std::int64_t step = 1;
  for (const int d : order(layout)) {
    const auto i = static_cast<std::size_t>(d);
    result[i] = step;
    step *= operand.sizes[i];
  }
  return result;
}

bool lies_in(const View& v, ConvLayout layout) {
  std::int64_t step = 1;
  for (const int d : order(layout)) {
    if (v.sizes[d] != 1 && v.strides[d] != step) return false;
    step *= v.sizes[d];
  }
  return true;
}

std::size_t bytes_spanned(const View& v) {
  std::int64_t last = 0;
  for (int d = 0; d < v.ndim; ++d) last += (v.sizes[d] - 1) * v.strides[d];
  return static_cast<std::size_t>(last + 1) * itemsize(v.dtype);
}

ChannelLayout channel_layout(const View& v) {
  const std::int64_t positions = v.sizes[2] * v.sizes[3];
  if (lies_in(v, ConvLayout::channels_first))
    return {.outer = v.sizes[0], .channels = v.sizes[1], .inner = positions};
  return {.outer = v.sizes[0] * positions, .channels = v.sizes[1], .inner = 1};
}

ConvLayout layout_of(const View& input, const View& weight, const View& out) {
  const auto copied = [&](ConvLayout layout) {
    std::int64_t elements = 0;
    for (const View* v : {&input, &weight, &out})
      if (!lies_in(*v, layout)) elements += v->numel;
    return elements;
  };
  const std::int64_t first = copied(ConvLayout::channels_first),
                     last = copied(ConvLayout::channels_last);
  if (first == last)
    return itemsize(input.dtype) == 2 ? ConvLayout::channels_last : ConvLayout::channels_first;
  return first < last ? ConvLayout::channels_first : ConvLayout::channels_last;
}

bool is_for_library(const View& input, const View& weight, const View& out,
                    const ConvParams& params) {
  if (input.dtype != kFloat32 && input.dtype != kFloat16 && input.dtype != kBFloat16) return false;
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
  for (const View* v : {&input, &weight, &out}) {
    // Early versions of cuDNN 9 have no engines with indices of 64 bits.
    if (v->numel == 0 || v->numel > kMost) return false;
  }
  if (params.groups > 1 && weight.sizes[1] == 1 &&
      layout_of(input, weight, out) == ConvLayout::channels_first)
    return false;
  for (std::size_t i = 0; i < 2; ++i) {
    if (std::max({params.stride[i], params.dilation[i], params.padding[i]}) > kMost) return false;
    const std::size_t d = i + 2;
    const std::int64_t padded =
        input.sizes[d] + params.padding[i] + padding_behind(input, weight, out, params, i);
    const std::int64_t extent = (weight.sizes[d] - 1) * params.dilation[i] + 1;
    // A library computes the output's size from these.
    if (padded < extent || (padded - extent) / params.stride[i] + 1 != out.sizes[d]) return false;
  }
  return true;
}

ConvProblem problem_of(ConvPass pass, const View& input, const View& weight, const View& out,
                       const ConvParams& params) {
  ConvProblem p;
  p.pass = pass;
  p.layout = layout_of(input, weight, out);
  p.dtype = input.dtype;
  p.input = operand(input, p.layout);
  p.weight = operand(weight, p.layout);
  p.out = operand(out, p.layout);
  p.stride = params.stride;
  p.dilation = params.dilation;
  p.before = params.padding;
  for (std::size_t i = 0; i < 2; ++i) p.after[i] = padding_behind(input, weight, out, params, i);
  return p;
}

}  // namespace ferrite::kernels
