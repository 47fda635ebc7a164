#include "ferrite/metrics/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "ferrite/core/terminal.h"

namespace ferrite::metrics {

namespace {

constexpr int kBarWidth = 24, kLeastBarWidth = 4;
constexpr auto kTerminalInterval = std::chrono::milliseconds(100);
constexpr auto kPlainInterval = std::chrono::seconds(10);

std::string bar(double fraction, int width, BarStyle style) {
  const int eighths = static_cast<int>(fraction * width * 8);
  const int full = eighths / 8, part = eighths % 8;
  const auto spaces = [](int n) { return std::string(static_cast<std::size_t>(n), ' '); };
  if (style == BarStyle::ascii)
    return std::string(static_cast<std::size_t>(full), '#') + spaces(width - full);
  constexpr const char* kParts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  std::string text;
  for (int i = 0; i < full; ++i) text += "█";
  return text + kParts[part] + spaces(width - full - (part != 0));
}

BarStyle terminal_style() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const char* locale = std::getenv(name); locale && *locale) {
      const std::string_view text(locale);
      const bool utf8 = text.find("UTF-8") != text.npos || text.find("utf8") != text.npos;
      return utf8 ? BarStyle::blocks : BarStyle::ascii;
    }
  return BarStyle::ascii;
}

}  // namespace

std::string progress_line(const std::string& label, double fraction, const std::string& status,
                          const std::string& left, int columns, BarStyle style,
                          const std::string& detail) {
  fraction = std::clamp(fraction, 0.0, 1.0);
  std::string text = fmt::format("{:3.0f}% {} {} left{}{}", 100 * fraction, status, left,
                                 detail.empty() ? "" : "  ", detail);
  const int rest =
      columns - static_cast<int>(terminal::text_columns(label) + terminal::text_columns(text) + 4);
  if (rest >= kLeastBarWidth)
    return fmt::format("{} |{}| {}", label, bar(fraction, std::min(rest, kBarWidth), style), text);
  return terminal::text_cut(label + " " + text, static_cast<std::size_t>(std::max(columns, 0)));
}

// ---- Lines

std::string progress_label(const std::string& name, std::int64_t number, std::int64_t total) {
  const std::string last = std::to_string(total);
  return fmt::format("{} {:>{}}/{}", name, number, std::max<std::size_t>(last.size(), 2), last);
}

namespace {

std::string pass_line(const std::string& label, const char* pass, std::optional<double> loss,
                      std::optional<double> accuracy, const std::string& more) {
  std::string line = fmt::format("{}  {}", label, pass);
  if (loss) line += fmt::format(" loss {:.4f}", *loss);
  if (accuracy) line += fmt::format(" accuracy {:.4f}", *accuracy);
  return more.empty() ? line : line + "  " + more;
}

}  // namespace

std::string train_line(const std::string& label, std::optional<double> loss,
                       std::optional<double> accuracy, const std::string& more) {
  return pass_line(label, "train", loss, accuracy, more);
}

std::string test_line(const std::string& label, std::optional<double> loss,
                      std::optional<double> accuracy, const std::string& more) {
  return pass_line(std::string(terminal::text_columns(label), ' '), "test ", loss, accuracy, more);
}

// ---- ProgressBar

ProgressBar::ProgressBar(std::string label, std::int64_t total)
    : label_(std::move(label)),
      total_(std::max<std::int64_t>(total, 1)),
      terminal_(terminal::redraws()) {}

ProgressBar::~ProgressBar() {
  if (!shown_) return;
  fmt::print("\r\033[K");
  std::fflush(stdout);
}

bool ProgressBar::due(std::int64_t step) const {
  const auto since = Clock::now() - last_;
  return terminal_ ? since >= kTerminalInterval || step == total_ : since >= kPlainInterval;
}

void ProgressBar::update(std::int64_t step, const std::string& status, const std::string& detail) {
  last_ = Clock::now();
  const double fraction = static_cast<double>(std::min(step, total_)) / static_cast<double>(total_);
  const std::string left = format_eta(step, total_, seconds());
  shown_ = terminal_;
  if (terminal_)  // one column less than available: some terminals wrap when the last is written
    fmt::print("\r\033[K{}", progress_line(label_, fraction, status, left, terminal::width() - 1,
                                           terminal_style(), detail));
  else
    fmt::print("{} step {}/{} {} {} left{}{}\n", label_, step, total_, status, left,
               detail.empty() ? "" : "  ", detail);
  std::fflush(stdout);
}

void ProgressBar::finish(const std::string& line) {
  fmt::print("{}{}\n", terminal_ ? "\r\033[K" : "", line);
  std::fflush(stdout);
  shown_ = false;
}

}  // namespace ferrite::metrics
