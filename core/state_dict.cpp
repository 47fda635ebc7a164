#include "ferrite/core/state_dict.h"

#include "ferrite/core/closest.h"

namespace ferrite {

StateDict::StateDict(std::initializer_list<value_type> entries) {
  reserve(entries.size());
  for (const auto& [name, tensor] : entries) insert(name, tensor);
}

std::size_t StateDict::index_of(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? kMissing : found->second;
}

StateDict::const_iterator StateDict::find(std::string_view name) const {
  const std::size_t i = index_of(name);
  return i == kMissing ? end() : begin() + static_cast<std::ptrdiff_t>(i);
}

const Tensor& StateDict::at(std::string_view name) const {
  const std::size_t i = index_of(name);
  if (i != kMissing) return entries_[i].second;
  if (empty()) fail<IndexError>("state_dict", "no entry '{}': the state dict is empty", name);
  std::vector<std::string> names;
  for (const value_type& e : entries_) names.push_back(e.first);
  fail<IndexError>("state_dict", "no entry '{}' among {}; the closest name is '{}'", name, size(),
                   closest_names(name, std::move(names)).front());
}

void StateDict::insert(std::string name, Tensor tensor) {
  FERRITE_CHECK(!name.empty(), ValueError, "state_dict", "an entry needs a name, got ''");
  FERRITE_CHECK(tensor.defined(), ValueError, "state_dict", "entry '{}' is an undefined tensor",
                name);
  FERRITE_CHECK(!contains(name), ValueError, "state_dict",
                "there is an entry '{}' already; use insert_or_assign to replace it", name);
  index_.emplace(name, entries_.size());
  entries_.emplace_back(std::move(name), std::move(tensor));
}

void StateDict::insert_or_assign(std::string name, Tensor tensor) {
  const std::size_t i = index_of(name);
  if (i == kMissing) return insert(std::move(name), std::move(tensor));
  FERRITE_CHECK(tensor.defined(), ValueError, "state_dict", "entry '{}' is an undefined tensor",
                name);
  entries_[i].second = std::move(tensor);
}

void StateDict::insert_all(std::string_view prefix, const StateDict& other) {
  // A copy of the handles, because `other` may be this dict.
  for (const auto& [name, tensor] : std::vector(other.begin(), other.end()))
    insert(std::string(prefix) + name, tensor);
}

bool StateDict::erase(std::string_view name) {
  const std::size_t i = index_of(name);
  if (i == kMissing) return false;
  index_.erase(index_.find(name));
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
  for (auto& [key, position] : index_)
    if (position > i) --position;
  return true;
}

void StateDict::reserve(std::size_t count) {
  entries_.reserve(count);
  index_.reserve(count);
}

Tensor detail::letters_of(std::string_view word) {
  return from_vector(std::vector<std::uint8_t>(word.begin(), word.end()), {std::ssize(word)});
}

std::string detail::word_of(const Tensor& letters) {
  const std::vector<std::uint8_t> all = letters.to_vector<std::uint8_t>();
  return {all.begin(), all.end()};
}

}  // namespace ferrite
