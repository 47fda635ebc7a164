#include "ferrite/ops/renamed.h"

#include <fmt/format.h>

#include <string_view>

namespace ferrite::ops {

namespace {

/// The errors that an op's caller can fix; others keep their names.
template <class... Errors>
struct OneOf {};

template <class E>
void throw_renamed(const char* op, const Error& error) {
  if (!dynamic_cast<const E*>(&error)) return;
  const std::string_view text = error.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string_view::npos;
  if (end != std::string_view::npos) throw E(fmt::format("[{}{}", op, text.substr(end)));
}

template <class... Errors>
void throw_one_renamed(const char* op, const Error& error, OneOf<Errors...>) {
  (throw_renamed<Errors>(op, error), ...);
}

}  // namespace

void detail::rethrow_as(const char* op) {
  try {
    throw;
  } catch (const Error& error) {
    throw_one_renamed(
        op, error, OneOf<ShapeError, DTypeError, DeviceError, IndexError, ValueError, CudaError>());
    throw;
  }
}

}  // namespace ferrite::ops
