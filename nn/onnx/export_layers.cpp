// Convolutions, products, norms, poolings, embeddings, resizing.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ferrite/nn/onnx/builder.h"
#include "ferrite/ops/creation.h"

namespace ferrite::onnx {

namespace {

std::string unsqueezed(Builder& graph, const std::string& x, std::int64_t dim) {
  return graph.node("Unsqueeze", {x, graph.integers({dim})});
}
std::string squeezed(Builder& graph, const std::string& x, std::int64_t dim) {
  return graph.node("Squeeze", {x, graph.integers({dim})});
}

/// f of input 0 with a batch, which an input of `dims` dimensions and channels alone gets.
template <class F>
void in_batch(Exported& e, int dims, F f) {
  if (e.input(0).dim() == dims + 2) return e.give(f(e.inputs[0]));
  e.give(squeezed(e.graph, f(unsqueezed(e.graph, e.inputs[0], 0)), 0));
}

/// Sizes of both ends: ONNX lists the beginnings, then the ends.
std::vector<std::int64_t> both_ends(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> all = sizes;
  all.insert(all.end(), sizes.begin(), sizes.end());
  return all;
}

// ---- Convolutions

std::vector<std::int64_t> spatial(const Exported& e, std::size_t input) {
  std::vector<std::int64_t> sizes;
  for (int d = 2; d < e.input(input).dim(); ++d) sizes.push_back(e.fixed_size(input, d));
  return sizes;
}

void export_conv(Exported& e) {
  const std::vector<std::int64_t> kernel = spatial(e, 1);
  const std::vector<std::int64_t>& dilation = e.op.integers("dilation");
  std::vector<std::int64_t> pads = both_ends(e.op.integers("padding"));
  if (e.op.flag("same"))
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      const std::int64_t both = dilation[i] * (kernel[i] - 1);
      pads[i] = both / 2, pads[kernel.size() + i] = both - both / 2;
    }
  in_batch(e, static_cast<int>(kernel.size()), [&](const std::string& x) {
    return e.graph.node("Conv", {x, e.inputs[1], e.inputs[2]},
                        {{"dilations", dilation},
                         {"group", e.op.integer("groups")},
                         {"kernel_shape", kernel},
                         {"pads", pads},
                         {"strides", e.op.integers("stride")}});
  });
}

void export_conv_transpose(Exported& e) {
  const std::vector<std::int64_t> kernel = spatial(e, 1);
  in_batch(e, static_cast<int>(kernel.size()), [&](const std::string& x) {
    return e.graph.node("ConvTranspose", {x, e.inputs[1], e.inputs[2]},
                        {{"dilations", e.op.integers("dilation")},
                         {"group", e.op.integer("groups")},
                         {"kernel_shape", kernel},
                         {"output_padding", e.op.integers("output_padding")},
                         {"pads", both_ends(e.op.integers("padding"))},
                         {"strides", e.op.integers("stride")}});
  });
}

// ---- Products

void export_matmul(Exported& e) {
  const DType dtype = e.output().dtype();
  e.give(e.graph.node("MatMul", {e.as(0, dtype), e.as(1, dtype)}));
}

void export_addmm(Exported& e) {
  e.give(e.graph.node("Gemm", {e.inputs[1], e.inputs[2], e.inputs[0]},
                      {{"alpha", static_cast<float>(e.op.scalar("alpha").to<double>())},
                       {"beta", static_cast<float>(e.op.scalar("beta").to<double>())}}));
}

void export_linear(Exported& e) {
  if (e.input(0).dim() == 2)
    return e.give(e.graph.node("Gemm", {e.inputs[0], e.inputs[1], e.inputs[2]},
                               {{"transB", std::int64_t{1}}}));
  const std::string turned =
      e.graph.node("Transpose", {e.inputs[1]}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  const std::string product = e.graph.node("MatMul", {e.inputs[0], turned});
  e.give(e.has(2) ? e.graph.node("Add", {product, e.inputs[2]}) : product);
}

// ---- Norms

/// Input i, or `count` equal numbers where it is undefined.
std::string or_filled(const Exported& e, std::size_t i, std::int64_t count, double value) {
  return e.has(i) ? e.as(i, e.input(0).dtype()) : e.graph.filled(count, value, e.input(0).dtype());
}

NamedAttribute epsilon(const Exported& e) {
  return {"epsilon", static_cast<float>(e.op.number("eps"))};
}

void export_batch_norm(Exported& e) {
  if (e.op.flag("training")) e.op.refuse("it computes with the statistics of the batch");
  const std::int64_t channels = e.fixed_size(0, 1);
  e.give(e.graph.node("BatchNormalization",
                      {e.inputs[0], or_filled(e, 3, channels, 1), or_filled(e, 4, channels, 0),
                       or_filled(e, 1, channels, 0), or_filled(e, 2, channels, 1)},
                      {epsilon(e)}));
}

void export_instance_norm(Exported& e) {
  const std::int64_t channels = e.fixed_size(0, 1);
  e.give(e.graph.node("InstanceNormalization",
                      {e.inputs[0], or_filled(e, 1, channels, 1), or_filled(e, 2, channels, 0)},
                      {epsilon(e)}));
}

void export_layer_norm(Exported& e) {
  const std::vector<std::int64_t>& shape = e.op.integers("shape");
  std::string scale = e.has(1) ? e.inputs[1] : "";
  if (scale.empty()) {
    const Tensor ones_of = ones(Shape(shape), {.dtype = e.input(0).dtype(), .device = kCPU});
    scale = e.graph.constant(ones_of);
  }
  e.give(e.graph.node("LayerNormalization", {e.inputs[0], scale, e.has(2) ? e.inputs[2] : ""},
                      {{"axis", -static_cast<std::int64_t>(shape.size())}, epsilon(e)}));
}

void export_rms_norm(Exported& e) {
  const DType dtype = e.input(0).dtype();
  std::vector<std::int64_t> axes;
  for (std::size_t i = e.op.integers("shape").size(); i-- > 0;)
    axes.push_back(-static_cast<std::int64_t>(i) - 1);
  const std::string& x = e.inputs[0];
  const std::string squares = e.graph.node("Mul", {x, x});
  const std::string mean = e.graph.opset() >= 18
                               ? e.graph.node("ReduceMean", {squares, e.graph.integers(axes)})
                               : e.graph.node("ReduceMean", {squares}, {{"axes", axes}});
  const std::string root = e.graph.node(
      "Sqrt", {e.graph.node("Add", {mean, e.graph.scalar(e.op.number("eps"), dtype)})});
  const std::string out = e.graph.node("Div", {x, root});
  e.give(e.has(1) ? e.graph.node("Mul", {out, e.inputs[1]}) : out);
}

void export_local_response_norm(Exported& e) {
  const auto number = [&](const char* name) { return static_cast<float>(e.op.number(name)); };
  if (const std::int64_t size = e.op.integer("size"); size % 2 == 0)
    e.op.refuse(fmt::format(
        "its size is {}, and a window of an even size lies one channel further to the front here "
        "than in ONNX's LRN: choose an odd size",
        size));
  e.give(e.graph.node("LRN", {e.inputs[0]},
                      {{"alpha", number("alpha")},
                       {"beta", number("beta")},
                       {"bias", number("k")},
                       {"size", e.op.integer("size")}}));
}

// ---- Poolings

void export_max_pool(Exported& e) {
  const auto& kernel = e.op.integers("kernel_size");
  in_batch(e, static_cast<int>(kernel.size()), [&](const std::string& x) {
    return e.graph.node("MaxPool", {x},
                        {{"ceil_mode", std::int64_t{e.op.flag("ceil_mode")}},
                         {"dilations", e.op.integers("dilation")},
                         {"kernel_shape", kernel},
                         {"pads", both_ends(e.op.integers("padding"))},
                         {"strides", e.op.integers("stride")}});
  });
}

void export_avg_pool(Exported& e) {
  const auto& kernel = e.op.integers("kernel_size");
  const bool divides = e.op.has("divisor_override");
  if (e.op.flag("ceil_mode") &&
      (divides || (e.op.flag("count_include_pad") && e.graph.opset() < 19)))
    e.op.refuse(
        "ceil_mode together with count_include_pad needs opset 19, and has no equivalent with "
        "a divisor_override");
  in_batch(e, static_cast<int>(kernel.size()), [&](const std::string& x) {
    const std::string mean = e.graph.node(
        "AveragePool", {x},
        {{"ceil_mode", std::int64_t{e.op.flag("ceil_mode")}},
         {"count_include_pad", std::int64_t{divides || e.op.flag("count_include_pad")}},
         {"kernel_shape", kernel},
         {"pads", both_ends(e.op.integers("padding"))},
         {"strides", e.op.integers("stride")}});
    if (!divides) return mean;
    double cells = 1;
    for (const std::int64_t k : kernel) cells *= static_cast<double>(k);
    cells /= static_cast<double>(e.op.integer("divisor_override"));
    return e.graph.node("Mul", {mean, e.graph.scalar(cells, e.output().dtype())});
  });
}

/// The last sizes of input 0, as many as the op has.
std::vector<std::int64_t> pooled_sizes(const Exported& e) {
  std::vector<std::int64_t> sizes;
  const int dims = static_cast<int>(e.op.integers("size").size());
  for (int d = e.input(0).dim() - dims; d < e.input(0).dim(); ++d)
    sizes.push_back(e.fixed_size(0, d));
  return sizes;
}

bool divides(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& into) {
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] % into[i] != 0) return false;
  return true;
}

