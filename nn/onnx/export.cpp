#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/version.h"
#include "ferrite/nn/onnx/builder.h"
#include "ferrite/nn/onnx/fold_batch_norm.h"
#include "ferrite/nn/onnx/onnx.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/unary.h"

namespace ferrite::onnx {

namespace {

/// Puts a module into evaluation mode, and all its parts back into theirs.
class Evaluating {
 public:
  explicit Evaluating(nn::Module& model) {
    for (nn::Module* const module : model.modules())
      modes_.emplace_back(module, module->is_training());
    model.eval();
  }
  ~Evaluating() {
    for (const auto& [module, training] : modes_) module->train(training);  // parents come first
  }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  std::vector<std::pair<nn::Module*, bool>> modes_;
};

/// The example with other values: rows from back to front, elements too, and noise on numbers that
/// are not integers. Integers, which may be classes or words, stay in their range.
Tensor varied(const Tensor& example, int batch_dim, std::int64_t batch, Generator& random) {
  const NoGradGuard no_grad;
  Tensor t = example.detach();
  if (batch_dim >= 0 && t.size(batch_dim) != batch) {
    Tensor rows = empty({batch}, {.dtype = kInt64, .device = kCPU});
    for (std::int64_t i = 0; i < batch; ++i) rows.data<std::int64_t>()[i] = i % t.size(batch_dim);
    t = t.index_select(batch_dim, rows.to(t.device()));
  }
  Dims all;
  for (int d = 0; d < t.dim(); ++d) all.push_back(d);
  if (t.dim() > 0) t = flip(t, all);
  if (is_floating(t.dtype())) {
    const Tensor noise =
        rand(t.shape(), {.dtype = kFloat32, .device = kCPU}, &random).to(t.device(), t.dtype());
    t = t + (noise - 0.5) * 0.1;
  }
  return t.contiguous();
}

std::vector<int> batch_dims(const std::vector<Tensor>& examples, const SaveOptions& o) {
  if (!o.dynamic_batch) return std::vector<int>(examples.size(), kNone);
  std::vector<int> dims = o.batch_dims;
  if (dims.empty()) dims.assign(examples.size(), 0);
  FERRITE_CHECK(dims.size() == examples.size(), ValueError, kSaveOp, "{} batch_dims for {} inputs",
                dims.size(), examples.size());
  std::int64_t batch = -1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) continue;
    FERRITE_CHECK(
        dims[i] < examples[i].dim(), ValueError, kSaveOp,
        "input {} is {}, which has no dimension {} for the batch; batch_dims says where it "
        "is, or -1",
        i, examples[i].describe(), dims[i]);
    const std::int64_t size = examples[i].size(dims[i]);
    FERRITE_CHECK(
        size > 0 && (batch < 0 || batch == size), ValueError, kSaveOp,
        "expected examples of one batch size above 0, got {} and {}; batch_dims says which "
        "dimension it is in each input",
        batch, size);
    batch = size;
  }
  FERRITE_CHECK(batch > 0, ValueError, kSaveOp, "dynamic_batch is set, and no input has a batch");
  return dims;
}

void describe(pb::ValueInfoProto& info, const std::string& name, const Variable& variable) {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(data::onnx_dtype(variable.dtype()));
  auto& shape = *type.mutable_shape();
  for (const Size& size : variable.shape) {
    auto& dim = *shape.add_dim();
    if (variable.has_open_shape) continue;
    if (size.is_fixed())
      dim.set_dim_value(size.fixed);
    else if (size == Size{1, 0})
      dim.set_dim_param("batch");
    else
      dim.set_dim_param(fmt::format("{}*batch{:+}", size.per_row, size.fixed));
  }
}

