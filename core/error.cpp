#include "ferrite/core/error.h"

#include <fmt/format.h>

namespace ferrite {

const char* Error::what() const noexcept {
  return notes_ ? notes_->message.c_str() : std::runtime_error::what();
}

std::string Error::path() const { return notes_ ? notes_->path : std::string(); }

/// Notes of this error alone: copies of an exception share theirs.
Error::Notes& Error::own_notes() {
  notes_ = std::make_shared<Notes>(notes_ ? *notes_ : Notes{{}, std::runtime_error::what()});
  return *notes_;
}

void Error::set_path(std::string_view path) {
  if (path.empty() || !this->path().empty()) return;
  Notes& notes = own_notes();
  notes.path = path;
  notes.message = fmt::format("in {}: {}", path, notes.message);
}

void Error::add_note(std::string_view text) {
  std::string& message = own_notes().message;
  message = fmt::format("{}\n{}", message, text);
}

namespace detail {

std::string format_error(std::string_view op, fmt::string_view format, fmt::format_args args) {
  return fmt::format("[{}] {}", op, fmt::vformat(format, args));
}

}  // namespace detail
}  // namespace ferrite
