// Models made node by node.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/data/onnx/onnx_file.h"
#include "ferrite/nn/onnx/onnx.h"
#include "ferrite/tests/data/files.h"

// In a namespace of its own, in which onnx is not that of ONNX's headers.
namespace ferrite::test {

namespace pb = data::pb;

class Model {
 public:
  Model() {
    proto_.set_ir_version(8);
    proto_.add_opset_import()->set_version(17);
  }
  void input(const char* name, DType dtype) {
    auto& input = *proto_.mutable_graph()->add_input();
    input.set_name(name);
    input.mutable_type()->mutable_tensor_type()->set_elem_type(data::onnx_dtype(dtype));
  }
  pb::TensorProto& initializer(const std::string& name, const Tensor& tensor) {
    auto& all = *proto_.mutable_graph()->mutable_initializer();
    return *all.Add() = data::onnx_tensor(name, tensor);
  }
  pb::NodeProto& node(const char* type, const std::vector<std::string>& inputs,
                      const std::string& output) {
    auto& node = *proto_.mutable_graph()->add_node();
    node.set_op_type(type);
    for (const std::string& name : inputs) node.add_input(name);
    node.add_output(output);
    return node;
  }
  /// With a node's result as an output.
  std::unique_ptr<onnx::Network> load(const std::vector<std::string>& outputs) {
    for (const std::string& name : outputs) proto_.mutable_graph()->add_output()->set_name(name);
    write_file(path(), proto_.SerializeAsString());
    return onnx::load(path());
  }
  std::filesystem::path path() const { return dir_ / "net.onnx"; }

 private:
  TempDir dir_;
  pb::ModelProto proto_;
};

inline void set_integer(pb::NodeProto& node, const char* name, std::int64_t value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(pb::AttributeProto::INT);
  attribute.set_i(value);
}

inline void set_integers(pb::NodeProto& node, const char* name,
                         const std::vector<std::int64_t>& values) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(pb::AttributeProto::INTS);
  for (const std::int64_t value : values) attribute.add_ints(value);
}

inline void set_number(pb::NodeProto& node, const char* name, float value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(pb::AttributeProto::FLOAT);
  attribute.set_f(value);
}

inline void set_text(pb::NodeProto& node, const char* name, const char* value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(pb::AttributeProto::STRING);
  attribute.set_s(value);
}

template <class T>
Tensor list(const std::vector<T>& values) {
  return from_vector<T>(values, {static_cast<std::int64_t>(values.size())});
}

}  // namespace ferrite::test
