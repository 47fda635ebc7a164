#include "ferrite/nn/onnx/graph.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "ferrite/autograd/autocast.h"
#include "ferrite/nn/onnx/onnx.h"

namespace ferrite::onnx {

namespace {

constexpr const char* kLoadOp = "onnx::load";
constexpr int kOldest = 13, kNewest = 23;

/// A submodule that only holds what has names below its own.
class Part : public nn::Module {
 public:
  std::string name() const override { return "Part"; }
};

/// Functions that visit all modules recurse once for each part of a name.
constexpr std::ptrdiff_t kMostParts = 64;

/// Whether the parts of `name`, between its dots, can be names of modules and of a tensor.
bool has_parts(std::string_view name) {
  return !name.starts_with('.') && !name.ends_with('.') &&
         name.find("..") == std::string_view::npos && std::ranges::count(name, '.') < kMostParts;
}

/// Names that differ.
class Names {
 public:
  bool take(const std::string& name) { return taken_.insert(name).second; }
  /// `name`, or if it is taken, one that begins with it.
  std::string unlike(const std::string& name) {
    if (take(name)) return name;
    // Each search continues where the last one ended. Numbers keep names short that many tensors
    // would have.
    for (int& tries = tries_[name];;) {
      ++tries;
      const std::string other = name + (tries == 1   ? "/"
                                        : tries == 2 ? "//"
                                                     : fmt::format("//{}", tries));
      if (take(other)) return other;
    }
  }

