// Options of a few values: an enum, or the string that PyTorch has for the value.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "ferrite/core/error.h"

namespace ferrite {

namespace detail {
/// What Choice<E> knows of E, specialised beside the enum: `kOption`, which names it in errors, and
/// `kNames`, pairs of PyTorch's name and the value. Of several names of a value the first counts.
template <class E>
struct ChoiceNames;
}  // namespace detail

/// A value of the enum E, or PyTorch's name of it: `{.reduction = Reduction::sum}` or
/// `{.reduction = "sum"}`. ValueError for other names.
template <class E>
class Choice {
 public:
  constexpr Choice(E value) : value_(value) {}
  // A template, so that 0 is no name.
  template <std::convertible_to<std::string_view> S>
  Choice(const S& name) : value_(named(name)) {}
  constexpr operator E() const { return value_; }
  /// PyTorch's name of the value.
  constexpr const char* name() const {
    for (const auto& [name, value] : detail::ChoiceNames<E>::kNames)
      if (value == value_) return name;
    return "";
  }

 private:
  static E named(std::string_view given) {
    std::string names;
    for (const auto& [name, value] : detail::ChoiceNames<E>::kNames) {
      if (given == name) return value;
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", name);
    }
    fail<ValueError>(detail::ChoiceNames<E>::kOption, "expected one of {}, got \"{}\"", names,
                     given);
  }

  E value_;
};

}  // namespace ferrite
