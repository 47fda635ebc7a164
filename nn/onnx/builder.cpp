#include "ferrite/nn/onnx/builder.h"

#include <algorithm>

#include "ferrite/ops/creation.h"

namespace ferrite::onnx {

std::string Builder::fresh(const std::string& name) {
  std::string unique = name;
  while (!names_.insert(unique).second) unique = fmt::format("{}_{}", name, ++counts_[name]);
  return unique;
}

std::vector<std::string> Builder::nodes(const char* type, const std::vector<std::string>& inputs,
                                        const std::vector<NamedAttribute>& attributes,
                                        int outputs) {
  pb::NodeProto& node = *graph_.add_node();
  std::string place = "/" + path_;
  std::ranges::replace(place, '.', '/');
  if (!path_.empty()) place += '/';
  node.set_name(fresh(place + type));
  node.set_op_type(type);
  std::size_t used = inputs.size();
  while (used > 0 && inputs[used - 1].empty()) --used;
  for (std::size_t i = 0; i < used; ++i) node.add_input(inputs[i]);
  for (const auto& [name, value] : attributes) {
    pb::AttributeProto& a = *node.add_attribute();
    a.set_name(name);
    if (const auto* i = std::get_if<std::int64_t>(&value)) {
      a.set_type(pb::AttributeProto::INT);
      a.set_i(*i);
    } else if (const auto* f = std::get_if<float>(&value)) {
      a.set_type(pb::AttributeProto::FLOAT);
      a.set_f(*f);
    } else if (const auto* s = std::get_if<std::string>(&value)) {
      a.set_type(pb::AttributeProto::STRING);
      a.set_s(*s);
    } else if (const auto* t = std::get_if<Tensor>(&value)) {
      a.set_type(pb::AttributeProto::TENSOR);
      *a.mutable_t() = data::onnx_tensor("", t->detach().cpu().contiguous());
    } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      a.set_type(pb::AttributeProto::STRINGS);
      for (const std::string& text : *texts) a.add_strings(text);
    } else {
      a.set_type(pb::AttributeProto::INTS);
      for (const std::int64_t v : std::get<std::vector<std::int64_t>>(value)) a.add_ints(v);
    }
  }
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i)
    names.push_back(fresh(fmt::format("{}_output_{}", node.name(), i)));
  for (const std::string& name : names) node.add_output(name);
  return names;
}

void Builder::reserve(const std::string& name) {
  if (names_.insert(name).second) reserved_.insert(name);
}

std::string Builder::parameter(const std::string& name, const Tensor& tensor) {
  if (reserved_.erase(name) > 0) names_.erase(name);
  return initializer(name, tensor);
}

std::string Builder::initializer(const std::string& name, const Tensor& tensor) {
  const std::string unique = fresh(name);
  *graph_.add_initializer() = data::onnx_tensor(unique, tensor.detach().cpu().contiguous());
  return unique;
}

std::string Builder::constant(const Tensor& tensor) {
  return is_floating(tensor.dtype()) ? node("Constant", {}, {{"value", tensor}})
                                     : initializer("constant", tensor);
}

std::string Builder::integers(const std::vector<std::int64_t>& values) {
  std::string& name = lists_[values];
  if (name.empty())
    name = initializer(
        "sizes", from_vector<std::int64_t>(values, {static_cast<std::int64_t>(values.size())}));
  return name;
}

std::string Builder::scalar(Scalar value, DType dtype) {
  const std::string key =
      value.is_floating() ? fmt::format("{} {:a}", ferrite::name(dtype), value.to<double>())
                          : fmt::format("{} {}", ferrite::name(dtype), value.to<std::int64_t>());
  std::string& name = scalars_[key];
  if (name.empty()) name = constant(full({}, value, {.dtype = dtype, .device = kCPU}));
  return name;
}

std::string Builder::filled(std::int64_t count, double value, DType dtype) {
  std::string& name = scalars_[fmt::format("{} {} {:a}", count, ferrite::name(dtype), value)];
  if (name.empty()) name = constant(full({count}, value, {.dtype = dtype, .device = kCPU}));
  return name;
}

std::string Builder::batch() {
  if (!batch_.empty()) return batch_;
  const std::string outer = std::exchange(path_, "");
  batch_ = node("Gather", {node("Shape", {batch_input_}), integers({batch_dim_})},
                {{"axis", std::int64_t{0}}});
  path_ = outer;
  return batch_;
}

std::string Builder::sizes(const Sizes& all, bool infers) {
  const auto varying = std::ranges::count_if(all, [](const Size& s) { return !s.is_fixed(); });
  if (varying == 0 || (infers && varying == 1)) {
    std::vector<std::int64_t> values;
    for (const Size& s : all) values.push_back(s.is_fixed() ? s.fixed : -1);
    return integers(values);
  }
  std::vector<std::string> parts;
  std::vector<std::int64_t> run;
  const auto close = [&] {
    if (!run.empty()) parts.push_back(integers(run));
    run.clear();
  };
  for (const Size& s : all) {
    if (s.is_fixed()) {
      run.push_back(s.fixed);
      continue;
    }
    close();
    std::string size = batch();
    if (s.per_row != 1) size = node("Mul", {size, integers({s.per_row})});
    if (s.fixed != 0) size = node("Add", {size, integers({s.fixed})});
    parts.push_back(size);
  }
  close();
  return parts.size() == 1 ? parts[0] : node("Concat", parts, {{"axis", std::int64_t{0}}});
}

std::string Builder::cast(const std::string& value, DType from, DType to) {
  if (from == to) return value;
  return node("Cast", {value}, {{"to", std::int64_t{data::onnx_dtype(to)}}});
}

Exporter find_exporter(const std::string& op) {
  for (const ExporterTable* table :
       {&elementwise_exporters(), &layer_exporters(), &shape_exporters(), &reduction_exporters()})
    if (const auto found = table->find(op); found != table->end()) return found->second;
  return nullptr;
}

}  // namespace ferrite::onnx
