#include "ferrite/core/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace ferrite::terminal {

namespace {

constexpr std::string_view kReset = "\033[0m", kStartOver = "\r\033[K", kGap = "  ";

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

std::string_view code(Style style) {
  switch (style) {
    case Style::bold:
      return "\033[1m";
    case Style::dim:
      return "\033[2m";
    case Style::red:
      return "\033[31m";
    case Style::green:
      return "\033[32m";
    case Style::yellow:
      return "\033[33m";
  }
  return "";
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

void write(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

}  // namespace

void flush_lines() {
  if (!isatty(fileno(stdout))) std::setvbuf(stdout, nullptr, _IOLBF, 0);
}

bool redraws(std::FILE* stream) {
  const std::string_view kind = variable("TERM");
  return isatty(fileno(stream)) != 0 && !kind.empty() && kind != "dumb";
}

bool has_styles(std::FILE* stream) { return redraws(stream) && variable("NO_COLOR").empty(); }

int width(std::FILE* stream) {
  winsize size{};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string styled(std::string_view text, Style style, std::FILE* stream) {
  if (!has_styles(stream)) return std::string(text);
  return std::string(code(style)).append(text).append(kReset);
}

std::string error_line(std::string_view text) {
  return styled("error:", Style::red, stderr).append(" ").append(text).append("\n");
}

std::string usage_error(const void* /*app*/, const std::exception& error) {
  return error_line(error.what()) + "Run with --help for more information.\n";
}

// ---- Text in columns

std::size_t text_columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string text_cut(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (; end < text.size(); ++end)
    if (begins_character(text[end]) && columns-- == 0) break;
  while (end > 0 && text[end - 1] == ' ') --end;
  return std::string(text.substr(0, end));
}

std::string text_padded(std::string_view text, std::size_t columns, Align align) {
  const std::size_t taken = text_columns(text);
  const std::string spaces(columns > taken ? columns - taken : 0, ' ');
  return align == Align::left ? std::string(text) + spaces : spaces + std::string(text);
}

// ---- Line

void Line::show(std::string_view text) {
  if (!shown_) return;
  // One column less than available: some terminals wrap when the last is written.
  const auto most = static_cast<std::size_t>(std::max(width(stream_) - 1, 0));
  write(stream_, std::string(kStartOver) + text_cut(text, most));
  std::fflush(stream_);
  dirty_ = true;
}

void Line::clear() {
  if (!dirty_) return;
  write(stream_, kStartOver);
  std::fflush(stream_);
  dirty_ = false;
}

// ---- Table

std::string Table::text(std::FILE* stream) const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t most = std::max(columns_[c].width, text_columns(columns_[c].title));
    for (const auto& row : rows_)
      if (c + 1 < row.size() ||
          (c < row.size() && row.size() == columns_.size() && columns_[c].align == Align::right))
        most = std::max(most, text_columns(row[c]));
    widths.push_back(most);
  }
  const auto line = [&](const auto& cell, std::size_t cells) {
    std::string text;
    for (std::size_t c = 0; c < cells; ++c) {
      const bool last_of_few = c + 1 == cells && cells < columns_.size();
      if (c > 0) text += kGap;
      text += text_padded(cell(c), widths[c], last_of_few ? Align::left : columns_[c].align);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  const std::string heading =
      line([&](std::size_t c) -> const std::string& { return columns_[c].title; }, columns_.size());
  std::string out = (stream ? styled(heading, Style::bold, stream) : heading) + "\n";
  for (const auto& row : rows_)
    out += line([&](std::size_t c) -> const std::string& { return row[c]; }, row.size()) + "\n";
  return out;
}

void Table::print(std::FILE* stream) const { write(stream, text(stream)); }

}  // namespace ferrite::terminal
