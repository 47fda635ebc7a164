// State dicts of optimizers, schedulers and scalers: Ferrite's are flat and of tensors, PyTorch's
// are trees.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

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

/// MultiStepLR counts how often it has each milestone; here they are a list.
constexpr std::string_view kCounted = "milestones";
constexpr std::int64_t kMostEqual = 64;  // more are a damaged file, which must not take much memory

bool is_count(const std::string& name, const Value& value) {
  const auto fits = [](const auto& entry) {
    return entry.first.kind() == Value::Kind::integer &&
           entry.second.kind() == Value::Kind::integer && entry.second.to_int() >= 0 &&
           entry.second.to_int() <= kMostEqual;
  };
  return (name == kCounted || name.ends_with(fmt::format(".{}", kCounted))) && value.is_dict() &&
         std::ranges::all_of(value.entries(), fits);
}

Tensor elements_of(const Value& count) {
  std::vector<std::int64_t> elements;
  for (const auto& [element, times] : count.entries())
    elements.insert(elements.end(), static_cast<std::size_t>(times.to_int()), element.to_int());
  return from_vector(elements, {std::ssize(elements)});
}

Value count_of(const Tensor& elements) {
  std::map<std::int64_t, std::int64_t> times;
  for (const std::int64_t element : elements.to_vector<std::int64_t>()) ++times[element];
  Value::Dict entries;
  for (const auto& [element, count] : times) entries.emplace_back(element, count);
  return Value::counter(std::move(entries));
}

/// An option of an optimizer that is a word, and empty for None.
bool is_word(const std::string& name, const Value& value) {
  return name.starts_with("param_groups.") &&
         (value.is_none() || value.kind() == Value::Kind::string);
}

/// Numbers of the host are numbers in PyTorch, but for the states of parameters.
Value leaf(const std::string& name, const Tensor& tensor, bool of_parameter) {
  if (of_parameter || tensor.dim() > 1 || tensor.is_complex() || !tensor.device().is_host())
    return tensor;
  if (tensor.dim() == 1 && tensor.dtype() == kUInt8)
    return tensor.numel() == 0 ? Value() : Value(ferrite::detail::word_of(tensor));
  if (tensor.dim() == 1 && name == kCounted) return count_of(tensor);
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
  bool has(std::string_view key) const {
    return std::ranges::any_of(children, [&](const auto& c) { return c.first == key; });
  }
};

/// What PyTorch's load_state_dict() asks for, although there is nothing to be told.
void add_absent(const Node& node, Value::Dict& entries) {
  if (node.has("prev_flat_grad") && !node.has("old_dirs"))  // LBFGS after its first iteration
    for (const char* key : {"old_dirs", "old_stps", "ro"})
      entries.emplace_back(key, Value::list({}));
  if (!node.has("_step_count") || !node.has("_last_lr")) return;
  FERRITE_CHECK(!node.has("warmup_steps") || !node.has("start_factor"), ValueError,
                "state_for_torch",
                "PyTorch has no WarmupLR: use SequentialLR with LinearLR for runs that go on in "
                "PyTorch, and safetensors for those that go on here");
  constexpr std::string_view common[] = {"last_epoch", "_step_count", "base_lrs", "_last_lr"};
  if (std::ranges::all_of(node.children, [&](const auto& c) {
        return std::ranges::find(common, c.first) != std::end(common);
      }))
    entries.emplace_back("lr_lambdas", Value::list({}));  // LambdaLR and MultiplicativeLR
  if (node.has("step_ratio")) entries.emplace_back("_scale_fn_custom", Value());  // CyclicLR
}

Value tree_of(const Node& node, const std::string& name, bool of_parameter) {
  if (node.tensor.defined()) return leaf(name, node.tensor, of_parameter);
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
  if (!numbered || states) {
    add_absent(node, entries);
    return Value::dict(std::move(entries));
  }
  Value::List items;
  for (auto& entry : entries) items.push_back(std::move(entry.second));
  return items[0].is_dict() || of_parameter ? Value::list(std::move(items))
                                            : Value::tuple(std::move(items));
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
    else if (is_count(name, value))
      state.insert(name, elements_of(value));
    else if (is_word(name, value))
      state.insert(name, ferrite::detail::letters_of(value.is_none() ? "" : value.to_string()));
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
