// Other shapes, orders and parts; joining, repeating, padding.
#include <algorithm>
#include <limits>
#include <numeric>

#include "ferrite/nn/onnx/builder.h"

namespace ferrite::onnx {

namespace {

std::int64_t normalized(const Exported& e, std::int64_t dim) {
  return dim < 0 ? dim + e.input(0).dim() : dim;
}

void export_reshape(Exported& e) {
  const Sizes& to = e.output().shape;
  if (to == e.input(0).shape) return e.give(e.inputs[0]);
  const bool empty = std::ranges::any_of(to, [](const Size& s) { return s == Size{0, 0}; });
  e.give(e.graph.node("Reshape", {e.inputs[0], e.graph.sizes(to, !empty)}));
}

void export_squeeze(Exported& e) {
  if (e.output().dim() == e.input(0).dim()) return e.give(e.inputs[0]);
  e.give(e.graph.node("Squeeze", {e.inputs[0], e.graph.integers(e.op.integers("dims"))}));
}

void export_unsqueeze(Exported& e) {
  e.give(e.graph.node("Unsqueeze", {e.inputs[0], e.graph.integers({e.op.integer("dim")})}));
}

void give_transposed(Exported& e, std::vector<std::int64_t> perm) {
  e.give(e.graph.node("Transpose", {e.inputs[0]}, {{"perm", std::move(perm)}}));
}

void export_transpose(Exported& e) {
  std::vector<std::int64_t> perm(static_cast<std::size_t>(e.input(0).dim()));
  std::iota(perm.begin(), perm.end(), 0);
  if (perm.empty()) return e.give(e.inputs[0]);
  std::swap(perm[static_cast<std::size_t>(normalized(e, e.op.integer("dim0")))],
            perm[static_cast<std::size_t>(normalized(e, e.op.integer("dim1")))]);
  give_transposed(e, perm);
}

void export_permute(Exported& e) {
  std::vector<std::int64_t> perm = e.op.integers("dims");
  for (std::int64_t& d : perm) d = normalized(e, d);
  give_transposed(e, perm);
}

void export_select(Exported& e) {
  e.give(e.graph.node("Gather", {e.inputs[0], e.graph.scalar(e.op.integer("index"), kInt64)},
                      {{"axis", e.op.integer("dim")}}));
}

std::string sliced(Exported& e, const std::string& x, const std::string& begin,
                   const std::string& end, std::int64_t dim, std::int64_t step = 1) {
  return e.graph.node("Slice", {x, begin, end, e.graph.integers({dim}), e.graph.integers({step})});
}

void export_slice(Exported& e) {
  const Sizes range = e.op.sizes("range");
  e.give(sliced(e, e.inputs[0], e.graph.sizes({range[0]}), e.graph.sizes({range[1]}),
                e.op.integer("dim"), e.op.integer("step")));
}

void export_split(Exported& e) {
  e.outputs = e.graph.nodes("Split", {e.inputs[0], e.graph.sizes(e.op.sizes("sizes"))},
                            {{"axis", e.op.integer("dim")}}, static_cast<int>(e.outputs.size()));
}

void export_unbind(Exported& e) {
  for (std::size_t i = 0; i < e.outputs.size(); ++i)
    e.outputs[i] =
        e.graph.node("Gather", {e.inputs[0], e.graph.scalar(static_cast<std::int64_t>(i), kInt64)},
                     {{"axis", e.op.integer("dim")}});
}

void export_expand(Exported& e) {
  if (e.output().shape == e.input(0).shape) return e.give(e.inputs[0]);
  e.give(e.graph.node("Expand", {e.inputs[0], e.graph.sizes(e.output().shape)}));
}

void export_cat(Exported& e) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < e.inputs.size(); ++i) {
    const bool skipped = e.output().dim() > 1 && e.input(i).shape == Sizes{{0, 0}};
    if (!skipped) parts.push_back(e.as(i, e.output().dtype()));
  }
  e.give(e.graph.node("Concat", parts, {{"axis", e.op.integer("dim")}}));
}

void export_stack(Exported& e) {
  const std::int64_t dim = e.op.integer("dim");
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < e.inputs.size(); ++i)
    parts.push_back(
        e.graph.node("Unsqueeze", {e.as(i, e.output().dtype()), e.graph.integers({dim})}));
  e.give(e.graph.node("Concat", parts, {{"axis", dim}}));
}

void export_flip(Exported& e) {
  std::string x = e.inputs[0];
  for (const std::int64_t d : e.op.integers("dims"))
    x = sliced(e, x, e.graph.integers({-1}),
               e.graph.integers({std::numeric_limits<std::int64_t>::min()}), d, -1);
  e.give(x);
}

void export_roll(Exported& e) {
  std::string x = e.inputs[0];
  const auto &shifts = e.op.integers("shifts"), &dims = e.op.integers("dims");
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t size = e.fixed_size(0, static_cast<int>(normalized(e, dims[i])));
    const std::int64_t shift = size > 0 ? (shifts[i] % size + size) % size : 0;
    if (shift == 0) continue;
    const std::string at = e.graph.integers({size - shift});
    x = e.graph.node("Concat",
                     {sliced(e, x, at, e.graph.integers({size}), dims[i]),
                      sliced(e, x, e.graph.integers({0}), at, dims[i])},
                     {{"axis", dims[i]}});
  }
  e.give(x);
}

