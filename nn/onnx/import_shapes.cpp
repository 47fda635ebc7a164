// Nodes that give other shapes, orders and parts, and those that compute with shapes.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "ferrite/nn/onnx/graph.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"

namespace ferrite::onnx {

namespace {

using Results = std::vector<Tensor>;
using List = std::vector<std::int64_t>;

/// Bounds what a node may ask for, so that a file cannot ask for all memory.
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;

Shape checked_shape(const Call& c, const List& sizes) {
  std::int64_t elements = 1;
  if (sizes.size() > static_cast<std::size_t>(kMaxDims))
    c.node.refuse(fmt::format("a shape of {} dimensions", sizes.size()));
  for (const std::int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements) || elements > kMostElements)
      c.node.refuse("a shape of more than 2^31 elements");
  return Shape(sizes);
}

Tensor integers(const List& values) {
  return from_vector<std::int64_t>(values, {static_cast<std::int64_t>(values.size())});
}

Results run_reshape(const Call& c) {
  List sizes = c.integers(1);
  if (sizes.size() > static_cast<std::size_t>(kMaxDims))
    c.node.refuse("a shape of too many dimensions");
  if (c.integer("allowzero", 0) == 0)
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] == 0) sizes[d] = c[0].size(static_cast<int>(d));
  return {c[0].reshape(Shape(sizes))};
}

Results run_flatten(const Call& c) {
  const std::int64_t axis = c.integer("axis", 1);
  const int at = axis == c[0].dim() ? c[0].dim() : c.dim(axis);
  // Some sizes of an empty tensor may have a product of 2^63 or more.
  const auto product = [&](int begin, int end) -> std::int64_t {
    std::int64_t result = 1;
    bool overflows = false;
    for (int d = begin; d < end; ++d) {
      if (c[0].size(d) == 0) return 0;
      overflows |= __builtin_mul_overflow(result, c[0].size(d), &result);
    }
    if (overflows) c.node.refuse("a size of 2^63 or more");
    return result;
  };
  return {c[0].reshape({product(0, at), product(at, c[0].dim())})};
}

Results run_squeeze(const Call& c) {
  List axes = c.list_or_input("axes", 1);
  if (axes.empty()) return {c[0].squeeze()};
  for (std::int64_t& axis : axes) axis = c.dim(axis);
  std::ranges::sort(axes, std::greater());
  Tensor x = c[0];
  for (const std::int64_t axis : axes) {
    if (x.size(static_cast<int>(axis)) != 1)
      c.node.refuse(fmt::format("dimension {} of {} is not 1", axis, c[0].describe()));
    x = x.squeeze(static_cast<int>(axis));
  }
  return {x};
}

Results run_unsqueeze(const Call& c) {
  List axes = c.list_or_input("axes", 1);
  const int dims = c[0].dim() + static_cast<int>(std::min<std::size_t>(axes.size(), 100));
  for (std::int64_t& axis : axes) axis = normalize_dim(axis, dims, "Unsqueeze");
  std::ranges::sort(axes);
  Tensor x = c[0];
  for (const std::int64_t axis : axes) x = x.unsqueeze(static_cast<int>(axis));
  return {x};
}

Results run_transpose(const Call& c) {
  List perm = c.list("perm");
  if (perm.empty())
    for (int d = c[0].dim(); d-- > 0;) perm.push_back(d);
  return {c[0].permute(Dims(Shape(perm)))};
}

Results run_slice(const Call& c) {
  const List starts = c.integers(1), ends = c.integers(2);
  List axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has(3)) axes = c.integers(3);
  const List steps = c.has(4) ? c.integers(4) : List(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    c.node.refuse("its starts, ends, axes and steps differ in number");
  Tensor x = c[0];
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const int d = c.dim(axes[i]);
    const std::int64_t size = x.size(d);
    if (steps[i] == 0 || steps[i] < -kMostElements ||
        steps[i] > std::numeric_limits<std::int64_t>::max() / 2)
      c.node.refuse(fmt::format("a step of {}", steps[i]));
    const auto placed = [&](std::int64_t at, std::int64_t least, std::int64_t most) {
      return std::clamp(at < 0 ? (at < -size ? least : at + size) : at, least, most);
    };
    if (steps[i] > 0) {
      const std::int64_t begin = placed(starts[i], 0, size);
      x = x.slice(d, begin, std::max(begin, placed(ends[i], 0, size)), steps[i]);
      continue;
    }
    // Backwards: the same elements forwards, then flipped.
    const std::int64_t from = placed(starts[i], -1, size - 1), to = placed(ends[i], -1, size - 1);
    const std::int64_t count = from > to ? (from - to - 1) / -steps[i] + 1 : 0;
    const std::int64_t lowest = count > 0 ? from + (count - 1) * steps[i] : 0;
    x = flip(x.slice(d, lowest, count > 0 ? from + 1 : 0, -steps[i]), d);
  }
  return {x};
}

