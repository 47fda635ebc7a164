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
  static Warnings& instance = *new Warnings;  // never destroyed: threads may outlive statics
  return instance;
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
  // Called without the lock, because a handler may warn and set another.
  const WarningHandler handler = [] {
    const std::lock_guard lock(warnings().mutex);
    return warnings().handler;
  }();
  if (handler) handler(fmt::format("[{}] {}", op, text));
}

}  // namespace ferrite