/// Parts of the tensor itself at both ends, for opsets that have no such mode.
void export_circular_pad(Exported& e, const tracing::Sizes& amounts) {
  std::string x = e.inputs[0];
  const int dims = e.input(0).dim();
  for (std::size_t i = 0; i < amounts.size() / 2; ++i) {
    const std::int64_t before = amounts[2 * i], after = amounts[2 * i + 1];
    const std::int64_t dim = dims - 1 - static_cast<std::int64_t>(i);
    const std::int64_t size = e.fixed_size(0, static_cast<int>(dim));
    std::vector<std::string> parts;
    if (before > 0)
      parts.push_back(
          sliced(e, x, e.graph.integers({size - before}), e.graph.integers({size}), dim));
    parts.push_back(x);
    if (after > 0)
      parts.push_back(sliced(e, x, e.graph.integers({0}), e.graph.integers({after}), dim));
    if (parts.size() > 1) x = e.graph.node("Concat", parts, {{"axis", dim}});
  }
  e.give(x);
}

void export_pad(Exported& e) {
  const tracing::Sizes& amounts = e.op.integers("amounts");
  const std::string& mode = e.op.text("mode");
  if (mode == "circular") return export_circular_pad(e, amounts);
  const auto dims = static_cast<std::size_t>(e.input(0).dim());
  std::vector<std::int64_t> pads(2 * dims, 0);
  for (std::size_t i = 0; i < amounts.size() / 2; ++i) {
    pads[dims - 1 - i] = amounts[2 * i];
    pads[2 * dims - 1 - i] = amounts[2 * i + 1];
  }
  const bool constant = mode == "constant";
  e.give(e.graph.node("Pad",
                      {e.inputs[0], e.graph.integers(pads),
                       constant ? e.graph.scalar(e.op.scalar("value"), e.output().dtype()) : ""},
                      {{"mode", constant              ? mode
                                : mode == "replicate" ? std::string("edge")
                                                      : mode}}));
}

void export_triangle(Exported& e) {
  // Runtimes have it for numbers alone.
  const DType dtype = e.input(0).dtype() == kBool ? kInt64 : e.input(0).dtype();
  const std::string part =
      e.graph.node("Trilu", {e.as(0, dtype), e.graph.scalar(e.op.integer("diagonal"), kInt64)},
                   {{"upper", std::int64_t{e.op.op == "triu"}}});
  e.give(e.graph.cast(part, dtype, e.output().dtype()));
}

void export_index_select(Exported& e) {
  e.give(e.graph.node("Gather", {e.inputs[0], e.inputs[1]}, {{"axis", e.op.integer("dim")}}));
}
void export_nonzero(Exported& e) {
  if (e.input(0).dim() == 0) e.op.refuse("it is of a tensor of no dimensions");
  const std::string positions = e.graph.node("NonZero", {e.as(0, kBool)});
  e.give(e.graph.node("Transpose", {positions}, {{"perm", std::vector<std::int64_t>{1, 0}}}));
}
void export_one_hot(Exported& e) {
  const std::int64_t classes = e.op.integer("num_classes");
  if (classes < 0)
    e.op.refuse("num_classes is not given, so that the shape depends on values of the input");
  e.give(e.graph.node(
      "OneHot", {e.as(0, kInt64), e.graph.scalar(classes, kInt64), e.graph.integers({0, 1})}));
}
void export_gather(Exported& e) {
  const auto dim = static_cast<std::size_t>(normalized(e, e.op.integer("dim")));
  for (std::size_t d = 0; d < e.input(0).shape.size(); ++d)
    if (d != dim && e.input(0).shape[d] != e.input(1).shape[d])
      e.op.refuse("the index is smaller than the tensor in another dimension");
  e.give(
      e.graph.node("GatherElements", {e.inputs[0], e.inputs[1]}, {{"axis", e.op.integer("dim")}}));
}

}  // namespace

const ExporterTable& shape_exporters() {
  static const ExporterTable table{
      {"reshape", export_reshape},     {"flatten", export_reshape},
      {"squeeze", export_squeeze},     {"unsqueeze", export_unsqueeze},
      {"transpose", export_transpose}, {"permute", export_permute},
      {"select", export_select},       {"slice", export_slice},
      {"split", export_split},         {"unbind", export_unbind},
      {"expand", export_expand},       {"cat", export_cat},
      {"stack", export_stack},         {"flip", export_flip},
      {"roll", export_roll},           {"pad", export_pad},
      {"tril", export_triangle},       {"triu", export_triangle},
      {"gather", export_gather},       {"index_select", export_index_select},
      {"nonzero", export_nonzero},     {"one_hot", export_one_hot},
  };
  return table;
}

}  // namespace ferrite::onnx