/// Indices from the end, which ONNX writes as negative numbers, from the front.
Tensor from_front(const Tensor& index, std::int64_t size) {
  return where(lt(index, 0), index + size, index);
}

Results run_gather(const Call& c) {
  const Tensor& x = c[0];
  const int axis = c.dim(c.integer("axis", 0));
  if (is_floating(c[1].dtype())) c.node.refuse("expected indices of integers");
  const Tensor index = from_front(c[1].to(kInt64).to(x.device()), x.size(axis));
  if (index.dim() == 0 && index.device().is_host())
    return {x.select(axis, index.item<std::int64_t>())};
  Shape shape;
  for (int d = 0; d < axis; ++d) shape.push_back(x.size(d));
  for (const std::int64_t size : index.shape()) shape.push_back(size);
  for (int d = axis + 1; d < x.dim(); ++d) shape.push_back(x.size(d));
  return {index_select(x, axis, index.reshape({-1})).reshape(shape)};
}

Results run_gather_elements(const Call& c) {
  const int axis = c.dim(c.integer("axis", 0));
  return {gather(c[0], axis, from_front(c[1].to(kInt64).to(c[0].device()), c[0].size(axis)))};
}

Results run_nonzero(const Call& c) {
  if (c[0].dim() == 0) c.node.refuse("it is of a tensor of no dimensions");
  return {nonzero(c[0]).transpose(0, 1)};
}

Results run_one_hot(const Call& c) {
  const std::int64_t depth = c[1].item<std::int64_t>();
  if (depth < 1 || c[2].numel() != 2) c.node.refuse("expected a depth above 0, and two values");
  const Tensor index = from_front(c[0].to(kInt64), depth);
  const int axis = normalize_dim(c.integer("axis", -1), index.dim() + 1, "OneHot");
  List sizes(index.shape().begin(), index.shape().end()), along(sizes.size() + 1, 1);
  sizes.insert(sizes.begin() + axis, depth);
  along[static_cast<std::size_t>(axis)] = depth;
  checked_shape(c, sizes);
  const Tensor classes =
      arange(0, depth, 1, {.dtype = kInt64, .device = index.device()}).reshape(Shape(along));
  const Tensor values = c[2].to(index.device());
  return {where(eq(index.unsqueeze(axis), classes), values.select(0, 1), values.select(0, 0))};
}

Results run_split(const Call& c) {
  const int axis = c.dim(c.integer("axis", 0));
  const std::int64_t size = c[0].size(axis),
                     parts = static_cast<std::int64_t>(c.node.outputs.size());
  List sizes = c.list_or_input("split", 1);
  if (sizes.empty()) {
    const std::int64_t count = c.integer("num_outputs", parts);
    if (count < 1 || count != parts)
      c.node.refuse(fmt::format("num_outputs is {} of {}", count, parts));
    const std::int64_t each = (size + count - 1) / count;
    for (std::int64_t left = size, i = 0; i < count; ++i, left -= std::min(each, left))
      sizes.push_back(std::min(each, left));
  }
  return split(c[0], sizes, axis);
}

Results run_concat(const Call& c) {
  Results parts = c.all();
  const auto on_device =
      std::ranges::find_if(parts, [](const Tensor& t) { return !t.device().is_host(); });
  if (on_device != parts.end()) {
    const Device device = on_device->device();
    for (Tensor& part : parts) part = part.to(device);
  }
  return {cat(parts, c.dim(c.integer("axis", 0)))};
}

Results run_expand(const Call& c) {
  const Shape wanted = checked_shape(c, c.integers(1));
  const Shape shape = broadcast_shapes(c[0].shape(), wanted, "Expand");
  return {c[0].expand(checked_shape(c, List(shape.begin(), shape.end())))};
}

Results run_tile(const Call& c) {
  const List repeats = c.integers(1);
  List sizes;
  if (repeats.size() != static_cast<std::size_t>(c[0].dim()))
    c.node.refuse("expected a number for each dimension");
  for (std::size_t d = 0; d < repeats.size(); ++d) {
    std::int64_t size = 0;
    if (repeats[d] < 0 || __builtin_mul_overflow(repeats[d], c[0].size(static_cast<int>(d)), &size))
      c.node.refuse(fmt::format("it repeats {} times", repeats[d]));
    sizes.push_back(size);
  }
  checked_shape(c, sizes);
  return {repeat(c[0], Shape(repeats))};
}

