// What an expected exception says.
#pragma once

#include <exception>
#include <string>

namespace ferrite::test {

/// What the E that f() throws says; says so where it throws nothing or something else.
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

}  // namespace ferrite::test
