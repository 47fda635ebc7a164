// State dicts of optimizers, schedulers and scalers: Ferrite's are flat and of tensors, PyTorch's
// are trees.
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "ferrite/data/pth.h"
#include "ferrite/data/value_names.h"

namespace ferrite::data {

namespace {

bool is_number(const Value& value) {
  return value.kind() == Value::Kind::boolean || value.kind() == Value::Kind::integer ||
         value.kind() == Value::Kind::real;
}

/// A tensor of one dimension, or of none, with the numbers of `list`.
Tensor numbers_of(const Value::List& list, const Shape& shape) {
  if (std::ranges::any_of(list, [](const Value& v) { return v.kind() == Value::Kind::real; })) {
    std::vector<double> values;
    for (const Value& item : list) values.push_back(item.to_double());
    return from_vector(values, shape);
  }
  std::vector<std::int64_t> values;
  for (const Value& item : list) values.push_back(item.to_int());
  return from_vector(values, shape);
}

bool is_list_of_numbers(const Value& value) {
  return value.kind() == Value::Kind::list && !value.items().empty() &&
         std::ranges::all_of(value.items(), is_number);
}

std::optional<std::int64_t> index_of(const std::string& key) {
  std::int64_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc() || end != key.data() + key.size()) return {};
  return index;
}

/// Numbers of the host are numbers in PyTorch, but for the states of parameters.
Value leaf(const Tensor& tensor, bool of_parameter) {
  if (of_parameter || tensor.dim() > 1 || tensor.is_complex() || !tensor.device().is_host())
    return tensor;
  Value::List items;
  if (is_floating(tensor.dtype()))
    for (const double v : tensor.to_vector<double>()) items.emplace_back(v);
  else
    for (const std::int64_t v : tensor.to_vector<std::int64_t>()) items.emplace_back(v);
  return tensor.dim() == 0 ? items[0] : Value::list(std::move(items));
}

struct Node {
  std::vector<std::pair<std::string, Node>> children = {};
  Tensor tensor = {};

  Node& child(const std::string& key) {
    for (auto& [name, node] : children)
      if (name == key) return node;
    return children.emplace_back(key, Node{}).second;
  }
};

Value tree_of(const Node& node, const std::string& name, bool of_parameter) {
  if (node.tensor.defined()) return leaf(node.tensor, of_parameter);
  const bool states = name == "state";
  Value::Dict entries;
  bool numbered = !node.children.empty();
  for (const auto& [key, child] : node.children) {
    const auto index = index_of(key);
    numbered &= index == static_cast<std::int64_t>(entries.size());
    Value value = tree_of(child, key, of_parameter || states);
    if (states && index)
      entries.emplace_back(*index, std::move(value));
    else
      entries.emplace_back(key, std::move(value));
  }
  if (!numbered || states) return Value::dict(std::move(entries));
  Value::List items;
  for (auto& entry : entries) items.push_back(std::move(entry.second));
  return items[0].is_dict() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

}  // namespace

StateDict state_of_torch(const Value& tree) {
  StateDict state;
  for_each_named(tree, [&state](const std::string& name, const Value& value) {
    if (value.is_tensor())
      state.insert(name, value.to_tensor());
    else if (is_number(value))
      state.insert(name, numbers_of({value}, {}));
    else if (is_list_of_numbers(value))
      state.insert(name, numbers_of(value.items(), {std::ssize(value.items())}));
    else
      return false;
    return true;
  });
  return state;
}

Value state_for_torch(const StateDict& state) {
  Node root;
  bool has_groups = false;
  for (const auto& [name, tensor] : state) {
    Node* node = &root;
    std::size_t begin = 0;
    for (std::size_t dot = 0; dot != std::string::npos; begin = dot + 1) {
      dot = name.find('.', begin);
      node = &node->child(name.substr(begin, dot - begin));
    }
    node->tensor = tensor;
    has_groups |= name.starts_with("param_groups.");
  }
  if (has_groups) root.child("state");  // PyTorch wants it even of an optimizer without states
  return tree_of(root, "", false);
}

}  // namespace ferrite::data
