#include "ferrite/data/value.h"

#include <cmath>
#include <unordered_map>
#include <variant>

#include "ferrite/core/closest.h"
#include "ferrite/data/value_names.h"

namespace ferrite::data {

namespace {

constexpr const char* kValueOp = "value";

/// Identifies a key: kinds that Python takes for equal (1, 1.0, True) share a text.
std::string key_text(const Value& key) {
  switch (key.kind()) {
    case Value::Kind::string:
      return "s" + key.to_string();
    case Value::Kind::bytes:
      return "b" + key.to_string();
    case Value::Kind::none:
      return "n";
    case Value::Kind::boolean:
    case Value::Kind::integer:
    case Value::Kind::real:
      return key.kind() == Value::Kind::real && key.to_double() != std::floor(key.to_double())
                 ? fmt::format("d{}", key.to_double())
                 : fmt::format("i{}", key.to_int());
    case Value::Kind::tuple: {
      std::string text = "(";
      for (const Value& item : key.items()) {
        const std::string part = key_text(item);
        text += fmt::format("{}:{}", part.size(), part);
      }
      return text;
    }
    default:
      fail<ValueError>(kValueOp, "a {} cannot be a key of a dict", name(key.kind()));
  }
}

}  // namespace

struct Value::Data {
  struct Sequence {
    List items;
    bool is_tuple = false;
  };
  struct Bytes {
    std::string content;
  };
  struct Map {
    Dict entries;
    std::unordered_map<std::string, std::size_t> index;  // by key_text()
    bool is_counter = false;
  };
  // In the order of Kind, from boolean on.
  std::variant<bool, std::int64_t, double, std::string, Bytes, Tensor, Sequence, Map> value;
};

std::string_view name(Value::Kind kind) {
  constexpr std::string_view names[] = {"None",  "bool",   "int",  "float", "string",
                                        "bytes", "tensor", "list", "tuple", "dict"};
  return names[static_cast<std::size_t>(kind)];
}

Value Value::boolean(bool value) { return Value(std::make_shared<const Data>(Data{value})); }
Value Value::integer(std::int64_t value) {
  return Value(std::make_shared<const Data>(Data{value}));
}
Value::Value(double value) : data_(std::make_shared<const Data>(Data{value})) {}
Value::Value(std::string text) : data_(std::make_shared<const Data>(Data{std::move(text)})) {}
Value::Value(Tensor tensor) {
  FERRITE_CHECK(tensor.defined(), ValueError, kValueOp, "the tensor is undefined");
  data_ = std::make_shared<const Data>(Data{std::move(tensor)});
}
Value::Value(const StateDict& tensors) {
  Dict entries;
  for (const auto& [key, tensor] : tensors) entries.emplace_back(key, tensor);
  *this = dict(std::move(entries));
}
Value Value::bytes(std::string content) {
  return Value(std::make_shared<const Data>(Data{Data::Bytes{std::move(content)}}));
}
Value Value::list(List items) {
  return Value(std::make_shared<const Data>(Data{Data::Sequence{std::move(items), false}}));
}
Value Value::tuple(List items) {
  return Value(std::make_shared<const Data>(Data{Data::Sequence{std::move(items), true}}));
}
Value Value::counter(Dict entries) {
  Data::Map map = std::get<Data::Map>(dict(std::move(entries)).data_->value);
  map.is_counter = true;
  return Value(std::make_shared<const Data>(Data{std::move(map)}));
}
Value Value::dict(Dict entries) {
  Data::Map map{.entries = std::move(entries), .index = {}};
  for (std::size_t i = 0; i < map.entries.size(); ++i)
    FERRITE_CHECK(map.index.emplace(key_text(map.entries[i].first), i).second, ValueError, kValueOp,
                  "expected each key of a dict once, got {} twice", map.entries[i].first.str());
  return Value(std::make_shared<const Data>(Data{std::move(map)}));
}

bool Value::is_counter() const { return is_dict() && std::get<Data::Map>(data_->value).is_counter; }

Value::Kind Value::kind() const {
  if (!data_) return Kind::none;
  if (const auto* sequence = std::get_if<Data::Sequence>(&data_->value))
    return sequence->is_tuple ? Kind::tuple : Kind::list;
  if (std::holds_alternative<Data::Map>(data_->value)) return Kind::dict;
  return static_cast<Kind>(data_->value.index() + 1);
}

const Value::Data& Value::get(Kind wanted) const {
  FERRITE_CHECK(kind() == wanted, ValueError, kValueOp, "expected a {}, got {} {}", name(wanted),
                name(kind()), str());
  return *data_;
}

bool Value::to_bool() const { return std::get<bool>(get(Kind::boolean).value); }
std::int64_t Value::to_int() const {
  if (kind() == Kind::boolean) return to_bool() ? 1 : 0;
  if (kind() == Kind::real) {
    const double value = std::get<double>(data_->value);
    FERRITE_CHECK(value == std::floor(value) && std::abs(value) < 9e18, ValueError, kValueOp,
                  "expected a whole number, got {}", value);
    return static_cast<std::int64_t>(value);
  }
  return std::get<std::int64_t>(get(Kind::integer).value);
}
double Value::to_double() const {
  if (kind() == Kind::boolean || kind() == Kind::integer) return static_cast<double>(to_int());
  return std::get<double>(get(Kind::real).value);
}
const std::string& Value::to_string() const {
  if (kind() == Kind::bytes) return std::get<Data::Bytes>(data_->value).content;
  return std::get<std::string>(get(Kind::string).value);
}
const Tensor& Value::to_tensor() const { return std::get<Tensor>(get(Kind::tensor).value); }
const Value::List& Value::items() const {
  FERRITE_CHECK(is_list(), ValueError, kValueOp, "expected a list or a tuple, got {} {}",
                name(kind()), str());
  return std::get<Data::Sequence>(data_->value).items;
}
const Value::Dict& Value::entries() const {
  return std::get<Data::Map>(get(Kind::dict).value).entries;
}

std::size_t Value::size() const { return is_list() ? items().size() : entries().size(); }

bool Value::contains(const Value& key) const {
  return std::get<Data::Map>(get(Kind::dict).value).index.contains(key_text(key));
}

const Value& Value::operator[](const Value& key) const {
  if (is_list()) {
    const std::int64_t i = key.to_int(), count = static_cast<std::int64_t>(items().size());
    FERRITE_CHECK(i >= -count && i < count, IndexError, kValueOp,
                  "position {} is out of range for a {} of {} items", i, name(kind()), count);
    return items()[static_cast<std::size_t>(i < 0 ? i + count : i)];
  }
  const auto& map = std::get<Data::Map>(get(Kind::dict).value);
  const auto found = map.index.find(key_text(key));
  if (found != map.index.end()) return map.entries[found->second].second;
  std::vector<std::string> names;
  for (const auto& entry : map.entries)
    if (entry.first.kind() == Kind::string) names.push_back(entry.first.to_string());
  const std::string wanted = key.kind() == Kind::string ? key.to_string() : key.str();
  const auto closest = closest_names(wanted, std::move(names), 1);
  fail<IndexError>(kValueOp, "the dict has no key {}{}", key.str(),
                   closest.empty() ? "" : fmt::format("; the closest is '{}'", closest[0]));
}

StateDict Value::tensors() const {
  FERRITE_CHECK(is_list() || is_dict(), ValueError, kValueOp,
                "expected a dict or a list that holds tensors, got {} {}", name(kind()), str());
  StateDict all;
  for_each_named(*this, [&all](const std::string& name, const Value& value) {
    if (value.is_tensor()) all.insert(name, value.to_tensor());
    return value.is_tensor();
  });
  return all;
}

namespace {

constexpr std::size_t kMostPrinted = 20;  // items of a list
constexpr int kDeepestPrinted = 4;

std::string text_of(const Value& value, int depth) {
  const auto joined = [&](std::string_view open, const auto& list, std::string_view close,
                          const auto& text) {
    std::string out(open);
    if (depth == kDeepestPrinted) return out + (list.empty() ? "" : "...") + std::string(close);
    for (std::size_t i = 0; i < std::min(list.size(), kMostPrinted); ++i)
      out += (i ? ", " : "") + text(list[i]);
    if (list.size() > kMostPrinted) out += fmt::format(", ... {} in all", list.size());
    return out + std::string(close);
  };
  const auto item = [&](const Value& v) { return text_of(v, depth + 1); };
  switch (value.kind()) {
    case Value::Kind::none:
      return "None";
    case Value::Kind::boolean:
      return value.to_bool() ? "True" : "False";
    case Value::Kind::integer:
      return fmt::format("{}", value.to_int());
    case Value::Kind::real:
      return fmt::format("{}", value.to_double());
    case Value::Kind::string: {
      const std::string& text = value.to_string();
      return text.size() <= 200 ? "'" + text + "'" : "'" + text.substr(0, 200) + "...'";
    }
    case Value::Kind::bytes:
      return fmt::format("{} bytes", value.to_string().size());
    case Value::Kind::tensor:
      return value.to_tensor().describe();
    case Value::Kind::list:
      return joined("[", value.items(), "]", item);
    case Value::Kind::tuple:
      return joined("(", value.items(), value.size() == 1 ? ",)" : ")", item);
    case Value::Kind::dict:
      return joined("{", value.entries(), "}",
                    [&](const auto& e) { return item(e.first) + ": " + item(e.second); });
  }
  return {};
}

}  // namespace

std::string Value::str() const { return text_of(*this, 0); }

}  // namespace ferrite::data
