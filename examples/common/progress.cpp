#include "examples/common/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace examples {

namespace {

constexpr int kBarWidth = 24;
constexpr auto kTerminalInterval = std::chrono::milliseconds(100);
constexpr auto kPlainInterval = std::chrono::seconds(10);

std::string bar(double fraction) {
  const int eighths = static_cast<int>(fraction * kBarWidth * 8);
  constexpr const char* kParts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  std::string text;
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  text += kParts[eighths % 8];
  const int drawn = eighths / 8 + (eighths % 8 != 0);
  return text + std::string(static_cast<std::size_t>(kBarWidth - drawn), ' ');
}

std::string clock_time(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace

Progress::Progress(std::string label, std::int64_t total)
    : label_(std::move(label)),
      total_(std::max<std::int64_t>(total, 1)),
      terminal_(isatty(STDOUT_FILENO) != 0) {}

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

bool Progress::due(std::int64_t step) const {
  const auto since = Clock::now() - last_;
  return terminal_ ? since >= kTerminalInterval || step == total_ : since >= kPlainInterval;
}

void Progress::update(std::int64_t step, const std::string& status) {
  last_ = Clock::now();
  const double fraction = static_cast<double>(std::min(step, total_)) / static_cast<double>(total_);
  const std::string left = clock_time(fraction > 0 ? seconds() * (1 - fraction) / fraction : 0);
  if (terminal_)
    fmt::print("\r\033[K{} |{}| {:3.0f}% {} {} left", label_, bar(fraction), 100 * fraction, status,
               left);
  else
    fmt::print("{} step {}/{} {} {} left\n", label_, step, total_, status, left);
  std::fflush(stdout);
}

void Progress::finish(const std::string& line) {
  fmt::print("{}{}\n", terminal_ ? "\r\033[K" : "", line);
  std::fflush(stdout);
}

}  // namespace examples