std::string pool_evenly(Exported& e, const char* type, const std::string& x,
                        const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> kernel = sizes;
  for (std::size_t i = 0; i < sizes.size(); ++i) kernel[i] /= e.op.integers("size")[i];
  return e.graph.node(type, {x}, {{"kernel_shape", kernel}, {"strides", kernel}});
}

/// [size, windows]: the share of each cell in the mean of each window.
Tensor shares(std::int64_t size, std::int64_t windows, DType dtype) {
  Tensor out = zeros({size, windows}, {.dtype = kFloat64, .device = kCPU});
  for (std::int64_t w = 0; w < windows; ++w) {
    const std::int64_t begin = w * size / windows, end = ((w + 1) * size + windows - 1) / windows;
    for (std::int64_t i = begin; i < end; ++i)
      out.data<double>()[i * windows + w] = 1.0 / static_cast<double>(end - begin);
  }
  return out.to(dtype);
}

void export_adaptive_avg_pool(Exported& e) {
  const std::vector<std::int64_t>& size = e.op.integers("size");
  const std::vector<std::int64_t> sizes = pooled_sizes(e);
  const int dims = static_cast<int>(sizes.size());
  in_batch(e, dims, [&](const std::string& x) {
    if (std::ranges::all_of(size, [](std::int64_t s) { return s == 1; }))
      return e.graph.node("GlobalAveragePool", {x});
    if (divides(sizes, size)) return pool_evenly(e, "AveragePool", x, sizes);
    // Windows of several sizes: a product along each dimension.
    std::string out = x;
    std::vector<std::int64_t> last(static_cast<std::size_t>(dims + 2));
    for (std::size_t i = 0; i < last.size(); ++i) last[i] = static_cast<std::int64_t>(i);
    for (int d = dims; d-- > 0;) {
      const auto i = static_cast<std::size_t>(d);
      std::vector<std::int64_t> perm = last;
      std::swap(perm[i + 2], perm.back());
      if (d != dims - 1) out = e.graph.node("Transpose", {out}, {{"perm", perm}});
      out = e.graph.node("MatMul",
                         {out, e.graph.constant(shares(sizes[i], size[i], e.input(0).dtype()))});
      if (d != dims - 1) out = e.graph.node("Transpose", {out}, {{"perm", perm}});
    }
    return out;
  });
}

