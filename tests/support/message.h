// Messages of expected exceptions.
#pragma once

#include <doctest/doctest.h>

#include <exception>
#include <string>
#include <string_view>

namespace ferrite::test {

/// The message of the E thrown by f(); a description if it throws nothing or something else.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  }
  return "no exception";
}

/// Whether `part` is in `text`; a check that fails shows the text.
inline bool contains(std::string_view text, std::string_view part) {
  const bool found = text.find(part) != std::string_view::npos;
  if (!found) MESSAGE("\"", part, "\" is not in \"", text, "\"");
  return found;
}

}  // namespace ferrite::test
