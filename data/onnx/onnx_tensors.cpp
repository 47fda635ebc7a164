#include "ferrite/data/onnx/onnx_tensors.h"

#include "ferrite/data/onnx/onnx_file.h"

namespace ferrite::data {

namespace {

std::string type_text(const pb::ValueInfoProto& value) {
  if (!value.type().has_tensor_type()) return "no tensor";
  const auto& type = value.type().tensor_type();
  std::string shape;
  for (const auto& dim : type.shape().dim()) {
    if (!shape.empty()) shape += ", ";
    shape += dim.has_dim_value()   ? std::to_string(dim.dim_value())
             : dim.has_dim_param() ? dim.dim_param()
                                   : "?";
  }
  return fmt::format("{}[{}]", onnx_type_name(type.elem_type()), shape);
}

OnnxContents contents_of(const OnnxFile& file) {
  const pb::ModelProto& model = file.model();
  const pb::GraphProto& graph = model.graph();
  OnnxContents out;
  const auto add = [&](std::string name, std::string text) {
    out.facts.emplace_back(std::move(name), std::move(text));
  };
  add("ir_version", std::to_string(model.ir_version()));
  if (!model.producer_name().empty())
    add("producer", model.producer_name() + " " + model.producer_version());
  for (const auto& opset : model.opset_import())
    add("opset." + (opset.domain().empty() ? "ai.onnx" : opset.domain()),
        std::to_string(opset.version()));
  for (const auto& input : graph.input()) add("input." + input.name(), type_text(input));
  for (const auto& output : graph.output()) add("output." + output.name(), type_text(output));
  add("nodes", std::to_string(graph.node_size()));
  for (const pb::TensorProto& t : graph.initializer()) {
    if (t.name().empty() || out.tensors.contains(t.name()))
      fail<IoError>("read_onnx", "initializer '{}' has no name of its own", t.name());
    out.tensors.insert(t.name(), file.tensor(t));
  }
  return out;
}

}  // namespace

OnnxContents read_onnx_contents(const std::filesystem::path& path) {
  return contents_of(OnnxFile(path, "read_onnx"));
}

OnnxContents read_onnx_contents(Bytes bytes) { return contents_of(OnnxFile(bytes, "read_onnx")); }

}  // namespace ferrite::data