 private:
  std::set<std::string> taken_;
  std::map<std::string, int> tries_;
};

}  // namespace

// ---- Node, Call

void Node::refuse(const std::string& reason) const {
  fail<ValueError>("onnx", "node '{}' of type {}: {}", name, type, reason);
}

std::vector<std::int64_t> Call::integers(std::size_t i) const {
  return inputs_[i].to(kInt64).to_vector<std::int64_t>();
}

double Call::number(std::size_t i, double otherwise) const {
  return has(i) ? inputs_[i].item<double>() : otherwise;
}

const pb::AttributeProto* Call::find(const char* name, int type) const {
  const auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return nullptr;
  if (found->second.type() != type)
    node.refuse(fmt::format("attribute {} is of another type", name));
  return &found->second;
}

std::int64_t Call::integer(const char* name, std::int64_t otherwise) const {
  const auto* const a = find(name, pb::AttributeProto::INT);
  return a ? a->i() : otherwise;
}
double Call::real(const char* name, double otherwise) const {
  const auto* const a = find(name, pb::AttributeProto::FLOAT);
  return a ? static_cast<double>(a->f()) : otherwise;
}
std::string Call::text(const char* name, const std::string& otherwise) const {
  const auto* const a = find(name, pb::AttributeProto::STRING);
  return a ? a->s() : otherwise;
}
std::vector<std::int64_t> Call::list(const char* name,
                                     const std::vector<std::int64_t>& otherwise) const {
  const auto* const a = find(name, pb::AttributeProto::INTS);
  return a ? std::vector<std::int64_t>(a->ints().begin(), a->ints().end()) : otherwise;
}
std::vector<std::int64_t> Call::list_or_input(const char* name, std::size_t i) const {
  return has(i) ? integers(i) : list(name);
}

int Call::dim(std::int64_t dim, std::size_t i) const {
  return normalize_dim(dim, inputs_[i].dim(), node.type);
}

const Kernel* find_kernel(const std::string& type) {
  for (const KernelTable* table : {&elementwise_kernels(), &layer_kernels(), &reduction_kernels(),
                                   &shape_kernels(), &recurrent_kernels()})
    if (const auto found = table->find(type); found != table->end()) return &found->second;
  return nullptr;
}

// ---- Reading

int Graph::define(const std::string& name, const std::string& by) {
  const int number = static_cast<int>(numbers_.size());
  FERRITE_CHECK(!name.empty() && numbers_.emplace(name, number).second, ValueError, kLoadOp,
                "{} defines '{}', which has no name or is defined before", by, name);
  return number;
}

Graph::Graph(const data::OnnxFile& file) {
  const pb::ModelProto& model = file.model();
  const pb::GraphProto& graph = model.graph();
  for (const auto& opset : model.opset_import())
    if (opset.domain().empty() || opset.domain() == "ai.onnx")
      opset_ = static_cast<int>(std::clamp<std::int64_t>(opset.version(), 0, 1000));
  FERRITE_CHECK(opset_ >= kOldest && opset_ <= kNewest, ValueError, kLoadOp,
                "the model uses opset {}; {} to {} are read", opset_, kOldest, kNewest);
  FERRITE_CHECK(graph.sparse_initializer_size() == 0, ValueError, kLoadOp,
                "the model has sparse initializers, which are not read");

  read_initializers(file);
  std::set<std::string> given;
  for (const Initializer& i : initializers_) given.insert(i.name);
  for (const auto& input : graph.input()) {
    if (given.contains(input.name())) continue;
    InputType type;
    type.name = input.name();
    FERRITE_CHECK(input.type().has_tensor_type(), ValueError, kLoadOp, "input '{}' is no tensor",
                  input.name());
    const auto& tensor = input.type().tensor_type();
    type.dtype = data::dtype_of_onnx(tensor.elem_type(), kLoadOp, "input '" + input.name() + "'");
    type.has_shape = tensor.has_shape();
    for (const auto& dim : tensor.shape().dim())
      type.shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
    type.value = define(input.name(), "the list of inputs");
    input_names_.push_back(input.name());
    inputs_.push_back(std::move(type));
  }
  for (const auto& node : graph.node()) read_node(node, file);
  FERRITE_CHECK(graph.output_size() > 0, ValueError, kLoadOp, "the model has no output");
  for (const auto& output : graph.output()) {
    const auto found = numbers_.find(output.name());
    FERRITE_CHECK(found != numbers_.end(), ValueError, kLoadOp, "nothing defines the output '{}'",
                  output.name());
    outputs_.push_back(found->second);
    output_names_.push_back(output.name());
  }
  find_roles();
  find_last_uses();
}

void Graph::read_initializers(const data::OnnxFile& file) {
  for (const auto& proto : file.model().graph().initializer()) {
    Initializer i;
    i.name = proto.name();
    i.tensor = file.tensor(proto);
    i.value = define(proto.name(), "the list of initializers");
    initializers_.push_back(std::move(i));
  }
}

void Graph::read_node(const pb::NodeProto& proto, const data::OnnxFile& file) {
  Node node;
  node.name = proto.name().empty() && proto.output_size() > 0 ? proto.output(0) : proto.name();
  node.type = proto.op_type();
  const bool standard = proto.domain().empty() || proto.domain() == "ai.onnx";
  node.kernel = standard ? find_kernel(node.type) : nullptr;
  if (!node.kernel)
    fail<ValueError>(kLoadOp, "node '{}' is of type {}{}, which is not read", node.name,
                     standard ? "" : proto.domain() + ".", node.type);
  if (proto.input_size() < node.kernel->least || proto.input_size() > node.kernel->most)
    node.refuse(fmt::format("expected {} to {} inputs, got {}", node.kernel->least,
                            node.kernel->most, proto.input_size()));
  int outputs = 0;
  for (int i = 0; i < proto.output_size(); ++i)
    if (!proto.output(i).empty()) outputs = i + 1;
  if (outputs == 0 || outputs > node.kernel->outputs)
    node.refuse(fmt::format("expected up to {} outputs, got {}", node.kernel->outputs, outputs));
  for (const auto& a : proto.attribute()) {
    if (std::ranges::find(node.kernel->attributes, a.name()) == node.kernel->attributes.end())
      node.refuse(fmt::format("attribute {} is not read", a.name()));
    if (!a.ref_attr_name().empty()) node.refuse("an attribute refers to that of a function");
    if (a.type() == pb::AttributeProto::TENSOR) node.tensors[a.name()] = file.tensor(a.t());
    pb::AttributeProto& kept = node.attributes[a.name()] = a;
    kept.clear_t();
  }
  for (int i = 0; i < proto.input_size(); ++i) {
    const std::string& name = proto.input(i);
    const auto found = numbers_.find(name);
    if (!name.empty() && found == numbers_.end())
      node.refuse(fmt::format("reads '{}', which nothing before it defines", name));
    if (name.empty() && i < node.kernel->least) node.refuse(fmt::format("input {} is left out", i));
    node.inputs.push_back(name.empty() ? -1 : found->second);
  }
  for (int i = 0; i < outputs; ++i)
    node.outputs.push_back(proto.output(i).empty()
                               ? -1
                               : define(proto.output(i), fmt::format("node '{}'", node.name)));
  nodes_.push_back(std::move(node));
}

/// What is trained: floating numbers of a dimension or more, but for running statistics, and for
/// factors and sizes that steer an op.
void Graph::find_roles() {
  std::map<int, Initializer*> by_value;
  for (Initializer& i : initializers_) {
    by_value[i.value] = &i;
    if (is_floating(i.tensor.dtype()) && i.tensor.dim() > 0) i.role = Role::parameter;
  }
  for (const Node& node : nodes_)
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto found = by_value.find(node.inputs[i]);
      if (found == by_value.end() || found->second->role == Role::constant) continue;
      if (node.type == "BatchNormalization" && i >= 3) found->second->role = Role::buffer;
      const bool steers = node.type == "Resize" || node.type == "Clip" || node.type == "Pad" ||
                          node.type == "Dropout" || node.type == "Range";
      if (steers && i > 0) found->second->role = Role::constant;
    }
}

