#include "ferrite/core/warning.h"

#include <fmt/format.h>

#include <cstdio>
#include <mutex>
#include <utility>

namespace ferrite {

namespace {

void write_line(std::string_view warning) { fmt::print(stderr, "Warning: {}\n", warning); }

struct Warnings {
  std::mutex mutex;
  WarningHandler handler = write_line;
};

Warnings& warnings() {
  static Warnings the;
  return the;
}

}  // namespace

WarningHandler set_warning_handler(WarningHandler handler) {
  std::lock_guard lock(warnings().mutex);
  return std::exchange(warnings().handler, std::move(handler));
}

void warn_once(std::atomic<bool>& given, std::string_view op, const std::string& text) {
  if (!given.exchange(true)) warn(op, text);
}

void warn(std::string_view op, const std::string& text) {
  std::lock_guard lock(warnings().mutex);
  if (warnings().handler) warnings().handler(fmt::format("[{}] {}", op, text));
}

}  // namespace ferrite
