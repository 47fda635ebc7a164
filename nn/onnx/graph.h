// A network that was read from an ONNX file, and how it is run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/data/onnx/onnx_file.h"
#include "ferrite/nn/module.h"

namespace ferrite::onnx {

namespace pb = data::pb;

struct Kernel;

/// A node, with its attributes as they are in the file.
struct Node {
  std::string name, type;
  std::vector<int> inputs, outputs;  ///< numbers of values; -1 where left out
  std::map<std::string, pb::AttributeProto> attributes;
  std::map<std::string, Tensor> tensors;  ///< attributes that are
  const Kernel* kernel = nullptr;
  std::vector<int> last;  ///< values that nothing reads afterwards

  /// Throws ValueError with the node's type and name.
  [[noreturn]] void refuse(const std::string& reason) const;
};

/// A node that runs.
class Call {
 public:
  Call(const Node& node, std::vector<Tensor> inputs, bool training, int opset)
      : node(node), training(training), opset(opset), inputs_(std::move(inputs)) {}

  const Node& node;
  const bool training;
  const int opset;

  std::size_t count() const { return inputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i].defined(); }
  const Tensor& operator[](std::size_t i) const { return inputs_[i]; }
  const std::vector<Tensor>& all() const { return inputs_; }
  /// Input i, or an undefined tensor.
  Tensor optional(std::size_t i) const { return has(i) ? inputs_[i] : Tensor(); }
  /// Input i as numbers on the host.
  std::vector<std::int64_t> integers(std::size_t i) const;
  double number(std::size_t i, double otherwise) const;

  bool given(const char* name) const { return node.attributes.contains(name); }
  std::int64_t integer(const char* name, std::int64_t otherwise) const;
  double real(const char* name, double otherwise) const;
  std::string text(const char* name, const std::string& otherwise) const;
  std::vector<std::int64_t> list(const char* name,
                                 const std::vector<std::int64_t>& otherwise = {}) const;
  /// Numbers that newer opsets give as input i, and older ones as an attribute.
  std::vector<std::int64_t> list_or_input(const char* name, std::size_t i) const;
  /// A dimension of input i, from the front; IndexError outside.
  int dim(std::int64_t dim, std::size_t i = 0) const;

 private:
  const pb::AttributeProto* find(const char* name, int type) const;
  std::vector<Tensor> inputs_;
};

/// How nodes of one type are run.
struct Kernel {
  int least, most;  ///< number of inputs
  int outputs;      ///< most of them
  std::vector<std::string_view> attributes;
  std::vector<Tensor> (*run)(const Call& call);
};
using KernelTable = std::map<std::string, Kernel, std::less<>>;
const KernelTable& elementwise_kernels();
const KernelTable& layer_kernels();
const KernelTable& reduction_kernels();
const KernelTable& shape_kernels();
const KernelTable& recurrent_kernels();
/// Null for other types.
const Kernel* find_kernel(const std::string& type);

struct InputType {
  std::string name;
  DType dtype = kFloat32;
  bool has_shape = false;
  std::vector<std::int64_t> shape;  ///< -1: any
  int value = 0;
};

class Graph {
 public:
  explicit Graph(const data::OnnxFile& file);
  /// For another module, with the tensors that this one's has now.
  std::unique_ptr<Graph> copy() const;

  /// Gives the parameters and buffers to `module`, under their names.
  void give_tensors(nn::Module& module);
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, bool training) const;

  const std::vector<InputType>& inputs() const { return inputs_; }
  const std::vector<std::string>& input_names() const { return input_names_; }
  const std::vector<std::string>& output_names() const { return output_names_; }
  std::size_t size() const { return nodes_.size(); }

 private:
  enum class Role : std::uint8_t { constant, parameter, buffer };
  struct Initializer {
    std::string name;
    Tensor tensor;
    Role role = Role::constant;
    bool trains = true;             ///< as a parameter
    const Tensor* place = nullptr;  ///< in the module
    int value = 0;
  };

  int define(const std::string& name, const std::string& by);
  void read_initializers(const data::OnnxFile& file);
  void read_node(const pb::NodeProto& proto, const data::OnnxFile& file);
  void find_roles();
  void find_last_uses();
  /// Whether a parameter or buffer is of this type.
  bool has_tensors_of(DType dtype) const;

  int opset_ = 0;
  std::map<std::string, int, std::less<>> numbers_;  // of values by name
  std::vector<Node> nodes_;
  std::vector<Initializer> initializers_;
  std::vector<InputType> inputs_;
  std::vector<std::string> input_names_, output_names_;
  std::vector<int> outputs_;
};

}  // namespace ferrite::onnx
