// Text from files, for terminals.
#pragma once

#include <string>
#include <string_view>

namespace ferrite::inspect {

/// The text with its control characters, and bytes that are no UTF-8, written as in Python: "\n",
/// "\x1b". A terminal would execute them.
std::string printable(std::string_view text);

/// A JSON text, all of whose control characters stand in strings, with those that JSON does not
/// require to be escaped (DEL, C1) written as "\u009b", too.
std::string printable_json(const std::string& json);

}  // namespace ferrite::inspect