/// Whether what is written for this op has no shape of an input in it.
bool writes_open_shapes(std::string_view op) {
  static constexpr std::string_view kOps[] = {
      "add",         "sub",         "rsub",      "mul",          "div",         "rdiv",
      "pow",         "rpow",        "maximum",   "minimum",      "eq",          "ne",
      "lt",          "le",          "gt",        "ge",           "logical_and", "logical_or",
      "logical_xor", "logical_not", "isnan",     "where",        "masked_fill", "clamp",
      "to",          "clone",       "select",    "index_select", "embedding",   "one_hot",
      "remainder",   "fmod",        "transpose", "permute",      "unsqueeze",   "sum",
      "mean",        "amax",        "amin",      "any",          "all",         "argmax",
      "argmin",      "cumsum",      "softmax",   "log_softmax"};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

/// Writes a recording as a graph.
class Writer {
 public:
  Writer(const Recording& recording, pb::GraphProto& graph, int opset)
      : recording_(recording),
        proto_(graph),
        graph_(graph, opset),
        names_(recording.variables.size()) {}

  void write(const SaveOptions& options, const std::vector<int>& batch_dims) {
    // Names of parameters, inputs and outputs are reserved first, so that nothing else gets them.
    mark_needed();
    reserve_parameters();
    const std::vector<std::string> input_names = names_for(options.input_names,
                                                           recording_.inputs.size(), "input"),
                                   output_names = names_for(options.output_names,
                                                            recording_.outputs.size(), "output");
    for (std::size_t i = 0; i < input_names.size(); ++i) {
      names_[i] = input_names[i];
      describe(*proto_.add_input(), input_names[i], recording_.variables[i]);
      if (batch_dims[i] >= 0) graph_.set_batch(input_names[i], batch_dims[i]);
    }
    for (std::size_t i = 0; i < recording_.operations.size(); ++i)
      if (needed_[i]) write(recording_.operations[i]);
    for (std::size_t i = 0; i < output_names.size(); ++i) write_output(i, output_names[i]);
  }

 private:
  /// Finds the operations that the outputs need.
  void mark_needed() {
    std::vector<bool> variables(recording_.variables.size());
    for (const int v : recording_.outputs) variables[static_cast<std::size_t>(v)] = true;
    needed_.assign(recording_.operations.size(), false);
    for (std::size_t i = recording_.operations.size(); i-- > 0;) {
      const Operation& op = recording_.operations[i];
      for (const int v : op.outputs)
        if (v != kNone && variables[static_cast<std::size_t>(v)] &&
            recording_.variables[static_cast<std::size_t>(v)].kind == Variable::Kind::result &&
            std::ranges::find(op.inputs, v) == op.inputs.end())
          needed_[i] = true;
      if (!needed_[i]) continue;
      for (const int v : op.inputs)
        if (v != kNone) variables[static_cast<std::size_t>(v)] = true;
    }
  }

  void reserve_parameters() {
    const auto reserve = [&](int number) {
      if (number == kNone) return;
      const Variable& v = recording_.variables[static_cast<std::size_t>(number)];
      if (v.kind == Variable::Kind::parameter) graph_.reserve(v.name);
    };
    for (std::size_t i = 0; i < recording_.operations.size(); ++i)
      if (needed_[i]) std::ranges::for_each(inputs_by_name(recording_.operations[i]), reserve);
    std::ranges::for_each(recording_.outputs, reserve);
  }

  /// The given names, or others that are free.
  std::vector<std::string> names_for(const std::vector<std::string>& given, std::size_t count,
                                     const char* what) {
    FERRITE_CHECK(given.empty() || given.size() == count, ValueError, kSaveOp,
                  "{} {}_names for {} {}s", given.size(), what, count, what);
    for (const std::string& name : given)
      FERRITE_CHECK(!name.empty() && graph_.fresh(name) == name, ValueError, kSaveOp,
                    "the name '{}' of an input or output is empty, given twice or that of a "
                    "parameter",
                    name);
    if (!given.empty()) return given;
    if (count == 1) return {graph_.fresh(what)};
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i)
      names.push_back(graph_.fresh(fmt::format("{}_{}", what, i)));
    return names;
  }

  /// Those inputs that an op reads by name. Weights of recurrent layers are written in another
  /// order.
  static std::span<const int> inputs_by_name(const Operation& op) {
    const std::span<const int> all(op.inputs);
    return op.op == "rnn" ? all.first(std::min<std::size_t>(all.size(), 3)) : all;
  }

  const std::string& name_of(int number) {
    std::string& name = names_[static_cast<std::size_t>(number)];
    if (!name.empty()) return name;
    const Variable& v = recording_.variables[static_cast<std::size_t>(number)];
    if (v.kind == Variable::Kind::filled) {
      Tensor value = v.tensor.cpu().contiguous().reshape({-1});
      value = value.narrow(0, 0, 1);
      name = graph_.node("Expand", {graph_.constant(value), graph_.sizes(v.shape)});
    } else {
      name = v.kind == Variable::Kind::parameter ? graph_.parameter(v.name, v.tensor)
                                                 : graph_.constant(v.tensor);
    }
    return name;
  }

  void write(const Operation& op) {
    graph_.enter(op.path);
    const Exporter exporter = find_exporter(op.has("function") ? "unary" : op.op);
    if (!exporter) op.refuse("it has no equivalent in ONNX, or none that is written");
    const bool open = std::ranges::any_of(op.inputs, [&](int v) {
      return v != kNone && recording_.variables[static_cast<std::size_t>(v)].has_open_shape;
    });
    if (open && !op.has("function") && !writes_open_shapes(op.op))
      op.refuse("the shape of its input depends on values of the network's input");
    Exported e{graph_, op, recording_.variables, {}, std::vector<std::string>(op.outputs.size())};
    for (const int v : inputs_by_name(op)) e.inputs.push_back(v == kNone ? "" : name_of(v));
    e.inputs.resize(op.inputs.size());
    exporter(e);
    for (std::size_t i = 0; i < e.outputs.size(); ++i)
      if (op.outputs[i] != kNone && std::ranges::find(op.inputs, op.outputs[i]) == op.inputs.end())
        names_[static_cast<std::size_t>(op.outputs[i])] = e.outputs[i];
  }

  /// Makes the variable an output of the graph: by its name, or, where it has another that stays,
  /// by an Identity.
  void write_output(std::size_t i, const std::string& name) {
    graph_.enter("");
    const int number = recording_.outputs[i];
    const Variable& variable = recording_.variables[static_cast<std::size_t>(number)];
    const std::string source = name_of(number);
    bool made = false;
    for (const auto& node : proto_.node())
      made = made || std::ranges::find(node.output(), source) != node.output().end();
    for (std::size_t k = 0; k < i; ++k) made = made && names_of_outputs_[k] != source;
    if (made) {
      for (auto& node : *proto_.mutable_node()) {
        std::ranges::replace(*node.mutable_input(), source, name);
        std::ranges::replace(*node.mutable_output(), source, name);
      }
      for (std::string& other : names_)
        if (other == source) other = name;
    } else {
      auto& node = *proto_.add_node();
      node.set_name("/" + name);
      node.set_op_type("Identity");
      node.add_input(source);
      node.add_output(name);
    }
    names_of_outputs_.push_back(name);
    describe(*proto_.add_output(), name, variable);
  }

  const Recording& recording_;
  pb::GraphProto& proto_;
  Builder graph_;
  std::vector<std::string> names_;  // of the variables
  std::vector<std::string> names_of_outputs_;
  std::vector<bool> needed_;
};

}  // namespace