void export_adaptive_max_pool(Exported& e) {
  const std::vector<std::int64_t>& size = e.op.integers("size");
  const std::vector<std::int64_t> sizes = pooled_sizes(e);
  if (!divides(sizes, size))
    e.op.refuse(
        "its windows differ in size, which ONNX's MaxPool does not know: choose an output size "
        "that divides the input's");
  in_batch(e, static_cast<int>(sizes.size()), [&](const std::string& x) {
    if (std::ranges::all_of(size, [](std::int64_t s) { return s == 1; }))
      return e.graph.node("GlobalMaxPool", {x});
    return pool_evenly(e, "MaxPool", x, sizes);
  });
}

// ---- Others

void export_embedding(Exported& e) { e.give(e.graph.node("Gather", {e.inputs[1], e.inputs[0]})); }

void export_interpolate(Exported& e) {
  const std::string mode = e.op.text("mode");
  const bool nearest = mode == "nearest", exact = mode == "nearest-exact",
             cubic = mode == "bicubic", corners = e.op.flag("align_corners");
  if (e.op.flag("antialias"))
    e.op.refuse("its antialiasing is not ONNX's: resize without, or before the network");
  std::vector<NamedAttribute> attributes{
      {"coordinate_transformation_mode", std::string(nearest   ? "asymmetric"
                                                     : corners ? "align_corners"
                                                               : "half_pixel")},
      {"mode", std::string(nearest || exact ? "nearest"
                           : cubic          ? "cubic"
                                            : "linear")},
      {"nearest_mode", std::string(exact ? "round_prefer_ceil" : "floor")}};
  const Sizes& to = e.output().shape;
  const int n = static_cast<int>(to.size());
  std::vector<std::int64_t> axes, sizes;
  for (int d = 2; d < n; ++d) {
    axes.push_back(d);
    sizes.push_back(to[static_cast<std::size_t>(d)].fixed);
  }
  const bool by_size = e.op.flag("by_size");
  if (by_size && e.graph.opset() >= 18) {
    attributes.push_back({"axes", axes});
    return e.give(
        e.graph.node("Resize", {e.inputs[0], "", "", e.graph.integers(sizes)}, attributes));
  }
  // Sizes of all dimensions, of which the batch may be computed; or the factors as they were given.
  if (by_size)
    return e.give(e.graph.node("Resize", {e.inputs[0], "", "", e.graph.sizes(to)}, attributes));
  std::vector<float> scales{1, 1};
  for (int d = 2; d < n; ++d) {
    // Rounded to float32 it must still give that size.
    const char* const names[] = {"scale_w", "scale_h", "scale_d"};
    auto f = static_cast<float>(e.op.number(names[n - 1 - d]));
    const auto from = static_cast<float>(e.fixed_size(0, d));
    while (static_cast<std::int64_t>(f * from) < to[static_cast<std::size_t>(d)].fixed)
      f = std::nextafter(f, std::numeric_limits<float>::infinity());
    scales.push_back(f);
  }
  e.give(e.graph.node(
      "Resize", {e.inputs[0], "", e.graph.constant(from_vector<float>(scales, {n}))}, attributes));
}

}  // namespace

const ExporterTable& layer_exporters() {
  static const ExporterTable table{
      {"conv", export_conv},
      {"conv_transpose", export_conv_transpose},
      {"matmul", export_matmul},
      {"addmm", export_addmm},
      {"linear", export_linear},
      {"batch_norm", export_batch_norm},
      {"instance_norm", export_instance_norm},
      {"layer_norm", export_layer_norm},
      {"rms_norm", export_rms_norm},
      {"local_response_norm", export_local_response_norm},
      {"max_pool", export_max_pool},
      {"avg_pool", export_avg_pool},
      {"adaptive_avg_pool", export_adaptive_avg_pool},
      {"adaptive_max_pool", export_adaptive_max_pool},
      {"embedding", export_embedding},
      {"interpolate", export_interpolate},
      {"rnn", export_rnn},
  };
  return table;
}

}  // namespace ferrite::onnx
