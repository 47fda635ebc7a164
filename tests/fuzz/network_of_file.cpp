// What onnx::load makes of a file: the network, built, run on small inputs and run backward. In
// builds that have ONNX's description of files.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "ferrite/core/allocator.h"
#include "ferrite/data/onnx/onnx_file.h"
#include "ferrite/nn/conv.h"
#include "ferrite/nn/onnx/graph.h"
#include "ferrite/nn/onnx/onnx.h"
#include "ferrite/nn/recurrent.h"
#include "ferrite/nn/transformer.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/fuzz/fuzz.h"

namespace ferrite::fuzz {
namespace {

// A network may ask for any amount of memory and work; tensors of this size bound both.
constexpr std::size_t kTensors = std::size_t{1} << 20;
constexpr std::size_t kNodes = 64;
constexpr std::int64_t kElements = 4096;  // of an input

Tensor input_of(const onnx::InputType& type) {
  Shape shape;
  std::int64_t elements = 1;
  for (const std::int64_t size : type.shape) {
    shape.push_back(size < 0 ? 2 : size);
    if (__builtin_mul_overflow(elements, shape[shape.size() - 1], &elements) ||
        elements > kElements)
      return {};
  }
  return full(shape, 1, {.dtype = type.dtype, .device = kCPU});
}

void run_network(data::Bytes bytes) {
  auto graph = std::make_unique<onnx::Graph>(data::OnnxFile(bytes, "onnx::load"));
  const onnx::Graph& built = *graph;
  onnx::Network network(std::move(graph));
  network.eval();
  if (built.size() > kNodes) return;
  allocator(kCPU).set_limit(kTensors);
  std::vector<Tensor> inputs;
  for (const onnx::InputType& type : built.inputs()) {
    if (type.shape.size() > static_cast<std::size_t>(kMaxDims)) return;
    inputs.push_back(input_of(type));
    if (!inputs.back().defined()) return;
  }
  for (const Tensor& output : network.run(inputs))
    if (output.requires_grad()) sum(output).backward();
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A node of each type that is read, on two numbers of an input and lists of small integers.
std::string model_of(const std::string& type, const onnx::Kernel& kernel, bool integers) {
  data::pb::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto& graph = *model.mutable_graph();
  auto& input = *graph.add_input();
  input.set_name("x");
  auto& tensor = *input.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(1);
  for (const int size : {1, 2, 3, 3}) tensor.mutable_shape()->add_dim()->set_dim_value(size);
  auto& node = *graph.add_node();
  node.set_op_type(type);
  for (int i = 0; i < std::max(kernel.least, std::min(kernel.most, 2)); ++i) {
    const std::string name = i == 0 ? "x" : fmt::format("w{}", i);
    node.add_input(name);
    if (i == 0) continue;
    *graph.add_initializer() = data::onnx_tensor(
        name, integers ? from_vector<std::int64_t>({1, 2, 1, 1}, {4}) : ones({2, 2, 1, 1}));
  }
  node.add_output("y");
  graph.add_output()->set_name("y");
  return model.SerializeAsString();
}

std::vector<std::string> seeds_of_network() {
  std::vector<std::string> seeds;
  for (const auto* const table : {&onnx::elementwise_kernels(), &onnx::layer_kernels(),
                                  &onnx::shape_kernels(), &onnx::recurrent_kernels()})
    for (const auto& [type, kernel] : *table)
      for (const bool integers : {false, true}) seeds.push_back(model_of(type, kernel, integers));
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("ferrite_fuzz.{}.onnx", getpid());
  const auto add = [&](auto& network, const Tensor& example, bool dynamic) {
    onnx::save(
        network,
        [&](const std::vector<Tensor>& in) { return onnx::detail::tensors_in(network(in[0])); },
        {example}, path, {.dynamic_batch = dynamic});
    seeds.push_back(bytes_of(path));
  };
  nn::Conv2d conv(2, 3, 3, {.padding = 1});
  add(conv, randn({2, 2, 4, 4}), true);
  nn::LSTM lstm(3, 2, {.batch_first = true, .bidirectional = true});
  add(lstm, randn({2, 3, 3}), false);
  nn::TransformerEncoderLayer layer(4, 2, {.dim_feedforward = 4, .batch_first = true});
  add(layer, randn({2, 3, 4}), true);
  std::filesystem::remove(path);
  for (const char* name : {"resnet18", "mobilenet_v2_dynamo", "vit", "recurrent"})
    seeds.push_back(bytes_of(std::filesystem::path(FERRITE_SOURCE_DIR) / "tests/golden/onnx" /
                             fmt::format("{}.onnx", name)));
  return seeds;
}

const Registered kNetwork({.name = "network",
                           .run = run_network,
                           .seeds = seeds_of_network,
                           .microseconds_per_byte = 100,
                           .memory_per_byte = 2000,
                           .seconds = 5,
                           .memory = kProtobufMemory});

}  // namespace
}  // namespace ferrite::fuzz