void detail::save(nn::Module& model, const Forward& forward, const std::vector<Tensor>& examples,
                  const std::filesystem::path& path, const SaveOptions& options) {
  FERRITE_CHECK(options.opset >= 17 && options.opset <= 20, ValueError, kSaveOp,
                "expected an opset from 17 to 20, got {}", options.opset);
  FERRITE_CHECK(!examples.empty(), ValueError, kSaveOp,
                "expected an example of each input, got none");
  for (const Tensor& t : examples)
    FERRITE_CHECK(t.defined(), ValueError, kSaveOp, "an example is undefined");
  const std::vector<int> dims = batch_dims(examples, options);
  std::int64_t batch = 0;
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i] >= 0) batch = examples[i].size(dims[i]);
  std::vector<std::int64_t> batches{batch, batch};
  if (options.dynamic_batch) batches = {batch, batch + 1, batch + 3};

  Generator random(0);
  std::vector<std::vector<Tensor>> variants{{}};
  for (const Tensor& t : examples) variants[0].push_back(t.detach());
  for (std::size_t run = 1; run < batches.size(); ++run) {
    variants.emplace_back();
    for (std::size_t i = 0; i < examples.size(); ++i)
      variants.back().push_back(varied(examples[i], dims[i], batches[run], random));
  }

  Recording recording;
  {
    const Evaluating evaluating(model);
    recording = record(model, forward, variants, batches);
  }
  if (options.fold_batch_norm) fold_batch_norms(recording);
  pb::ModelProto proto;
  proto.set_ir_version(8);
  proto.set_producer_name("Ferrite");
  proto.set_producer_version(kVersion);
  auto& opset = *proto.add_opset_import();
  opset.set_domain("");
  opset.set_version(options.opset);
  proto.mutable_graph()->set_name(model.name());
  Writer(recording, *proto.mutable_graph(), options.opset).write(options, dims);
  data::write_onnx(std::move(proto), path, {.external_data = options.external_data}, kSaveOp);
}

}  // namespace ferrite::onnx
