// JSON of little depth, read without trust, as a row of events: in time and memory that are linear
// in its size, which a tree of values is not where an object has many members.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/data/file.h"

namespace ferrite::data {

/// A value as it begins: of a list or an object, the members follow.
struct JsonValue {
  enum class Kind : std::uint8_t { object, list, text, count, other };
  Kind kind;
  std::string* text = nullptr;  ///< of text; may be moved from
  std::uint64_t count = 0;      ///< an integer of 0 or more
};

/// To be derived from for each kind of text.
class JsonEvents {
 public:
  /// What the header of a safetensors file nests: {name: {shape: [.
  static constexpr std::size_t kMaxDepth = 3;

  explicit JsonEvents(const Where& where, std::uint64_t offset) : where_(where), offset_(offset) {}
  virtual ~JsonEvents() = default;

  /// Reads `text`, which begins at byte `offset` of the file. IoError where it is no JSON, nests
  /// deeper than kMaxDepth, or where an object has a name twice (found where the object ends).
  void read(std::string_view text);

 protected:
  virtual void value(const JsonValue& value) = 0;
  /// The end of an object or a list, once depth() is that of the place where it began.
  virtual void end() = 0;

  /// Objects and lists that are open around the value.
  std::size_t depth() const { return depth_; }
  /// The value's name in the object that it is a member of at `depth`, from 1.
  const std::string& name(std::size_t depth) const { return names_[depth - 1].back(); }
  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    where_.check(condition, offset_, format, std::forward<Args>(args)...);
  }

 private:
  struct Sax;

  const Where& where_;
  const std::uint64_t offset_;
  std::size_t depth_ = 0;
  std::array<std::vector<std::string>, kMaxDepth> names_;  // of the members so far, by depth
};

/// `text` as JSON has it, in quotes. json::exception where it is not UTF-8.
std::string json_text(std::string_view text);

}  // namespace ferrite::data
