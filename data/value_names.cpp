#include "ferrite/data/value_names.h"

#include <cstddef>
#include <unordered_set>

namespace ferrite::data {

namespace {

// Bytes that hold a part of a tree, at least, and an entry of a StateDict beside its name, at most.
constexpr std::size_t kItem = 16, kTensor = 64, kEntry = 192;
constexpr std::size_t kAlways = 1'000'000;  // that names may take
constexpr std::size_t kMostPerByte = 16;    // of the values

/// Adds up the memory of a tree; what occurs several times counts once.
class ValueMemory {
 public:
  explicit ValueMemory(const Value& root) { add(root); }
  std::size_t bytes() const { return bytes_; }

 private:
  void add(const Value& value) {
    if (value.is_tensor()) {
      bytes_ += is_new(&value.to_tensor()) ? kTensor : 0;
    } else if (value.is_list() && is_new(&value.items())) {
      bytes_ += kItem * value.size();
      for (const Value& item : value.items()) add(item);
    } else if (value.is_dict() && is_new(&value.entries())) {
      for (const auto& [key, item] : value.entries()) {
        bytes_ += 2 * kItem + (key.kind() == Value::Kind::string ? key.to_string().size() : 0);
        add(item);
      }
    }
  }
  bool is_new(const void* part) { return seen_.insert(part).second; }

  std::size_t bytes_ = 0;
  std::unordered_set<const void*> seen_;
};

class NameWalk {
 public:
  NameWalk(const Value& root, const TakeNamed& take) : root_(root), take_(take) {}

  void run() { visit(root_); }

 private:
  void visit(const Value& value) {
    if (take_(name_, value)) return count();
    if (value.is_list())
      for (std::size_t i = 0; i < value.size(); ++i) visit(std::to_string(i), value.items()[i]);
    if (value.is_dict())
      for (const auto& [key, item] : value.entries())
        visit(key.kind() == Value::Kind::string ? key.to_string() : key.str(), item);
  }
  void visit(const std::string& key, const Value& value) {
    const std::size_t length = name_.size();
    if (length > 0) name_ += '.';
    name_ += key;
    visit(value);
    name_.resize(length);
  }

  /// A StateDict has each name twice.
  void count() {
    used_ += 2 * name_.size() + kEntry;
    if (used_ <= most_) return;
    if (most_ == kAlways) most_ += kMostPerByte * ValueMemory(root_).bytes();
    FERRITE_CHECK(used_ <= most_, ValueError, "value",
                  "expected names that take at most {} bytes, which is {} times the memory of the "
                  "values; keys are too long for values that occur so often",
                  most_, kMostPerByte);
  }

  const Value& root_;
  const TakeNamed& take_;
  std::string name_;
  std::size_t used_ = 0, most_ = kAlways;
};

}  // namespace

void for_each_named(const Value& root, const TakeNamed& take) { NameWalk(root, take).run(); }

}  // namespace ferrite::data