Results run_shape(const Call& c) {
  const std::int64_t dims = c[0].dim();
  const auto placed = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + dims : at, 0, dims);
  };
  const std::int64_t begin = placed(c.integer("start", 0)), end = placed(c.integer("end", dims));
  List sizes;
  for (std::int64_t d = begin; d < end; ++d) sizes.push_back(c[0].size(static_cast<int>(d)));
  return {integers(sizes)};
}
Results run_size(const Call& c) {
  return {full({}, c[0].numel(), {.dtype = kInt64, .device = kCPU})};
}

Results run_constant(const Call& c) {
  if (const auto value = c.node.tensors.find("value"); value != c.node.tensors.end())
    return {value->second};
  if (c.given("value_int"))
    return {full({}, c.integer("value_int", 0), {.dtype = kInt64, .device = kCPU})};
  if (c.given("value_float"))
    return {full({}, c.real("value_float", 0), {.dtype = kFloat32, .device = kCPU})};
  if (c.given("value_ints")) return {integers(c.list("value_ints"))};
  if (c.given("value_floats")) {
    const auto& floats = c.node.attributes.at("value_floats").floats();
    return {from_vector<float>(std::vector<float>(floats.begin(), floats.end()), {floats.size()})};
  }
  c.node.refuse("it has no value of numbers");
}

Results run_constant_of_shape(const Call& c) {
  const auto value = c.node.tensors.find("value");
  const Shape shape = checked_shape(c, c.integers(0));
  if (value == c.node.tensors.end()) return {zeros(shape, {.dtype = kFloat32, .device = kCPU})};
  if (value->second.numel() != 1) c.node.refuse("expected a value of one number");
  return {full(shape, value->second.item(), {.dtype = value->second.dtype(), .device = kCPU})};
}

/// The number of integers from `begin` up to `end`, which is not one of them.
std::uint64_t range_length(std::int64_t begin, std::int64_t end, std::int64_t step) {
  if (step > 0 ? begin >= end : begin <= end) return 0;
  // Unsigned differences do not overflow.
  const auto from = static_cast<std::uint64_t>(begin), to = static_cast<std::uint64_t>(end),
             by = static_cast<std::uint64_t>(step);
  const std::uint64_t distance = step > 0 ? to - from : from - to, stride = step > 0 ? by : 0 - by;
  return distance / stride + (distance % stride != 0 ? 1 : 0);
}

Results run_range(const Call& c) {
  const TensorOptions options{.dtype = c[0].dtype(), .device = kCPU};
  const bool floating =
      is_floating(c[0].dtype()) || is_floating(c[1].dtype()) || is_floating(c[2].dtype());
  if (!floating) {
    const auto begin = c[0].item<std::int64_t>(), end = c[1].item<std::int64_t>(),
               step = c[2].item<std::int64_t>();
    if (step == 0) c.node.refuse("a step of 0");
    const std::uint64_t length = range_length(begin, end, step);
    if (length > static_cast<std::uint64_t>(kMostElements))
      c.node.refuse("a range of more than 2^31 numbers");
    return {length == 0 ? empty({0}, options) : arange(begin, end, step, options)};
  }
  const double begin = c[0].item<double>(), end = c[1].item<double>(), step = c[2].item<double>();
  if (!(step != 0) || !((end - begin) / step <= static_cast<double>(kMostElements)))
    c.node.refuse("a range of more than 2^31 numbers");
  if ((end - begin) / step <= 0) return {empty({0}, options)};
  return {arange(c[0].item(), c[1].item(), c[2].item(), options)};
}

