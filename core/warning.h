// Warnings: what is allowed but rarely meant. Most are given once in a process.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

namespace ferrite {

/// Called with "[op] text"; the default writes a line to standard error. An empty one silences
/// warnings. Returns the one that was set before. Any thread may warn.
using WarningHandler = std::function<void(std::string_view)>;
/// Who gets warnings, instead of stderr.
WarningHandler set_warning_handler(WarningHandler handler);

/// Calls the handler with "[op] text".
void warn(std::string_view op, const std::string& text);
/// Warns unless `given` says that it was done.
void warn_once(std::atomic<bool>& given, std::string_view op, const std::string& text);

}  // namespace ferrite
