// Nodes that are layers: convolutions, products, norms, poolings, resizing.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "ferrite/nn/onnx/graph.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/attention.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/products.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/resize.h"

namespace ferrite::onnx {

namespace {

using Results = std::vector<Tensor>;
using List = std::vector<std::int64_t>;

Pair pair_of(const List& sizes) { return {sizes[0], sizes[1]}; }
Triple triple_of(const List& sizes) { return {sizes[0], sizes[1], sizes[2]}; }

/// The windows of a convolution or pooling, in `dims` dimensions.
struct Windows {
  List kernel, stride, dilation, before, after;
  bool symmetric() const { return before == after; }
};

Windows windows_of(const Call& c, const List& kernel) {
  const std::size_t dims = kernel.size();
  Windows w{kernel, c.list("strides", List(dims, 1)), c.list("dilations", List(dims, 1)), {}, {}};
  List pads = c.list("pads", List(2 * dims, 0));
  const auto positive = [](const List& l, std::int64_t least) {
    return std::ranges::all_of(l, [&](std::int64_t v) { return v >= least && v < (1 << 30); });
  };
  if (dims < 1 || dims > 3 || c[0].dim() != static_cast<int>(dims) + 2 || w.stride.size() != dims ||
      w.dilation.size() != dims || pads.size() != 2 * dims || !positive(kernel, 1) ||
      !positive(w.stride, 1) || !positive(w.dilation, 1) || !positive(pads, 0))
    c.node.refuse(fmt::format("its kernel_shape, strides, dilations or pads do not suit {}",
                              c[0].describe()));
  const std::string automatic = c.text("auto_pad", "NOTSET");
  if (automatic == "VALID") {
    std::ranges::fill(pads, 0);
  } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (std::size_t i = 0; i < dims; ++i) {
      const std::int64_t size = c[0].size(static_cast<int>(i) + 2);
      const std::int64_t steps = (size + w.stride[i] - 1) / w.stride[i];
      const std::int64_t both = std::max<std::int64_t>(
          0, (steps - 1) * w.stride[i] + w.dilation[i] * (kernel[i] - 1) + 1 - size);
      pads[i] = automatic == "SAME_UPPER" ? both / 2 : both - both / 2;
      pads[dims + i] = both - pads[i];
    }
  } else if (automatic != "NOTSET") {
    c.node.refuse("auto_pad is " + automatic);
  }
  w.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(dims));
  w.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(dims), pads.end());
  return w;
}

/// x padded as `w` says; `w` then has no padding.
Tensor padded_by(const Tensor& x, Windows& w, double value) {
  List amounts;
  for (std::size_t i = w.kernel.size(); i-- > 0;) {
    amounts.push_back(w.before[i]);
    amounts.push_back(w.after[i]);
    w.before[i] = w.after[i] = 0;
  }
  return pad(x, amounts, PadMode::constant, value);
}

/// The same if the padding differs between the two sides; else x.
Tensor padded(const Tensor& x, Windows& w, double value) {
  return w.symmetric() ? x : padded_by(x, w, value);
}

List sizes_from(const Tensor& weight) {
  List sizes;
  for (int d = 2; d < weight.dim(); ++d) sizes.push_back(weight.size(d));
  return sizes;
}

// ---- Convolutions

Results run_conv(const Call& c) {
  Windows w = windows_of(c, sizes_from(c[1]));
  const Tensor x = padded(c[0], w, 0), bias = c.optional(2);
  const std::int64_t groups = c.integer("group", 1);
  if (w.kernel.size() == 1)
    return {conv1d(x, c[1], bias,
                   {.stride = w.stride[0],
                    .padding = w.before[0],
                    .dilation = w.dilation[0],
                    .groups = groups})};
  if (w.kernel.size() == 2)
    return {conv2d(x, c[1], bias,
                   {.stride = pair_of(w.stride),
                    .padding = pair_of(w.before),
                    .dilation = pair_of(w.dilation),
                    .groups = groups})};
  return {conv3d(x, c[1], bias,
                 {.stride = triple_of(w.stride),
                  .padding = triple_of(w.before),
                  .dilation = triple_of(w.dilation),
                  .groups = groups})};
}

