// Building an ONNX graph node by node.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ferrite/data/onnx/onnx_file.h"
#include "ferrite/nn/onnx/recording.h"

namespace ferrite::onnx {

namespace pb = data::pb;

using AttributeValue = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>,
                                    std::vector<std::string>, Tensor>;
using NamedAttribute = std::pair<const char*, AttributeValue>;

/// Names of values are those of edges; an empty one is an input that is left out.
class Builder {
 public:
  Builder(pb::GraphProto& graph, int opset) : graph_(graph), opset_(opset) {}
  int opset() const { return opset_; }

  /// The path of the module whose ops follow: a part of the names of nodes.
  void enter(const std::string& path) { path_ = path; }

  /// Adds a node; gives the names of its outputs.
  std::vector<std::string> nodes(const char* type, const std::vector<std::string>& inputs,
                                 const std::vector<NamedAttribute>& attributes, int outputs);
  std::string node(const char* type, const std::vector<std::string>& inputs,
                   const std::vector<NamedAttribute>& attributes = {}) {
    return nodes(type, inputs, attributes, 1)[0];
  }

  /// Keeps a name for the tensor that parameter() writes under it.
  void reserve(const std::string& name);
  /// A tensor in the file, under the reserved name, or one like it for a second one.
  std::string parameter(const std::string& name, const Tensor& tensor);
  /// A tensor in the file, under this name or one like it that is free.
  std::string initializer(const std::string& name, const Tensor& tensor);
  /// A tensor that is no parameter, which readers may train.
  std::string constant(const Tensor& tensor);
  /// A list of integers; equal ones share an initializer.
  std::string integers(const std::vector<std::int64_t>& values);
  /// A tensor of no dimensions.
  std::string scalar(Scalar value, DType dtype);
  /// A list of `count` equal numbers.
  std::string filled(std::int64_t count, double value, DType dtype);

  /// Where the size of the batch is: dimension `dim` of `input`.
  void set_batch(const std::string& input, int dim) { batch_input_ = input, batch_dim_ = dim; }
  /// A list of sizes, for Reshape (where `infers`, and one of them alone depends on the batch, that
  /// is -1), Expand or Slice.
  std::string sizes(const Sizes& all, bool infers = false);

  std::string cast(const std::string& value, DType from, DType to);

  /// A name that no other value or node has.
  std::string fresh(const std::string& name);

 private:
  std::string batch();

  pb::GraphProto& graph_;
  int opset_;
  std::string path_, batch_input_, batch_;
  int batch_dim_ = 0;
  std::set<std::string> names_, reserved_;
  std::map<std::vector<std::int64_t>, std::string> lists_;
  std::map<std::string, std::string> scalars_;
  std::map<std::string, int> counts_;
};

/// An op on its way into the graph: the names of its inputs by position, and what it makes.
struct Exported {
  Builder& graph;
  const Operation& op;
  const std::vector<Variable>& variables;
  std::vector<std::string> inputs;   ///< "" where undefined
  std::vector<std::string> outputs;  ///< to be set

  const Variable& input(std::size_t i) const {
    return variables[static_cast<std::size_t>(op.inputs[i])];
  }
  const Variable& output(std::size_t i = 0) const {
    return variables[static_cast<std::size_t>(op.outputs[i])];
  }
  bool has(std::size_t i) const { return i < op.inputs.size() && op.inputs[i] != kNone; }
  /// Input i as a `dtype`.
  std::string as(std::size_t i, DType dtype) const {
    return graph.cast(inputs[i], input(i).dtype(), dtype);
  }
  void give(std::string name) { outputs[0] = std::move(name); }
  /// A dimension of input i, from the front; refuses sizes that depend on the batch.
  std::int64_t fixed_size(std::size_t i, int dim) const {
    const Size size = input(i).shape[static_cast<std::size_t>(dim)];
    if (!size.is_fixed())
      op.refuse(fmt::format("dimension {} depends on the size of the batch", dim));
    return size.fixed;
  }
};

using Exporter = void (*)(Exported&);
/// By the names under which ops report themselves; null for others.
Exporter find_exporter(const std::string& op);

using ExporterTable = std::map<std::string, Exporter, std::less<>>;
const ExporterTable& elementwise_exporters();
const ExporterTable& layer_exporters();
const ExporterTable& shape_exporters();
const ExporterTable& reduction_exporters();
void export_rnn(Exported& e);

}  // namespace ferrite::onnx
