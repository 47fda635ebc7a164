#include "ferrite/metrics/text.h"

namespace ferrite::metrics {

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos && !text.starts_with(' ') && !text.ends_with(' '))
    return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace ferrite::metrics