Results run_conv_transpose(const Call& c) {
  if (c.text("auto_pad", "NOTSET") != "NOTSET") c.node.refuse("auto_pad is not read");
  const Windows w = windows_of(c, sizes_from(c[1]));
  if (!w.symmetric()) c.node.refuse("pads that differ at both ends are not read");
  const List extra = c.list("output_padding", List(w.kernel.size(), 0));
  if (extra.size() != w.kernel.size()) c.node.refuse("output_padding has another number of sizes");
  const std::int64_t groups = c.integer("group", 1);
  if (w.kernel.size() == 1)
    return {conv_transpose1d(c[0], c[1], c.optional(2),
                             {.stride = w.stride[0],
                              .padding = w.before[0],
                              .output_padding = extra[0],
                              .groups = groups,
                              .dilation = w.dilation[0]})};
  if (w.kernel.size() == 2)
    return {conv_transpose2d(c[0], c[1], c.optional(2),
                             {.stride = pair_of(w.stride),
                              .padding = pair_of(w.before),
                              .output_padding = pair_of(extra),
                              .groups = groups,
                              .dilation = pair_of(w.dilation)})};
  return {conv_transpose3d(c[0], c[1], c.optional(2),
                           {.stride = triple_of(w.stride),
                            .padding = triple_of(w.before),
                            .output_padding = triple_of(extra),
                            .groups = groups,
                            .dilation = triple_of(w.dilation)})};
}

// ---- Products

Results run_matmul(const Call& c) { return {matmul(c[0], c[1])}; }

Results run_gemm(const Call& c) {
  const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  const bool turns_a = c.integer("transA", 0) != 0, turns_b = c.integer("transB", 0) != 0;
  if (c[0].dim() != 2 || c[1].dim() != 2) c.node.refuse("expected two matrices");
  const Tensor a = turns_a ? c[0].t() : c[0];
  const bool plain = alpha == 1 && (!c.has(2) || (beta == 1 && c[2].dim() == 1));
  const std::int64_t columns = c[1].size(turns_b ? 0 : 1);
  if (plain && turns_b && (!c.has(2) || c[2].size(0) == columns))
    return {linear(a, c[1], c.optional(2))};
  const Tensor b = turns_b ? c[1].t() : c[1];
  if (!c.has(2)) return {alpha == 1 ? matmul(a, b) : matmul(a, b) * alpha};
  return {addmm(c[2], a, b, beta, alpha)};
}

Results run_einsum(const Call& c) { return {einsum(c.text("equation", ""), c.all())}; }

// ---- Norms

Results run_batch_norm(const Call& c) {
  // In files that were exported for training, train() means what it means in PyTorch.
  const bool by_batch = c.integer("training_mode", 0) != 0 && c.training;
  const BatchNormFuncOptions options{.training = by_batch,
                                     .momentum = 1 - c.real("momentum", 0.9),
                                     .eps = c.real("epsilon", 1e-5)};
  return {batch_norm(c[0], c[3], c[4], c[1], c[2], options), c[3], c[4]};
}

/// [batch, length, heads * width] as [batch, heads, length, width].
Tensor with_heads(const Call& c, std::size_t i, const char* heads) {
  const Tensor& x = c[i];
  if (x.dim() == 4) return x;
  const std::int64_t count = c.integer(heads, 0);
  if (x.dim() != 3 || count < 1 || x.size(2) % count != 0)
    c.node.refuse(fmt::format("input {} is {} of {} heads", i, x.describe(), count));
  return x.reshape({x.size(0), x.size(1), count, x.size(2) / count}).transpose(1, 2);
}

Results run_attention(const Call& c) {
  if (c.real("softcap", 0) != 0) c.node.refuse("softcap is not read");
  const Tensor query = with_heads(c, 0, "q_num_heads"), key = with_heads(c, 1, "kv_num_heads"),
               value = with_heads(c, 2, "kv_num_heads");
  ScaledDotProductAttentionOptions options{.attn_mask = c.optional(3),
                                           .is_causal = c.integer("is_causal", 0) != 0};
  if (c.given("scale")) options.scale = c.real("scale", 1);
  options.enable_gqa = query.size(1) != key.size(1);
  const Tensor y = scaled_dot_product_attention(query, key, value, options);
  return {c[0].dim() == 4 ? y : y.transpose(1, 2).flatten(2)};
}

Results run_instance_norm(const Call& c) {
  return {instance_norm(c[0], {}, {}, c[1], c[2], {.eps = c.real("epsilon", 1e-5)})};
}

Shape shape_from(const Tensor& x, int dim) {
  Shape shape;
  for (int d = dim; d < x.dim(); ++d) shape.push_back(x.size(d));
  return shape;
}

