// A tree of values, as Python programs save them: numbers, text, tensors, and lists and dicts of
// them.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"

namespace ferrite::data {

/// Immutable; copies share what they hold.
///
///   const Value run = load_pth("run.pth");
///   model.load_state_dict(run["model"].tensors());
///   const double lr = run["optimizer"]["param_groups"][0]["lr"].to_double();
class Value {
 public:
  /// The kinds of Python values.
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    string,
    bytes,
    tensor,
    list,
    tuple,
    dict
  };
  using List = std::vector<Value>;  ///< the items of a list or tuple
  /// In insertion order; keys are strings, integers or other plain values, each once.
  using Dict = std::vector<std::pair<Value, Value>>;

  Value() = default;  ///< none
  template <std::same_as<bool> T>
  Value(T value) : Value(boolean(value)) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Value(T value)
      : Value(integer(static_cast<std::int64_t>(value))) {}
  Value(double value);
  Value(std::string text);
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(Tensor tensor);
  /// A dict of the tensors.
  Value(const StateDict& tensors);
  /// A value of bytes.
  static Value bytes(std::string content);
  /// A list of these values.
  static Value list(List items);
  /// A tuple of these values.
  static Value tuple(List items);
  /// ValueError if a key occurs twice or is no plain value.
  static Value dict(Dict entries);
  /// The same as Python's collections.Counter, a dict that counts its keys.
  static Value counter(Dict entries);

  /// What kind of Python value it is.
  Kind kind() const;
  /// Whether it is None.
  bool is_none() const { return kind() == Kind::none; }
  /// Whether it is a tensor.
  bool is_tensor() const { return kind() == Kind::tensor; }
  /// Whether it is a dict.
  bool is_dict() const { return kind() == Kind::dict; }
  /// Whether it is a dict that was made by counter(). Files that are read have plain dicts.
  bool is_counter() const;
  /// A list or a tuple.
  bool is_list() const { return kind() == Kind::list || kind() == Kind::tuple; }

  // ValueError, naming both kinds, if it is another. Numbers convert: integers and booleans to
  // double, booleans and whole doubles to integers.
  /// Its value as bool: ValueError, naming what it is, if it is something else.
  bool to_bool() const;
  /// Its value as an integer: ValueError, naming what it is, if it is something else.
  std::int64_t to_int() const;
  /// Its value as double: ValueError, naming what it is, if it is no number.
  double to_double() const;
  /// The text of a string, or the bytes of bytes.
  const std::string& to_string() const;
  /// The tensor: ValueError, naming what it is, if it is something else.
  const Tensor& to_tensor() const;
  const List& items() const;    ///< of a list or tuple
  const Dict& entries() const;  ///< of a dict

  /// Elements of a list, tuple or dict.
  std::size_t size() const;
  bool contains(const Value& key) const;
  /// The entry of a dict; IndexError naming the closest key if there is none. An integer also
  /// selects an item of a list or tuple. Takes time linear in the size for keys that are no
  /// strings.
  const Value& operator[](const Value& key) const;

  /// All tensors below this value, under their keys joined by dots ("model.fc.weight",
  /// "optimizer.state.0.momentum_buffer"); positions stand for the keys of lists. ValueError where
  /// two would have one name, or the value is a tensor itself, or the names would take more than
  /// 1 MB and 16 times the memory of the values, as with a long key above a list in which one
  /// tensor occurs very often.
  StateDict tensors() const;

  /// As Python prints it, with tensors by dtype and shape; what is long or deep is shortened.
  std::string str() const;

 private:
  struct Data;
  explicit Value(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  static Value boolean(bool value);
  static Value integer(std::int64_t value);
  const Data& get(Kind kind) const;

  std::shared_ptr<const Data> data_;  // null: none
};

std::string_view name(Value::Kind kind);

}  // namespace ferrite::data
