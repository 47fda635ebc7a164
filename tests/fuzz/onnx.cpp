// The reader of ONNX files, in builds that have ONNX's description of them.
#include "ferrite/core/tensor.h"
#include "ferrite/data/onnx/onnx_file.h"
#include "ferrite/data/onnx/onnx_tensors.h"
#include "ferrite/tests/fuzz/fuzz.h"

namespace ferrite::fuzz {
namespace {

void run_onnx(data::Bytes bytes) { data::read_onnx_contents(bytes); }

std::string model_of(int nodes, int weights, bool typed) {
  data::pb::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto& graph = *model.mutable_graph();
  for (int i = 0; i < nodes; ++i) {
    auto& node = *graph.add_node();
    node.set_op_type("Relu");
    node.add_input("x");
    node.add_output(fmt::format("y{}", i));
  }
  for (int i = 0; i < weights; ++i) {
    auto& tensor = *graph.add_initializer();
    tensor = data::onnx_tensor(fmt::format("w{}", i), from_vector<float>({1, 2, 3, 4}, {2, 2}));
    if (!typed) continue;
    tensor.clear_raw_data();
    for (int k = 0; k < 4; ++k) tensor.add_float_data(static_cast<float>(k));
  }
  auto& input = *graph.add_input();
  input.set_name("x");
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(1);
  type.mutable_shape()->add_dim()->set_dim_param("batch");
  *graph.add_output() = input;
  return model.SerializeAsString();
}

std::vector<std::string> seeds_of_onnx() {
  data::pb::ModelProto beside;
  beside.ParseFromString(model_of(1, 1, false));
  auto& tensor = *beside.mutable_graph()->mutable_initializer(0);
  tensor.clear_raw_data();
  tensor.set_data_location(data::pb::TensorProto::EXTERNAL);
  auto& entry = *tensor.add_external_data();
  entry.set_key("location");
  entry.set_value("../secret");
  return {model_of(2, 2, false), model_of(2, 2, true), model_of(20'000, 0, false),
          model_of(0, 5'000, true), beside.SerializeAsString()};
}

// An empty message of two bytes is an object of some hundred.
const Registered kOnnx({.name = "onnx",
                        .run = run_onnx,
                        .seeds = seeds_of_onnx,
                        .microseconds_per_byte = 10,
                        .memory_per_byte = 1000,
                        .memory = kProtobufMemory});

}  // namespace
}  // namespace ferrite::fuzz
