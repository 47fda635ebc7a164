#include "ferrite/autograd/engine.h"

#include "ferrite/autograd/captured.h"
#include "ferrite/autograd/meta.h"
#include "ferrite/autograd/pass.h"
#include "ferrite/autograd/record.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/kernels/copy.h"

namespace ferrite::autograd {

namespace {

/// The gradient from which a pass starts at `output`, which requires one.
Tensor root_gradient(const Tensor& output, const Tensor& given) {
  if (given.defined()) {
    FERRITE_CHECK(given.shape() == output.shape(), ShapeError, "backward",
                  "the tensor is {}, its gradient {}", output.describe(), given.describe());
    FERRITE_CHECK(given.device() == output.device(), DeviceError, "backward",
                  "the tensor is {}, its gradient {}", output.describe(), given.describe());
    if (given.dtype() == output.dtype()) return given;
    FERRITE_CHECK(is_floating(given.dtype()) && is_floating(output.dtype()) &&
                      !(running_create_graph && given.requires_grad()),
                  DTypeError, "backward", "the tensor is {}, its gradient {}; convert it with to()",
                  output.describe(), given.describe());
    const Tensor converted = empty_like(output);
    kernels::copy(current_stream(output.device()), converted, given);
    return converted;
  }
  FERRITE_CHECK(output.numel() == 1, ShapeError, "backward",
                "without a gradient argument the tensor must have one element, got {}",
                output.describe());
  const profiler::OpRange range("ones_like", output);
  Tensor one = empty_like(output);
  kernels::fill(current_stream(output.device()), one, 1);
  return one;
}

void add_root(Pass& pass, const Tensor& output, const Tensor& given, bool all_nodes,
              bool retain_graph) {
  FERRITE_CHECK(output.defined() && output.requires_grad(), AutogradError, "backward",
                "{} does not require a gradient and was not made from tensors that do",
                output.describe());
  const Edge edge = gradient_edge(output);
  // The pass takes gradients of roots for made on the current stream.
  if (!all_nodes && !given.defined() && output.numel() == 1 && edge.node &&
      !edge.node->has_hooks() && edge.node->stream == current_stream(output.device()))
    if (const Tensor known = edge.node->gradient_of_one(); known.defined()) {
      if (!retain_graph) pass.at_end([node = edge.node] { node->release_saved(); });
      return pass.add_root(edge.node->edges[0], known);
    }
  pass.add_root(edge, root_gradient(output, given));
}

void check_counts(std::size_t outputs, std::size_t gradients) {
  FERRITE_CHECK(gradients == 0 || gradients == outputs, ValueError, "backward",
                "{} gradients for {} tensors", gradients, outputs);
}

}  // namespace

bool creating_graph() { return running_create_graph; }

bool accumulates() { return running_pass && running_pass->accumulates(); }

bool accumulates_into(const Tensor& leaf) { return accumulates() && running_pass->leads_to(leaf); }

Tensor take_partial(std::size_t input) {
  const Node* const node = current_node();
  return running_pass && node ? running_pass->take_partial(*node, input) : Tensor();
}

void queue_callback(std::function<void()> f) {
  FERRITE_CHECK(running_pass, AutogradError, "queue_callback",
                "no backward pass runs in this thread");
  running_pass->at_end(std::move(f));
}

std::span<const Tensor> captured_gradients() {
  FERRITE_CHECK(running_pass, AutogradError, "captured_gradients",
                "no backward pass runs in this thread");
  return running_pass->captured();
}

void once_differentiable() {
  FERRITE_CHECK(!running_create_graph, AutogradError,
                current_node() ? current_node()->name : "backward",
                "its gradient cannot be differentiated again (create_graph)");
}

void backward(TensorList outputs, TensorList gradients, std::optional<bool> retain_graph,
              bool create_graph) {
  check_counts(outputs.size(), gradients.size());
  const bool retains = retain_graph.value_or(create_graph);
  Pass pass(retains || create_graph, create_graph, true);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    add_root(pass, outputs[i], gradients.empty() ? Tensor() : gradients[i], create_graph, retains);
  pass.run();
}

std::vector<Tensor> grad(TensorList outputs, TensorList inputs, TensorList gradients,
                         std::optional<bool> retain_graph, bool create_graph, bool allow_unused) {
  check_counts(outputs.size(), gradients.size());
  Pass pass(retain_graph.value_or(false) || create_graph, create_graph, false);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    add_root(pass, outputs[i], gradients.empty() ? Tensor() : gradients[i], true, true);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    FERRITE_CHECK(inputs[i].defined() && inputs[i].requires_grad(), AutogradError, "grad",
                  "input {} ({}) does not require a gradient", i, inputs[i].describe());
    pass.capture(gradient_edge(inputs[i]), i);
  }
  pass.run();
  std::vector<Tensor> result = std::move(pass.captured());
  result.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    FERRITE_CHECK(result[i].defined() || allow_unused, AutogradError, "grad",
                  "the outputs do not depend on input {} ({}); pass allow_unused for an undefined "
                  "gradient instead",
                  i, inputs[i].describe());
  return result;
}

}  // namespace ferrite::autograd
