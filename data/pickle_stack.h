// The input and the stack of the machine that reads pickles.
#pragma once

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ferrite/data/pickle.h"

namespace ferrite::data {

/// What its instructions do to the stack, the marks on it and the memo. All errors are IoErrors at
/// the position of the instruction.
class PickleStack {
 public:
  using Object = PickledObject;
  using Kind = Object::Kind;

  PickleStack(Bytes bytes, const Where& where, std::uint64_t offset)
      : bytes_(bytes), where_(where), base_(offset) {}

 protected:
  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    where_.check(condition, base_ + begin_, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    where_.fail(base_ + begin_, format, std::forward<Args>(args)...);
  }

  // -- Input

  Bytes take(std::uint64_t count) {
    check(count <= bytes_.size() - at_, "the pickle ends within a value of {} bytes", count);
    const Bytes part = bytes_.subspan(at_, count);
    at_ += count;
    return part;
  }
  template <class T>
  T number() {
    return load_little<T>(take(sizeof(T)).data());
  }
  std::string text(std::uint64_t count) {
    const Bytes part = take(count);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::string line() {
    const Bytes rest = bytes_.subspan(at_);
    const auto end = std::find(rest.begin(), rest.end(), std::uint8_t{'\n'});
    check(end != rest.end(), "the pickle ends within a line");
    std::string out = text(static_cast<std::uint64_t>(end - rest.begin()));
    ++at_;
    return out;
  }

  // -- Stack

  Object* make(Kind kind) {
    out_.objects.emplace_back();
    out_.objects.back().kind = kind;
    return &out_.objects.back();
  }
  void push(Object* object) { stack_.push_back(object); }
  Object* push(Kind kind) { return push(make(kind)), stack_.back(); }
  void push_text(Kind kind, std::string text) { push(kind)->text = std::move(text); }
  /// The value on top stands for one of this type.
  void mark(const char* type) { top()->was = type; }
  void push_integer(std::int64_t value) { push(Kind::integer)->integer = value; }
  /// Two's complement, little endian.
  void push_long(Bytes digits) {
    check(digits.size() <= 8, "integers of more than 64 bits are not supported, got {} bytes",
          digits.size());
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < digits.size(); ++i) value |= std::uint64_t{digits[i]} << 8 * i;
    const auto bits = 8 * digits.size();
    if (bits && bits < 64 && value >> (bits - 1)) value |= ~std::uint64_t{0} << bits;
    push_integer(static_cast<std::int64_t>(value));
  }
  std::size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
  Object* top() const {
    check(stack_.size() > bottom(), "expected a value on the stack, which is empty");
    return stack_.back();
  }
  Object* pop() {
    Object* object = top();
    stack_.pop_back();
    return object;
  }
  std::vector<Object*> pop_mark() {
    check(!marks_.empty(), "expected a mark on the stack, there is none");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Object*> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  void push_items(Kind kind, std::vector<Object*> items) {
    check(kind != Kind::dict || items.size() % 2 == 0, "a dict has a key without a value");
    push(kind)->items = std::move(items);
  }
  void push_tuple(std::size_t count) {
    std::vector<Object*> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_items(Kind::tuple, std::move(items));
  }
  void extend(Kind kind, const std::vector<Object*>& items) {
    Object* target = top();
    check(target->kind == kind, "expected a {} to add to", kind == Kind::list ? "list" : "dict");
    check(kind != Kind::dict || items.size() % 2 == 0, "a dict has a key without a value");
    target->items.insert(target->items.end(), items.begin(), items.end());
  }
  void put(std::uint64_t index) { memo_[index] = top(); }
  void get(std::uint64_t index) {
    const auto found = memo_.find(index);
    check(found != memo_.end(), "the memo has no entry {}", index);
    push(found->second);
  }
  /// Bounds what calls copy, which a pickle can make often of the same large value.
  void count_copied(std::size_t amount) {
    copied_ += amount;
    check(copied_ <= bytes_.size(), "calls copy more than the pickle's {} bytes", bytes_.size());
  }

  Bytes bytes_;
  Where where_;
  std::uint64_t base_;
  std::size_t at_ = 0, begin_ = 0;  // begin_: of the instruction
  std::size_t copied_ = 0;
  Pickle out_;
  std::vector<Object*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, Object*> memo_;
};

}  // namespace ferrite::data