void Graph::find_last_uses() {
  std::vector<int> last(numbers_.size(), -1);
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    for (const int v : nodes_[n].outputs)
      if (v >= 0) last[static_cast<std::size_t>(v)] = static_cast<int>(n);
    for (const int v : nodes_[n].inputs)
      if (v >= 0) last[static_cast<std::size_t>(v)] = static_cast<int>(n);
  }
  for (const int v : outputs_) last[static_cast<std::size_t>(v)] = -1;
  for (std::size_t v = 0; v < last.size(); ++v)
    if (last[v] >= 0) nodes_[static_cast<std::size_t>(last[v])].last.push_back(static_cast<int>(v));
}

void Graph::give_tensors(nn::Module& module) {
  // Modules by the one that they are in and their name there, which refers to initializers_.
  std::map<std::pair<nn::Module*, std::string_view>, nn::Module*> parts;
  struct Place {
    nn::Module* owner = nullptr;
    std::string_view name;
  };
  std::vector<Place> places(initializers_.size());
  for (std::size_t n = 0; n < places.size(); ++n) {
    const Initializer& i = initializers_[n];
    if (i.role == Role::constant || !has_parts(i.name)) continue;
    Place& place = places[n] = {&module, i.name};
    for (std::size_t dot; (dot = place.name.find('.')) != std::string_view::npos;) {
      const std::string_view name = place.name.substr(0, dot);
      nn::Module*& part = parts[{place.owner, name}];
      if (!part) part = &place.owner->register_module(std::string(name), std::make_unique<Part>());
      place = {part, place.name.substr(dot + 1)};
    }
  }
  // Other tensors, and those with the name of a part ("a" beside "a.b"), get names of the network
  // itself that no tensor or part has: "a/", "a/b".
  Names names;
  for (const auto& [place, part] : parts)
    if (place.first == &module) names.take(std::string(place.second));
  for (const Initializer& i : initializers_)
    if (i.name.find('.') == std::string::npos) names.take(i.name);
  for (std::size_t n = 0; n < places.size(); ++n) {
    Initializer& i = initializers_[n];
    if (i.role == Role::constant) continue;
    const Place& place = places[n];
    const bool plain = place.owner && !parts.contains({place.owner, place.name});
    nn::Module& owner = plain ? *place.owner : module;
    std::string name(plain ? place.name : i.name);
    if (!plain) {
      std::ranges::replace(name, '.', '/');
      name = names.unlike(name);
    }
    i.place = i.role == Role::parameter ? &owner.add_parameter(std::move(name), i.tensor, i.trains)
                                        : &owner.add_buffer(std::move(name), i.tensor);
  }
}

std::unique_ptr<Graph> Graph::copy() const {
  auto other = std::make_unique<Graph>(*this);
  for (Initializer& i : other->initializers_)
    if (const Tensor* const now = std::exchange(i.place, nullptr)) {
      i.tensor = *now;
      i.trains = now->requires_grad();
    }
  return other;
}

// ---- Running

namespace {

/// Constants of the graph are on the host; beside tensors of a device, factors and masks are moved
/// there. Integers steer ops, which read them.
void move_constants(std::vector<Tensor>& inputs) {
  const auto on_device = std::ranges::find_if(
      inputs, [](const Tensor& t) { return t.defined() && !t.device().is_host(); });
  if (on_device == inputs.end()) return;
  const Device device = on_device->device();
  for (Tensor& t : inputs)
    if (t.defined() && t.dim() > 0 && (is_floating(t.dtype()) || t.dtype() == kBool))
      t = t.to(device);
}

}  // namespace

