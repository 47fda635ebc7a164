// Convolutions of one and three dimensions, by those of planes.
#include <algorithm>
#include <array>
#include <vector>

#include "ferrite/core/profiler/range.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/conv_planes.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/renamed.h"
#include "ferrite/ops/traced.h"

namespace ferrite {

// ---- One dimension is a plane of one row

Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias,
              const Conv1dFuncOptions& o) {
  if (tracing::on())
    return tracing::op("conv", {input, weight, bias}, ops::conv_attributes<1>(o),
                       [&] { return conv1d(input, weight, bias, o); });
  if (const auto cast = ops::autocast(AutocastOp::conv, input, weight, bias)) {
    const auto& [x, w, b] = *cast;
    return conv1d(x, w, b, o);
  }
  const profiler::OpRange range("conv1d", input, weight, bias);
  ops::check_conv_operands("conv1d", input, weight, 1);
  Padding padding{0, o.padding.size};
  padding.is_same = o.padding.is_same;
  return ops::convolve("conv1d", input.unsqueeze(-2), weight.unsqueeze(-2), bias,
                       {.stride = {1, o.stride},
                        .padding = padding,
                        .dilation = {1, o.dilation},
                        .groups = o.groups})
      .squeeze(-2);
}

Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose1dFuncOptions& o) {
  if (tracing::on())
    return tracing::op("conv_transpose", {input, weight, bias}, ops::conv_attributes<1>(o),
                       [&] { return conv_transpose1d(input, weight, bias, o); });
  if (const auto cast = ops::autocast(AutocastOp::conv_transpose, input, weight, bias)) {
    const auto& [x, w, b] = *cast;
    return conv_transpose1d(x, w, b, o);
  }
  const profiler::OpRange range("conv_transpose1d", input, weight, bias);
  ops::check_conv_operands("conv_transpose1d", input, weight, 1);
  return ops::convolve_transposed("conv_transpose1d", input.unsqueeze(-2), weight.unsqueeze(-2),
                                  bias,
                                  {.stride = {1, o.stride},
                                   .padding = {0, o.padding},
                                   .output_padding = {0, o.output_padding},
                                   .groups = o.groups,
                                   .dilation = {1, o.dilation}})
      .squeeze(-2);
}

// ---- Three dimensions: the slices along the depth are a batch of planes

namespace {

/// Along the depth.
struct Depth {
  const char* op;
  std::int64_t in, kernel, stride, dilation, before, after;