Results run_pad(const Call& c) {
  const List pads = c.integers(1);
  List axes(static_cast<std::size_t>(c[0].dim()));
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has(3)) axes = c.integers(3);
  if (pads.size() != 2 * axes.size()) c.node.refuse("expected two amounts for each axis");
  List amounts(2 * static_cast<std::size_t>(c[0].dim()), 0),
      sizes(c[0].shape().begin(), c[0].shape().end());
  std::vector<bool> padded(sizes.size());  // by axis; ONNX leaves repeated ones undefined
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(c.dim(axes[i]));
    if (padded[d]) c.node.refuse(fmt::format("axis {} is repeated", axes[i]));
    padded[d] = true;
    const std::size_t at = static_cast<std::size_t>(c[0].dim()) - 1 - d;
    amounts[2 * at] = pads[i];
    amounts[2 * at + 1] = pads[axes.size() + i];
    for (const std::int64_t amount : {pads[i], pads[axes.size() + i]})
      if (amount < -kMostElements || amount > kMostElements) c.node.refuse("an amount beyond 2^31");
    if (__builtin_add_overflow(sizes[d], pads[i] + pads[axes.size() + i], &sizes[d]))
      c.node.refuse("a size of 2^63 or more");
  }
  checked_shape(c, sizes);
  const std::string mode = c.text("mode", "constant");
  const std::pair<std::string_view, PadMode> modes[] = {{"constant", PadMode::constant},
                                                        {"reflect", PadMode::reflect},
                                                        {"edge", PadMode::replicate},
                                                        {"wrap", PadMode::circular}};
  for (const auto& [name, known] : modes)
    if (name == mode) return {pad(c[0], amounts, known, c.has(2) ? c[2].item() : Scalar(0))};
  c.node.refuse("mode is " + mode);
}

Results run_trilu(const Call& c) {
  const std::int64_t diagonal = c.has(1) ? c[1].item<std::int64_t>() : 0;
  return {c.integer("upper", 1) != 0 ? triu(c[0], diagonal) : tril(c[0], diagonal)};
}

Results run_depth_to_space(const Call& c) {
  const std::int64_t block = c.integer("blocksize", 1);
  const std::string mode = c.text("mode", "DCR");
  if (mode == "CRD") return {pixel_shuffle(c[0], block)};
  if (mode != "DCR") c.node.refuse("mode is " + mode);
  const Tensor& x = c[0];
  if (x.dim() != 4 || block < 1 || block > 1 << 15 || x.size(1) % (block * block) != 0)
    c.node.refuse(fmt::format("its blocksize of {} does not suit {}", block, x.describe()));
  // The position in a block comes before the channel; pixel_shuffle wants it behind.
  const std::int64_t channels = x.size(1) / (block * block);
  const Tensor blocks = x.reshape({x.size(0), block * block, channels, x.size(2), x.size(3)});
  return {pixel_shuffle(blocks.transpose(1, 2).reshape(x.shape()), block)};
}

Results run_top_k(const Call& c) {
  const auto [values, indices] = topk(c[0], c[1].item<std::int64_t>(), c.dim(c.integer("axis", -1)),
                                      c.integer("largest", 1) != 0);
  return {values, indices};
}

}  // namespace

const KernelTable& shape_kernels() {
  static const KernelTable table{
      {"Reshape", {2, 2, 1, {"allowzero"}, run_reshape}},
      {"Flatten", {1, 1, 1, {"axis"}, run_flatten}},
      {"Squeeze", {1, 2, 1, {}, run_squeeze}},
      {"Unsqueeze", {2, 2, 1, {}, run_unsqueeze}},
      {"Transpose", {1, 1, 1, {"perm"}, run_transpose}},
      {"Slice", {3, 5, 1, {}, run_slice}},
      {"Gather", {2, 2, 1, {"axis"}, run_gather}},
      {"GatherElements", {2, 2, 1, {"axis"}, run_gather_elements}},
      {"NonZero", {1, 1, 1, {}, run_nonzero}},
      {"OneHot", {3, 3, 1, {"axis"}, run_one_hot}},
      {"Split", {1, 2, 1 << 16, {"axis", "num_outputs"}, run_split}},
      {"Concat", {1, 1 << 20, 1, {"axis"}, run_concat}},
      {"Expand", {2, 2, 1, {}, run_expand}},
      {"Tile", {2, 2, 1, {}, run_tile}},
      {"Shape", {1, 1, 1, {"start", "end"}, run_shape}},
      {"Size", {1, 1, 1, {}, run_size}},
      {"Constant",
       {0,
        0,
        1,
        {"value", "value_int", "value_float", "value_ints", "value_floats"},
        run_constant}},
      {"ConstantOfShape", {1, 1, 1, {"value"}, run_constant_of_shape}},
      {"Range", {3, 3, 1, {}, run_range}},
      {"Pad", {2, 4, 1, {"mode"}, run_pad}},
      {"Trilu", {1, 2, 1, {"upper"}, run_trilu}},
      {"DepthToSpace", {1, 1, 1, {"blocksize", "mode"}, run_depth_to_space}},
      {"TopK", {2, 2, 2, {"axis", "largest", "sorted"}, run_top_k}},
  };
  return table;
}

}  // namespace ferrite::onnx
