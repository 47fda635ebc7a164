// Exceptions. Every error a user can cause says what was expected, what was got and what to do,
// tagged with the operation: "[conv2d] input has 3 channels, weight expects 4".
#pragma once

#include <fmt/core.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace ferrite {

/// Base of everything Ferrite throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

  /// The message, after the path of the module in which the error arose, if there is one:
  /// "in layer2.0.conv1: [conv2d] ...".
  const char* what() const noexcept override;

  /// The path of the module in which the error arose, forward or backward, as seen from the
  /// outermost module that was called; empty outside of modules and in the outermost one.
  std::string path() const;

  /// For modules: sets path(), unless it is set already or `path` is empty.
  void set_path(std::string_view path);
  /// Adds a line or more to what().
  void add_note(std::string_view text);

 private:
  struct Notes {
    std::string path, message;
  };
  Notes& own_notes();
  std::shared_ptr<Notes> notes_;  // null without a path and notes
};

class ShapeError : public Error {
  using Error::Error;
};  ///< sizes or ranks do not fit
class DTypeError : public Error {
  using Error::Error;
};  ///< element type not accepted
class DeviceError : public Error {
  using Error::Error;
};  ///< wrong, mixed or absent device
class IndexError : public Error {
  using Error::Error;
};  ///< index or dimension out of range
class ValueError : public Error {
  using Error::Error;
};  ///< an argument's value is not allowed
class AutogradError : public Error {
  using Error::Error;
};  ///< misuse of the tape
class IoError : public Error {
  using Error::Error;
};  ///< files: missing, truncated, malformed
class CudaError : public Error {
  using Error::Error;
};  ///< a CUDA call or kernel failed
class DistributedError : public Error {
  using Error::Error;
};  ///< a process group failed

/// An allocation failed even after cached memory was released.
class OutOfMemoryError : public Error {
  using Error::Error;
};

namespace detail {
std::string format_error(std::string_view op, fmt::string_view format, fmt::format_args args);
}

/// Throws `E` with the message "[op] text".
template <class E = Error, class... Args>
[[noreturn]] void fail(std::string_view op, fmt::format_string<Args...> format, Args&&... args) {
  throw E(detail::format_error(op, format, fmt::make_format_args(args...)));
}

}  // namespace ferrite

/// Throws `E` unless `condition` holds; the message's arguments are evaluated only on failure.
#define FERRITE_CHECK(condition, E, op, ...) \
  do {                                       \
    if (!(condition)) [[unlikely]]           \
      ::ferrite::fail<E>(op, __VA_ARGS__);   \
  } while (false)
