#include "ferrite/core/error.h"

#include <fmt/format.h>

namespace ferrite::detail {

std::string format_error(std::string_view op, fmt::string_view format, fmt::format_args args) {
  return fmt::format("[{}] {}", op, fmt::vformat(format, args));
}

}  // namespace ferrite::detail
