// An event-based reader of shallow, untrusted JSON: it takes time and memory linear in the input,
// unlike a tree of values if an object has many members.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/data/file.h"

namespace ferrite::data {

/// The start of a value: the members of a list or an object follow.
struct JsonValue {
  enum class Kind : std::uint8_t { object, list, text, count, other };
  Kind kind;
  std::string* text = nullptr;  ///< for strings; may be moved from
  std::uint64_t count = 0;      ///< an integer of 0 or more
};

/// Derive from it for each kind of document.
class JsonEvents {
 public:
  /// The nesting of a safetensors header: {name: {shape: [.
  static constexpr std::size_t kMaxDepth = 3;

  /// `what` the document is, for messages: "header".
  explicit JsonEvents(const Where& where, std::uint64_t offset, std::string_view what = "header")
      : where_(where), offset_(offset), what_(what) {}
  virtual ~JsonEvents() = default;

  /// Reads `text`, which begins at byte `offset` of the file. IoError if it is not JSON, nests
  /// deeper than kMaxDepth, or an object has a duplicate name (detected at the object's end).
  void read(std::string_view text);

 protected:
  virtual void value(const JsonValue& value) = 0;
  /// The end of an object or a list, once depth() is back to its value at the start.
  virtual void end() = 0;

  /// Number of open objects and lists around the value.
  std::size_t depth() const { return depth_; }
  /// The member name at `depth`, from 1, on the path to the value.
  const std::string& name(std::size_t depth) const { return names_[depth - 1].back(); }
  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    where_.check(condition, offset_, format, std::forward<Args>(args)...);
  }

 private:
  struct Sax;

  const Where& where_;
  const std::uint64_t offset_;
  const std::string_view what_;
  std::size_t depth_ = 0;
  std::array<std::vector<std::string>, kMaxDepth> names_;  // of the members so far, by depth
};

/// `text` as a quoted JSON string. json::exception if it is not UTF-8.
std::string json_text(std::string_view text);

}  // namespace ferrite::data
