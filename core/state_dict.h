// StateDict: tensors by name, in insertion order. The type that modules and optimizers pass to
// save() and receive from load().
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"

namespace ferrite {

class StateDict {
 public:
  using value_type = std::pair<std::string, Tensor>;
  /// Over names and tensors, in order.
  using const_iterator = std::vector<value_type>::const_iterator;

  StateDict() = default;
  /// Throws ValueError if a name occurs twice.
  StateDict(std::initializer_list<value_type> entries);

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }

  bool contains(std::string_view name) const { return index_of(name) != kMissing; }
  /// end() if there is none.
  const_iterator find(std::string_view name) const;
  /// Throws IndexError naming the closest entry if there is none.
  const Tensor& at(std::string_view name) const;
  const Tensor& operator[](std::string_view name) const { return at(name); }
  /// For `dict["x"] = t`, which is insert_or_assign(), and `Tensor t = dict["x"]`, which is at().
  /// Without an entry to read it throws as at() does; `auto t = dict["x"]` is not a tensor.
  class Entry;
  Entry operator[](std::string_view name);

  /// Appends; throws ValueError if the name is taken or empty, or the tensor undefined.
  void insert(std::string name, Tensor tensor);
  /// Replaces in place, or appends.
  void insert_or_assign(std::string name, Tensor tensor);
  /// Appends every entry of `other` as prefix + name.
  void insert_all(std::string_view prefix, const StateDict& other);
  /// The same entries in memory of their own.
  StateDict clone() const {
    StateDict copies;
    for (const auto& [name, tensor] : entries_) copies.insert(name, tensor.clone());
    return copies;
  }
  /// Whether there was such an entry. Takes time linear in the size.
  bool erase(std::string_view name);
  /// Memory for so many entries.
  void reserve(std::size_t count);

 private:
  static constexpr std::size_t kMissing = static_cast<std::size_t>(-1);
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };

  std::size_t index_of(std::string_view name) const;

  std::vector<value_type> entries_;
  std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> index_;
};

class StateDict::Entry {
 public:
  void operator=(Tensor tensor) && {
    dict_.insert_or_assign(std::string(name_), std::move(tensor));
  }
  /// `dict["y"] = dict["x"]`: both names refer to the same tensor.
  void operator=(Entry&& other) && { std::move(*this) = Tensor(other.dict_.at(other.name_)); }
  operator const Tensor&() && { return dict_.at(name_); }
  const Tensor* operator->() && { return &dict_.at(name_); }

 private:
  friend class StateDict;
  Entry(StateDict& dict, std::string_view name) : dict_(dict), name_(name) {}
  Entry(const Entry&) = default;

  StateDict& dict_;
  std::string_view name_;
};

inline StateDict::Entry StateDict::operator[](std::string_view name) { return {*this, name}; }

namespace detail {
/// A word as an entry: uint8, 1-dimensional, its letters.
Tensor letters_of(std::string_view word);
/// The word of such an entry.
std::string word_of(const Tensor& letters);
}  // namespace detail

}  // namespace ferrite
