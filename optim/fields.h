// The numbers of an options struct by name: how they are checked, saved and loaded.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ferrite/core/state_dict.h"

namespace ferrite::optim {

/// The values that a field may have. NaN is in no range.
struct Range {
  const char* text;  ///< the allowed values, for messages
  /// The smallest allowed value.
  double low = -std::numeric_limits<double>::infinity();
  /// The largest allowed value.
  double high = std::numeric_limits<double>::infinity();
  bool open_low = false, open_high = false;  ///< whether the end itself is left out

  /// Whether all numbers are allowed: in a dict NaN, too, such as the best value of a metric.
  bool is_any() const { return low == -high && high == std::numeric_limits<double>::infinity(); }
  bool contains(double v) const {
    return (open_low ? v > low : v >= low) && (open_high ? v < high : v <= high);
  }
};
/// Any number is allowed.
inline constexpr Range kAnyNumber{"a number"};
/// 0 or more.
inline constexpr Range kNonNegative{"0 or more", 0};
/// Above 0.
inline constexpr Range kPositive{"above 0", 0, kAnyNumber.high, true};
/// From 0 to 1.
inline constexpr Range kUnit{"from 0 to 1", 0, 1};
/// From 0 to below 1.
inline constexpr Range kBelowOne{"in [0, 1)", 0, 1, false, true};
/// Above 0, at most 1.
inline constexpr Range kPositiveUnit{"in (0, 1]", 0, 1, true};

/// An option that is a word, such as the name of a method; empty where PyTorch has None.
struct Word {
  std::string* value;                         ///< where it is
  std::span<const std::string_view> allowed;  ///< the words that it may be
};

/// An option, and where it is: a number, several, or a word.
struct Field {
  const char* name;  ///< in state dicts
  /// Where the option is.
  std::variant<double*, std::int64_t*, bool*, std::vector<double>*, std::vector<std::int64_t>*,
               Word>
      value;
  Range range = kAnyNumber;  ///< of a single number
  /// Whether a dict may lack it, so that the option stays as it is.
  bool optional = false;

  /// Words and flags may always be lacking: dicts of PyTorch's versions before an option have none.
  bool may_be_lacking() const {
    return optional || std::holds_alternative<Word>(value) || std::holds_alternative<bool*>(value);
  }
};
using Fields = std::vector<Field>;
/// Both.
inline Fields operator+(Fields a, const Fields& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// ValueError where a number is out of its range; `op` is the name that errors begin with. Words
/// are left to the options.
void check_fields(const Fields& fields, const char* op);

/// As prefix + name: numbers 0-dimensional (float64, or int64 of an int64), vectors 1-dimensional,
/// words as the uint8 of their letters.
void save_fields(const Fields& fields, StateDict& dict, const std::string& prefix);

/// ValueError where a name is missing that may not be lacking, a tensor has not as many numbers as
/// the field has now (vectors of int64 may have any), a number is out of its range, or a word is
/// none of those allowed; with `check_only` nothing is changed.
void load_fields(const Fields& fields, const StateDict& dict, const std::string& prefix,
                 const char* op, bool check_only);

/// A 0-dimensional tensor on the host.
template <class T>
Tensor host_scalar(T value) {
  return from_vector<T>({value}, Shape());
}

}  // namespace ferrite::optim