bool Graph::has_tensors_of(DType dtype) const {
  return std::ranges::any_of(
      initializers_, [&](const Initializer& i) { return i.place && i.place->dtype() == dtype; });
}

std::vector<Tensor> Graph::run(const std::vector<Tensor>& inputs, bool training) const {
  constexpr const char* op = "onnx::Network";
  FERRITE_CHECK(inputs.size() == inputs_.size(), ValueError, op, "expected {} inputs, got {}",
                inputs_.size(), inputs.size());
  std::vector<Tensor> values(numbers_.size());
  for (const Initializer& i : initializers_)
    values[static_cast<std::size_t>(i.value)] = i.place ? *i.place : i.tensor;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const InputType& type = inputs_[k];
    const Tensor& t = inputs[k];
    FERRITE_CHECK(t.defined(), ValueError, op, "input '{}' is undefined", type.name);
    // Inputs have the type of a network that was converted, and that of a region of autocast.
    const bool other_type = is_floating(t.dtype()) && is_floating(type.dtype) &&
                            (has_tensors_of(t.dtype()) || autograd::autocast_state());
    FERRITE_CHECK(t.dtype() == type.dtype || other_type, DTypeError, op,
                  "input '{}': expected {}, got {}; convert it with to({})", type.name, type.dtype,
                  t.describe(), type.dtype);
    bool fits = !type.has_shape || t.dim() == static_cast<int>(type.shape.size());
    for (int d = 0; type.has_shape && fits && d < t.dim(); ++d) {
      const std::int64_t size = type.shape[static_cast<std::size_t>(d)];
      fits = size < 0 || size == t.size(d);
    }
    if (!fits) {
      std::string wanted;
      for (const std::int64_t size : type.shape)
        wanted +=
            (wanted.empty() ? "" : ", ") + (size < 0 ? std::string("*") : std::to_string(size));
      fail<ShapeError>(op, "input '{}': expected [{}], got {}", type.name, wanted, t.describe());
    }
    values[static_cast<std::size_t>(type.value)] = t;
  }
  for (const Node& node : nodes_) {
    std::vector<Tensor> given;
    for (const int v : node.inputs)
      given.push_back(v < 0 ? Tensor() : values[static_cast<std::size_t>(v)]);
    move_constants(given);
    std::vector<Tensor> results;
    try {
      results = node.kernel->run(Call(node, std::move(given), training, opset_));
    } catch (Error& error) {
      error.set_path(fmt::format("node '{}' of type {}", node.name, node.type).c_str());
      throw;
    }
    if (results.size() < node.outputs.size()) node.refuse("it gives fewer outputs than are named");
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] >= 0) values[static_cast<std::size_t>(node.outputs[i])] = results[i];
    for (const int v : node.last) values[static_cast<std::size_t>(v)] = Tensor();
  }
  std::vector<Tensor> results;
  for (const int v : outputs_) results.push_back(values[static_cast<std::size_t>(v)]);
  return results;
}

// ---- Network

Network::Network(std::unique_ptr<Graph> graph) : graph_(std::move(graph)) {
  graph_->give_tensors(*this);
}
Network::~Network() = default;

Tensor Network::forward(const Tensor& input) {
  FERRITE_CHECK(graph_->inputs().size() == 1, ValueError, "onnx::Network",
                "the network has {} inputs; call run()", graph_->inputs().size());
  return run({input})[0];
}

std::unique_ptr<nn::Module> Network::copy() const {
  auto network = std::make_unique<Network>(graph_->copy());
  network->train(is_training());
  return network;
}

std::unique_ptr<Network> Network::clone() const {
  return std::unique_ptr<Network>(static_cast<Network*>(Module::clone().release()));
}

std::vector<Tensor> Network::run(const std::vector<Tensor>& inputs) {
  return graph_->run(inputs, is_training());
}

const std::vector<std::string>& Network::input_names() const { return graph_->input_names(); }
const std::vector<std::string>& Network::output_names() const { return graph_->output_names(); }

std::string Network::extra_repr() const { return fmt::format("{} nodes", graph_->size()); }

std::unique_ptr<Network> load(const std::filesystem::path& path) {
  auto network = std::make_unique<Network>(std::make_unique<Graph>(data::OnnxFile(path, kLoadOp)));
  network->eval();
  return network;
}

}  // namespace ferrite::onnx
