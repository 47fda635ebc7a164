#include "ferrite/core/error.h"

#include <fmt/format.h>

namespace ferrite {

const char* Error::what() const noexcept {
  return origin_ && !origin_->path.empty() ? origin_->message.c_str() : std::runtime_error::what();
}

std::string Error::path() const { return origin_ ? origin_->path : std::string(); }

void Error::note_module(const void* module, const std::string& path) {
  if (!origin_) origin_ = std::make_shared<Origin>();
  origin_->module = module;
  if (path.empty()) return;
  origin_->path = origin_->path.empty() ? path : path + "." + origin_->path;
  origin_->message = fmt::format("in {}: {}", origin_->path, std::runtime_error::what());
}

const void* Error::noted_module() const noexcept { return origin_ ? origin_->module : nullptr; }

namespace detail {

std::string format_error(std::string_view op, fmt::string_view format, fmt::format_args args) {
  return fmt::format("[{}] {}", op, fmt::vformat(format, args));
}

}  // namespace detail
}  // namespace ferrite
