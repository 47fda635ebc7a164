#include "ferrite/nn/onnx/fold_batch_norm.h"

#include <algorithm>

#include "ferrite/nn/inference.h"

namespace ferrite::onnx {

void fold_batch_norms(Recording& recording) {
  const auto variable = [&](int number) -> Variable& {
    return recording.variables[static_cast<std::size_t>(number)];
  };
  std::vector<int> readers(recording.variables.size());
  for (const Operation& op : recording.operations)
    for (const int v : op.inputs)
      if (v != kNone) ++readers[static_cast<std::size_t>(v)];
  for (const int v : recording.outputs) ++readers[static_cast<std::size_t>(v)];
  const auto fixed = [&](const Operation& op, std::size_t from) {
    return std::all_of(op.inputs.begin() + static_cast<std::ptrdiff_t>(from), op.inputs.end(),
                       [&](int v) { return v == kNone || variable(v).is_constant(); });
  };

  std::vector<bool> folded(recording.operations.size());
  for (std::size_t i = 0; i < recording.operations.size(); ++i) {
    Operation& norm = recording.operations[i];
    if (norm.op != "batch_norm" || norm.flag("training") || !fixed(norm, 1) ||
        norm.inputs[1] == kNone || norm.inputs[2] == kNone)
      continue;
    const auto source = std::ranges::find_if(recording.operations, [&](const Operation& op) {
      return (op.op == "conv" || op.op == "linear") && op.outputs[0] == norm.inputs[0];
    });
    if (source == recording.operations.end() || !fixed(*source, 1) ||
        readers[static_cast<std::size_t>(norm.inputs[0])] != 1 ||
        variable(norm.inputs[0]).dim() != variable(source->inputs[1]).dim())
      continue;  // the last: without a batch, or with more dimensions, dim 1 is not the channels

    const auto value = [&](int v) { return v == kNone ? Tensor() : variable(v).tensor; };
    const nn::detail::FoldedNorm values = nn::detail::fold_norm(
        value(source->inputs[1]), value(source->inputs[2]), value(norm.inputs[1]),
        value(norm.inputs[2]), value(norm.inputs[3]), value(norm.inputs[4]), norm.number("eps"));
    const auto add = [&](int old, const char* name, const Tensor& tensor) {
      Variable changed{
          .kind = Variable::Kind::parameter, .name = {}, .shape = {}, .tensor = tensor};
      const bool named = old != kNone && variable(old).kind == Variable::Kind::parameter;
      changed.name =
          named ? variable(old).name
                : fmt::format("{}{}{}", source->path, source->path.empty() ? "" : ".", name);
      for (const std::int64_t size : tensor.shape()) changed.shape.push_back({0, size});
      recording.variables.push_back(std::move(changed));
      readers.push_back(1);
      return static_cast<int>(recording.variables.size()) - 1;
    };
    source->inputs[1] = add(source->inputs[1], "weight", values.weight);
    source->inputs[2] = add(source->inputs[2], "bias", values.bias);
    source->outputs[0] = norm.outputs[0];
    folded[i] = true;
  }
  std::vector<Operation> left;
  for (std::size_t i = 0; i < folded.size(); ++i)
    if (!folded[i]) left.push_back(std::move(recording.operations[i]));
  recording.operations = std::move(left);
}

}  // namespace ferrite::onnx
