#include "ferrite/interop/fold_batch_norm.h"

#include <algorithm>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/unary.h"

namespace ferrite::onnx {

void fold_batch_norms(Recording& recording) {
  const NoGradGuard no_grad;
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
        (source->op == "linear" && variable(norm.inputs[0]).dim() != 2))
      continue;

    const auto given = [&](int v, double otherwise, const Tensor& like) {
      return v == kNone ? full_like(like, otherwise) : variable(v).tensor.to(kFloat64);
    };
    const Tensor mean = variable(norm.inputs[1]).tensor.to(kFloat64);
    const Tensor factor = given(norm.inputs[3], 1, mean) *
                          rsqrt(variable(norm.inputs[2]).tensor.to(kFloat64) + norm.number("eps"));
    const Tensor weight = variable(source->inputs[1]).tensor;
    Shape columns = Shape::filled(weight.dim(), 1);
    columns[0] = weight.size(0);
    const Tensor bias =
        (given(source->inputs[2], 0, mean) - mean) * factor + given(norm.inputs[4], 0, mean);
    const auto add = [&](int old, const char* name, const Tensor& value) {
      Variable changed{.kind = Variable::Kind::parameter, .name = {}, .shape = {}, .tensor = value};
      const bool named = old != kNone && variable(old).kind == Variable::Kind::parameter;
      changed.name =
          named ? variable(old).name
                : fmt::format("{}{}{}", source->path, source->path.empty() ? "" : ".", name);
      for (const std::int64_t size : value.shape()) changed.shape.push_back({0, size});
      recording.variables.push_back(std::move(changed));
      readers.push_back(1);
      return static_cast<int>(recording.variables.size()) - 1;
    };
    source->inputs[1] = add(source->inputs[1], "weight",
                            (weight.to(kFloat64) * factor.reshape(columns)).to(weight.dtype()));
    source->inputs[2] = add(source->inputs[2], "bias", bias.to(weight.dtype()));
    source->outputs[0] = norm.outputs[0];
    folded[i] = true;
  }
  std::vector<Operation> left;
  for (std::size_t i = 0; i < folded.size(); ++i)
    if (!folded[i]) left.push_back(std::move(recording.operations[i]));
  recording.operations = std::move(left);
}

}  // namespace ferrite::onnx