Results run_layer_norm(const Call& c) {
  const Shape shape = shape_from(c[0], c.dim(c.integer("axis", -1)));
  const Tensor scale = c[1].shape() == shape ? c[1] : c[1].expand(shape);
  const Tensor bias = !c.has(2) || c[2].shape() == shape ? c.optional(2) : c[2].expand(shape);
  return {layer_norm(c[0], shape, scale, bias, c.real("epsilon", 1e-5))};
}

Results run_rms_norm(const Call& c) {
  return {rms_norm(c[0], shape_from(c[0], c.dim(c.integer("axis", -1))), c[1],
                   c.real("epsilon", 1e-5))};
}

Results run_group_norm(const Call& c) {
  const std::int64_t groups = c.integer("num_groups", 1);
  // Before opset 21 there is a factor a group, not a channel.
  if (c[0].dim() < 2 || c[1].numel() != c[0].size(1))
    c.node.refuse("expected a scale of each channel");
  return {group_norm(c[0], groups, c[1], c[2], c.real("epsilon", 1e-5))};
}

Results run_lrn(const Call& c) {
  const std::int64_t size = c.integer("size", 1);
  // ONNX's window of an even size has the odd channel at the back, PyTorch's and Ferrite's at the
  // front.
  if (size % 2 == 0)
    c.node.refuse(fmt::format("its size is {}; windows of an even size are not read", size));
  return {local_response_norm(
      c[0], size,
      {.alpha = c.real("alpha", 1e-4), .beta = c.real("beta", 0.75), .k = c.real("bias", 1)})};
}

// ---- Poolings

/// Changes the padding behind `x` so that windows that are not rounded up are those of ceil_mode: a
/// last one may reach beyond the padding, and none begins in that behind the elements.
void end_at_last_window(const Tensor& x, Windows& w) {
  for (std::size_t i = 0; i < w.kernel.size(); ++i) {
    const std::int64_t size = x.size(static_cast<int>(i) + 2) + w.before[i];
    const std::int64_t reach = w.dilation[i] * (w.kernel[i] - 1) + 1;
    const std::int64_t left = size + w.after[i] - reach;
    if (left < 0) continue;  // no window fits, which the pooling refuses
    std::int64_t steps = (left + w.stride[i] - 1) / w.stride[i];
    if (steps * w.stride[i] >= size) --steps;
    w.after[i] = steps * w.stride[i] + reach - size;
  }
}

Results run_max_pool(const Call& c) {
  if (c.integer("storage_order", 0) != 0) c.node.refuse("storage_order is not read");
  Windows w = windows_of(c, c.list("kernel_shape"));
  bool ceil_mode = c.integer("ceil_mode", 0) != 0;
  // max_pool takes as much padding as half the kernel, on both sides alike.
  bool takes_pads = w.symmetric();
  for (std::size_t i = 0; i < w.kernel.size(); ++i) takes_pads &= 2 * w.before[i] <= w.kernel[i];
  Tensor x = c[0];
  if (!takes_pads) {
    if (ceil_mode) end_at_last_window(x, w);
    ceil_mode = false;
    x = padded_by(x, w, -std::numeric_limits<double>::infinity());
  }
  if (w.kernel.size() == 1)
    return {max_pool1d(x, {.kernel_size = w.kernel[0],
                           .stride = w.stride[0],
                           .padding = w.before[0],
                           .dilation = w.dilation[0],
                           .ceil_mode = ceil_mode})};
  if (w.kernel.size() == 2)
    return {max_pool2d(x, {.kernel_size = pair_of(w.kernel),
                           .stride = pair_of(w.stride),
                           .padding = pair_of(w.before),
                           .dilation = pair_of(w.dilation),
                           .ceil_mode = ceil_mode})};
  return {max_pool3d(x, {.kernel_size = triple_of(w.kernel),
                         .stride = triple_of(w.stride),
                         .padding = triple_of(w.before),
                         .dilation = triple_of(w.dilation),
                         .ceil_mode = ceil_mode})};
}