  std::int64_t extent() const { return dilation * (kernel - 1) + 1; }
  void check() const {
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    for (const std::int64_t v : {stride, dilation})
      FERRITE_CHECK(v >= 1 && v <= kMost, ValueError, op,
                    "stride and dilation must lie between 1 and 2^31, got {}", v);
    for (const std::int64_t v : {before, after})
      FERRITE_CHECK(v >= 0 && v <= kMost * kMost / 4, ValueError, op,
                    "padding must lie between 0 and 2^31, got {}", v);
  }
};

/// Whether the slices that taps span are many times those that can meet: no tensor should have
/// them.
bool is_sparse(std::int64_t spanned, std::int64_t met) {
  return spanned > 1024 && spanned / 16 > met;
}

Tensor index_of(const std::vector<std::int64_t>& slices, const Device& device) {
  return from_vector(slices, {static_cast<std::int64_t>(slices.size())}).to(device);
}

/// The slices that each position of the kernel's depth sees: [N, C, D, H, W] as [N * D', C * KD, H,
/// W].
Tensor slices_seen(const Tensor& x, const Depth& d) {
  const std::int64_t padded = d.in + d.before + d.after;
  FERRITE_CHECK(padded >= d.extent(), ShapeError, d.op,
                "the kernel reaches over {} slices, the padded input {} has {}", d.extent(),
                x.shape(), padded);
  const std::int64_t positions = (padded - d.extent()) / d.stride + 1;
  if (is_sparse(padded, d.in + positions * d.kernel)) {
    std::vector<std::int64_t> seen;
    for (std::int64_t i = 0; i < positions; ++i)
      for (std::int64_t tap = 0; tap < d.kernel; ++tap) {
        const std::int64_t slice = i * d.stride - d.before + tap * d.dilation;
        seen.push_back(slice >= 0 && slice < d.in ? slice : d.in);  // that of the padding
      }
    return index_select(pad(x, {0, 0, 0, 0, 0, 1}), 2, index_of(seen, x.device()))
        .reshape({x.size(0), x.size(1), positions, d.kernel, x.size(3), x.size(4)})
        .permute({0, 2, 1, 3, 4, 5})
        .reshape({x.size(0) * positions, x.size(1) * d.kernel, x.size(3), x.size(4)});
  }
  Tensor t = d.before > 0 || d.after > 0 ? pad(x, {0, 0, 0, 0, d.before, d.after}) : x;
  t = t.unfold(2, d.extent(), d.stride);  // [N, C, D', H, W, extent]
  if (d.dilation > 1) t = t.slice(-1, 0, INT64_MAX, d.dilation);
  return t.permute({0, 2, 1, 5, 3, 4})
      .reshape({x.size(0) * t.size(2), x.size(1) * d.kernel, x.size(3), x.size(4)});
}

/// The weight [A, B, KD, KH, KW] of planes with B * KD channels.
Tensor plane_weight(const Tensor& w) {
  return w.reshape({w.size(0), w.size(1) * w.size(2), w.size(3), w.size(4)});
}

}  // namespace

Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias,
              const Conv3dFuncOptions& o) {
  if (tracing::on())
    return tracing::op("conv", {input, weight, bias}, ops::conv_attributes<3>(o),
                       [&] { return conv3d(input, weight, bias, o); });
  if (const auto cast = ops::autocast(AutocastOp::conv, input, weight, bias)) {
    const auto& [x, w, b] = *cast;
    return conv3d(x, w, b, o);
  }
  const profiler::OpRange range("conv3d", input, weight, bias);
  constexpr const char* op = "conv3d";
  ops::check_conv_operands(op, input, weight, 3);
  if (input.dim() == 4) return conv3d(input.unsqueeze(0), weight, bias, o).squeeze(0);
  FERRITE_CHECK(!o.padding.is_same || o.stride == Triple(1), ValueError, op,
                "Padding3d::same needs a stride of 1, got {{{}, {}, {}}}", o.stride.d, o.stride.h,
                o.stride.w);
  FERRITE_CHECK(o.groups > 0, ValueError, op, "groups must be above 0, got {}", o.groups);
  FERRITE_CHECK(input.size(1) == weight.size(1) * o.groups, ShapeError, op,
                "input has {} channels, weight expects {}", input.size(1),
                weight.size(1) * o.groups);
  Depth depth{op,           input.size(2),    weight.size(2),  o.stride.d,
              o.dilation.d, o.padding.size.d, o.padding.size.d};
  if (o.padding.is_same) {
    depth.before = (depth.extent() - 1) / 2;
    depth.after = depth.extent() - 1 - depth.before;
  }
  depth.check();
  Padding padding = o.padding.size.plane();
  padding.is_same = o.padding.is_same;
  return ops::renamed(op, [&] {
    const Tensor out = ops::convolve(op, slices_seen(input, depth), plane_weight(weight), bias,
                                     {.stride = o.stride.plane(),
                                      .padding = padding,
                                      .dilation = o.dilation.plane(),
                                      .groups = o.groups});
    const std::int64_t slices =
        (depth.in + depth.before + depth.after - depth.extent()) / depth.stride + 1;
    return out.reshape({input.size(0), slices, out.size(1), out.size(2), out.size(3)})
        .transpose(1, 2)
        .contiguous();
  });
}

Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose3dFuncOptions& o) {
  if (tracing::on())
    return tracing::op("conv_transpose", {input, weight, bias}, ops::conv_attributes<3>(o),
                       [&] { return conv_transpose3d(input, weight, bias, o); });
  if (const auto cast = ops::autocast(AutocastOp::conv_transpose, input, weight, bias)) {
    const auto& [x, w, b] = *cast;
    return conv_transpose3d(x, w, b, o);
  }
  const profiler::OpRange range("conv_transpose3d", input, weight, bias);
  constexpr const char* op = "conv_transpose3d";
  ops::check_conv_operands(op, input, weight, 3);
  if (input.dim() == 4) return conv_transpose3d(input.unsqueeze(0), weight, bias, o).squeeze(0);
  const std::int64_t count = input.size(0), in = input.size(2), kernel = weight.size(2);
  const Depth depth{op, in, kernel, o.stride.d, o.dilation.d, o.padding.d, o.padding.d};
  depth.check();
  const std::int64_t extra = o.output_padding.d;
  FERRITE_CHECK(extra >= 0 && (extra < o.stride.d || extra < o.dilation.d), ValueError, op,
                "output_padding must be below stride or dilation, got {} with {} and {}", extra,
                o.stride.d, o.dilation.d);
  FERRITE_CHECK(o.groups > 0, ValueError, op, "groups must be above 0, got {}", o.groups);
  const std::int64_t reach = (in - 1) * o.stride.d + depth.extent(),
                     slices = reach - 2 * o.padding.d + extra;
  FERRITE_CHECK(in > 0 && slices > 0, ShapeError, op,
                "the output's depth is {}: input {}, weight {}, padding {}", slices, input.shape(),
                weight.shape(), o.padding.d);
  const std::int64_t channels = weight.size(1) * o.groups;
  if (bias.defined()) {
    FERRITE_CHECK(bias.device() == input.device(), DeviceError, op,
                  "the bias is {}, the input {}; move one with to(device)", bias.describe(),
                  input.describe());
    FERRITE_CHECK(bias.dtype() == input.dtype(), DTypeError, op,
                  "the bias is {}, the input {}; convert one with to(dtype)", bias.describe(),
                  input.describe());
    FERRITE_CHECK(bias.dim() == 1 && bias.size(0) == channels, ShapeError, op,
                  "expected a bias [{}], got {}", channels, bias.shape());
  }
  return ops::renamed(op, [&] {
    const Tensor planes =
        input.transpose(1, 2).reshape({count * in, input.size(1), input.size(3), input.size(4)});
    Tensor parts = ops::convolve_transposed(op, planes, plane_weight(weight), {},
                                            {.stride = o.stride.plane(),
                                             .padding = o.padding.plane(),
                                             .output_padding = o.output_padding.plane(),
                                             .groups = o.groups,
                                             .dilation = o.dilation.plane()});
    const std::int64_t h = parts.size(2), w = parts.size(3);
    parts = parts.reshape({count, in, channels, kernel, h, w})
                .permute({0, 2, 3, 1, 4, 5})
                .reshape({count, channels, kernel * in, h, w});
    Tensor at;
    std::int64_t first = o.padding.d, spanned = std::max(reach, o.padding.d + slices);
    if (is_sparse(spanned, slices + kernel * in)) {
      // What is cut off gathers in one slice behind the others.
      std::vector<std::int64_t> to;
      for (std::int64_t tap = 0; tap < kernel; ++tap)
        for (std::int64_t i = 0; i < in; ++i) {
          const std::int64_t slice = tap * o.dilation.d + i * o.stride.d - o.padding.d;
          to.push_back(slice >= 0 && slice < slices ? slice : slices);
        }
      at = index_of(to, input.device());
      first = 0, spanned = slices + 1;
    } else {
      const TensorOptions index{.dtype = kInt64, .device = input.device()};
      at = ((arange(kernel, index) * o.dilation.d).unsqueeze(1) + arange(in, index) * o.stride.d)
               .reshape({kernel * in});
    }
    const Shape shape{count, channels, spanned, h, w};
    const TensorOptions like{.dtype = input.dtype(), .device = input.device()};
    const Tensor start =
        bias.defined() ? bias.reshape({1, channels, 1, 1, 1}).expand(shape) : zeros(shape, like);
    return index_add(start, 2, at, parts).narrow(2, first, slices).contiguous();
  });
}

}  // namespace ferrite