Results run_avg_pool(const Call& c) {
  Windows w = windows_of(c, c.list("kernel_shape"));
  const bool ceil_mode = c.integer("ceil_mode", 0) != 0;
  const bool counts = c.integer("count_include_pad", 0) != 0;
  if (w.dilation != List(w.dilation.size(), 1)) c.node.refuse("dilations are not read");
  if (!w.symmetric() && (!counts || ceil_mode))
    c.node.refuse("pads that differ at both ends are read only with count_include_pad");
  const Tensor x = padded(c[0], w, 0);
  if (w.kernel.size() == 1)
    return {avg_pool1d(x, {.kernel_size = w.kernel[0],
                           .stride = w.stride[0],
                           .padding = w.before[0],
                           .ceil_mode = ceil_mode,
                           .count_include_pad = counts})};
  if (w.kernel.size() == 2)
    return {avg_pool2d(x, {.kernel_size = pair_of(w.kernel),
                           .stride = pair_of(w.stride),
                           .padding = pair_of(w.before),
                           .ceil_mode = ceil_mode,
                           .count_include_pad = counts})};
  return {avg_pool3d(x, {.kernel_size = triple_of(w.kernel),
                         .stride = triple_of(w.stride),
                         .padding = triple_of(w.before),
                         .ceil_mode = ceil_mode,
                         .count_include_pad = counts})};
}

Dims spatial(const Tensor& x) {
  Dims dims;
  for (int d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}
Results global_mean(const Call& c) { return {mean(c[0], spatial(c[0]), true)}; }
Results global_max(const Call& c) { return {amax(c[0], spatial(c[0]), true)}; }

// ---- Resizing

/// The first elements of dimension `d`, if a linear or cubic Resize with pytorch_half_pixel makes
/// them all of it: a single element has coordinate 0, and not the center.
Tensor first_if_one(const Call& c, const Tensor& x, int d, std::int64_t size) {
  const bool first = size == 1 && x.size(d) > 1 && c.text("mode", "nearest") != "nearest" &&
                     c.text("coordinate_transformation_mode", "half_pixel") == "pytorch_half_pixel";
  return first ? x.slice(d, 0, 1) : x;
}

/// The size that a factor gives: the product is rounded to float32 before it is rounded down.
std::int64_t scaled(std::int64_t size, float factor) {
  const float exact = std::floor(static_cast<float>(size) * factor);
  return exact < 0x1p31F ? static_cast<std::int64_t>(exact) : std::int64_t{1} << 31;
}

/// The factor for interpolate(), whose sizes are rounded down from products of doubles.
double factor_of(std::int64_t size, float factor) {
  // The shortest decimal number that float32 rounds to it, 1.3, is what the file was written from.
  const std::string digits = fmt::format("{}", factor);
  double value = static_cast<double>(factor);
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const auto from = static_cast<double>(size), to = static_cast<double>(scaled(size, factor));
  if (!(to >= 1) || std::floor(from * value) == to) return value;
  // Close to the factor, and with that size.
  value = std::max(static_cast<double>(factor), to / from);
  while (std::floor(from * value) < to)
    value = std::nextafter(value, std::numeric_limits<double>::infinity());
  return value;
}

/// The mode of a Resize of `dims` dimensions; none if there is none.
std::optional<InterpolateMode> resize_mode(const Call& c, int dims) {
  using enum InterpolateMode;
  const std::string mode = c.text("mode", "nearest"),
                    place = c.text("coordinate_transformation_mode", "half_pixel"),
                    rounding = c.text("nearest_mode", "round_prefer_floor");
  if (dims < 3 || dims > 5) return {};
  if (mode == "nearest") {
    if (place == "asymmetric" && rounding == "floor") return nearest;
    if (place == "half_pixel" && rounding == "round_prefer_ceil") return nearest_exact;
    return {};
  }
  if (place != "align_corners" && place != "half_pixel" && place != "pytorch_half_pixel") return {};
  if (mode == "linear") return dims == 3 ? linear : dims == 4 ? bilinear : trilinear;
  const bool cubic = mode == "cubic" && dims == 4 && c.real("cubic_coeff_a", -0.75) == -0.75 &&
                     c.integer("exclude_outside", 0) == 0;
  return cubic ? std::optional(bicubic) : std::nullopt;
}

Results run_resize(const Call& c) {
  Tensor x = c[0];
  const int dims = x.dim();
  const std::string place = c.text("coordinate_transformation_mode", "half_pixel");
  if (c.integer("antialias", 0) != 0) c.node.refuse("antialias is not read");
  if (const std::string policy = c.text("keep_aspect_ratio_policy", "stretch"); policy != "stretch")
    c.node.refuse("keep_aspect_ratio_policy is " + policy);
  const std::optional<InterpolateMode> mode = resize_mode(c, dims);
  if (!mode)
    c.node.refuse(
        fmt::format("{} with {} of {} is not read; nearest (asymmetric, floor, or half_pixel, "
                    "round_prefer_ceil) and linear of 3 to 5 dimensions and cubic of images are",
                    c.text("mode", "nearest"), place, x.describe()));
  List axes = c.list("axes", [&] {
    List all;
    for (int d = 0; d < dims; ++d) all.push_back(d);
    return all;
  }());
  const auto all_of = [&]<class T>(const std::vector<T>& given, std::vector<T> whole) {
    if (given.size() != axes.size()) c.node.refuse("expected a size or factor for each axis");
    for (std::size_t i = 0; i < axes.size(); ++i)
      whole[static_cast<std::size_t>(c.dim(axes[i]))] = given[i];
    return whole;
  };
  const auto of_last = [&]<class Options>(const auto& v, Options) -> Options {
    const auto at = [&](int d) { return v[static_cast<std::size_t>(dims - d)]; };
    if (dims == 3) return Options(at(1));
    return dims == 4 ? Options(at(2), at(1)) : Options(at(3), at(2), at(1));
  };
  InterpolateOptions o{.mode = *mode};
  if (place == "align_corners" && *mode != InterpolateMode::nearest) o.align_corners = true;
  if (c.has(3) && c[3].numel() > 0) {
    const List sizes = all_of(c.integers(3), List(x.shape().begin(), x.shape().end()));
    if (sizes[0] != x.size(0) || sizes[1] != x.size(1))
      c.node.refuse("it resizes batch or channels");
    for (int d = 2; d < dims; ++d) x = first_if_one(c, x, d, sizes[static_cast<std::size_t>(d)]);
    o.size = of_last(sizes, InterpolateSize(0));
  } else {
    if (!c.has(2)) c.node.refuse("it has neither scales nor sizes");
    const auto scales =
        all_of(c[2].to_vector<float>(), std::vector<float>(static_cast<std::size_t>(dims), 1));
    if (scales[0] != 1 || scales[1] != 1) c.node.refuse("it resizes batch or channels");
    std::vector<double> factors{1, 1};
    for (int d = 2; d < dims; ++d) {
      const float scale = scales[static_cast<std::size_t>(d)];
      const std::int64_t size = x.size(d);
      x = first_if_one(c, x, d, scaled(size, scale));
      factors.push_back(x.size(d) == size ? factor_of(size, scale) : 1);
    }
    o.scale_factor = of_last(factors, ScaleFactor(0));
  }
  return {interpolate(x, o)};
}

const std::vector<std::string_view> kWindows{
    "auto_pad",  "dilations",         "group",          "kernel_shape", "pads", "strides",
    "ceil_mode", "count_include_pad", "output_padding", "storage_order"};

}  // namespace

const KernelTable& layer_kernels() {
  static const KernelTable table{
      {"Conv", {2, 3, 1, kWindows, run_conv}},
      {"ConvTranspose", {2, 3, 1, kWindows, run_conv_transpose}},
      {"MatMul", {2, 2, 1, {}, run_matmul}},
      {"Gemm", {2, 3, 1, {"alpha", "beta", "transA", "transB"}, run_gemm}},
      {"Einsum", {1, 64, 1, {"equation"}, run_einsum}},
      {"BatchNormalization", {5, 5, 3, {"epsilon", "momentum", "training_mode"}, run_batch_norm}},
      {"Attention",
       {3,
        4,
        1,
        {"is_causal", "kv_num_heads", "q_num_heads", "qk_matmul_output_mode", "scale", "softcap",
         "softmax_precision"},
        run_attention}},
      {"InstanceNormalization", {3, 3, 1, {"epsilon"}, run_instance_norm}},
      {"LayerNormalization", {2, 3, 1, {"axis", "epsilon", "stash_type"}, run_layer_norm}},
      {"RMSNormalization", {2, 2, 1, {"axis", "epsilon", "stash_type"}, run_rms_norm}},
      {"GroupNormalization", {3, 3, 1, {"epsilon", "num_groups", "stash_type"}, run_group_norm}},
      {"LRN", {1, 1, 1, {"alpha", "beta", "bias", "size"}, run_lrn}},
      {"MaxPool", {1, 1, 1, kWindows, run_max_pool}},
      {"AveragePool", {1, 1, 1, kWindows, run_avg_pool}},
      {"GlobalAveragePool", {1, 1, 1, {}, global_mean}},
      {"GlobalMaxPool", {1, 1, 1, {}, global_max}},
      {"Resize",
       {1,
        4,
        1,
        {"antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside",
         "extrapolation_value", "keep_aspect_ratio_policy", "mode", "nearest_mode"},
        run_resize}},
  };
  return table;
}

}  // namespace ferrite::onnx
